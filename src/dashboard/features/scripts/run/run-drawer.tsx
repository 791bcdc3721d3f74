import { Anchor, Button, Drawer, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { useJobStandings } from '../../../live/index.ts';
import { JobStateBadge, PagedTable, StateBadge, tallyText } from '../../../ui/index.ts';
import { DeviceOutput } from './device-output.tsx';
import { type Run, standingOf } from './outcome.ts';

const PER_PAGE = 20;

/** What a script does on each device, as it happens. It goes on when this is closed. */
export function RunDrawer({ run, onClose }: { run: Run | undefined; onClose: () => void }) {
  return (
    <Drawer opened={run !== undefined} onClose={onClose} position="right" size="xl" title={run?.title ?? ''}>
      {run !== undefined && <Outcomes run={run} />}
    </Drawer>
  );
}

function Outcomes({ run: { outcomes } }: { run: Run }) {
  const ids = useMemo(() => outcomes.flatMap(({ commandId }) => commandId ?? []), [outcomes]);
  const standings = useJobStandings(ids);
  const [page, setPage] = useState(1);
  const [shown, setShown] = useState(ids.length === 1 ? ids[0] : undefined);
  const rows = outcomes.map((outcome) => ({ ...outcome, ...standingOf(outcome, standings) }));
  const open = rows.find(({ commandId }) => commandId !== undefined && commandId === shown);
  return (
    <Stack gap="sm">
      <Text size="sm" component="output" aria-live="polite">
        {tallyText(rows)}
      </Text>
      <PagedTable
        label="Outcome for each device"
        rows={rows.slice((page - 1) * PER_PAGE, page * PER_PAGE)}
        keyOf={({ deviceId }) => deviceId}
        page={{ page, limit: PER_PAGE, total: rows.length }}
        onPage={setPage}
        columns={[
          {
            header: 'Device',
            isName: true,
            cell: ({ deviceId, name, commandId }) => (
              <Anchor
                inherit
                renderRoot={(props) => (
                  <Link
                    {...props}
                    to="/devices/$deviceId"
                    params={{ deviceId }}
                    search={commandId === undefined ? {} : { tab: 'commands', command: commandId }}
                  />
                )}
              >
                {name}
              </Anchor>
            ),
          },
          {
            header: 'Outcome',
            cell: ({ state, exitCode }) =>
              state === 'refused' ? (
                <StateBadge tone="bad" label="Refused" />
              ) : (
                <JobStateBadge state={state} exitCode={exitCode} />
              ),
          },
          { header: 'Message', cell: ({ message }) => message || '–' },
          {
            header: 'Output',
            align: 'right',
            cell: ({ name, commandId }) =>
              commandId === undefined ? null : (
                <Button
                  size="compact-xs"
                  variant={commandId === shown ? 'light' : 'subtle'}
                  aria-label={`Show the output of ${name}`}
                  aria-pressed={commandId === shown}
                  onClick={() => setShown(commandId === shown ? undefined : commandId)}
                >
                  Output
                </Button>
              ),
          },
        ]}
      />
      {open?.commandId !== undefined && (
        <DeviceOutput key={open.commandId} commandId={open.commandId} name={open.name} state={open.state} />
      )}
      <Text size="xs">This goes on when it is closed. Each device lists its commands.</Text>
    </Stack>
  );
}
