import { Button, Group, List, SegmentedControl, Stack, Text } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { useJobStandings } from '../../live/index.ts';
import { DataTable, type DataColumn } from '../../ui/data-table.tsx';
import {
  JobStateBadge,
  formatCount,
  saveFile,
  StateBadge,
  tallyText,
  toCsv,
  Drawer,
  TextLink,
} from '../../ui/index.ts';
import { type OutcomeStanding, type Run, standingOf } from '../scripts/index.ts';

interface Row extends OutcomeStanding {
  deviceId: string;
  name: string;
  commandId: string | undefined;
  backupJobId: string | undefined;
}

const keyOf = (row: Row): string => row.deviceId;
/** To what a device made of it. */
const linkTo = ({ deviceId, commandId, backupJobId }: Row) =>
  ({
    to: '/devices/$deviceId',
    params: { deviceId },
    search:
      commandId !== undefined
        ? ({ tab: 'commands', command: commandId } as const)
        : backupJobId !== undefined
          ? ({ tab: 'backup' } as const)
          : {},
  }) as const;

/** Per-device result of a bulk action, updated by the commands of the devices. */
export function ResultDrawer({ run, onClose }: { run: Run | undefined; onClose: () => void }) {
  return (
    <Drawer
      opened={run !== undefined}
      onClose={onClose}
      size="lg"
      title={run?.title ?? ''}
      styles={{ content: { display: 'flex', flexDirection: 'column' }, body: { flex: 1, minHeight: 0 } }}
    >
      {run !== undefined && <Outcomes run={run} />}
    </Drawer>
  );
}

function Outcomes({ run: { outcomes, runId } }: { run: Run }) {
  const navigate = useNavigate();
  const [shows, setShows] = useState('all');
  const [sort, setSort] = useState({ column: 'device', descending: false });
  const ids = useMemo(() => outcomes.flatMap(({ commandId }) => commandId ?? []), [outcomes]);
  const standings = useJobStandings(ids);
  const rows = useMemo(
    () =>
      outcomes.map((outcome): Row => {
        const { deviceId, name, commandId, backupJobId } = outcome;
        return { deviceId, name, commandId, backupJobId, ...standingOf(outcome, standings) };
      }),
    [outcomes, standings],
  );
  const shown = rows.filter(({ group }) => shows === 'all' || shows === group);
  return (
    <Stack gap="xs" h="100%">
      <Group justify="space-between">
        <Text size="sm" component="output" aria-live="polite">
          {tallyText(rows)}
        </Text>
        <Button
          variant="default"
          leftSection={<IconDownload size={14} aria-hidden />}
          onClick={() =>
            saveFile(
              'outcomes.csv',
              toCsv([
                ['Device', 'Outcome', 'Message', 'Command'],
                ...rows.map((row) => [row.name, row.text, row.message, row.commandId]),
              ]),
            )
          }
        >
          Export CSV
        </Button>
      </Group>
      <Refusals rows={rows} />
      <SegmentedControl
        aria-label="Which devices"
        data={[
          { value: 'all', label: 'All' },
          { value: 'open', label: 'Running' },
          { value: 'bad', label: 'Refused or failed' },
        ]}
        value={shows}
        onChange={setShows}
      />
      <DataTable
        label="Outcome for each device"
        rows={shown}
        columns={COLUMNS}
        keyOf={keyOf}
        sort={sort}
        onSort={setSort}
        onOpen={(row) => void navigate(linkTo(row))}
      />
      {runId !== undefined && (
        <TextLink size="sm" to="/scripts/runs/$runId" params={{ runId }}>
          Open the script run
        </TextLink>
      )}
      {ids.length > 0 && (
        <Text size="xs">Commands go on when this is closed. Each device lists them under Commands.</Text>
      )}
    </Stack>
  );
}

/** More names than these are in the table only. */
const NAMED = 10;

/** Each reason once, with the devices that were refused because of it. */
function Refusals({ rows }: { rows: readonly Row[] }) {
  const namesByReason = new Map<string, string[]>();
  for (const { state, message, name } of rows) {
    if (state !== 'refused') continue;
    const names = namesByReason.get(message);
    if (names === undefined) namesByReason.set(message, [name]);
    else names.push(name);
  }
  if (namesByReason.size === 0) return null;
  return (
    <List size="sm" aria-label="Why devices were refused">
      {[...namesByReason].map(([reason, names]) => (
        <List.Item key={reason}>
          {formatCount(names.length)} refused: {reason} {names.slice(0, NAMED).join(', ')}
          {names.length > NAMED && ` and ${formatCount(names.length - NAMED)} more`}
        </List.Item>
      ))}
    </List>
  );
}

const COLUMNS: readonly DataColumn<Row>[] = [
  {
    id: 'device',
    header: 'Device',
    width: 180,
    value: ({ name }) => name,
    cell: (row) => (
      <TextLink size="sm" tabIndex={-1} {...linkTo(row)}>
        {row.name}
      </TextLink>
    ),
  },
  {
    id: 'state',
    header: 'Outcome',
    width: 130,
    value: ({ text }) => text,
    cell: ({ state, exitCode }) =>
      state === 'refused' ? (
        <StateBadge tone="bad" label="Refused" />
      ) : state === 'started' ? (
        <StateBadge tone="good" label="Started" />
      ) : state === 'done' ? (
        <StateBadge tone="good" label="Done" />
      ) : (
        <JobStateBadge state={state} exitCode={exitCode} />
      ),
  },
  {
    id: 'message',
    header: 'Why',
    width: 260,
    value: ({ message }) => message,
    cell: ({ message }) => <span title={message}>{message || '–'}</span>,
  },
];
