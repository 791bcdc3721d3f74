import { Button, Group, Stack, Text } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import type { DeviceSummary, QueryOutcome } from '../../../protocol/index.ts';
import { useNames } from '../../directory.ts';
import { Empty, formatCount, saveFile, toCsv, TextLink } from '../../ui/index.ts';
import { DataTable, type DataColumn } from '../../ui/data-table.tsx';
import type { LogSearch } from './log-search.ts';

type Outcome = QueryOutcome['outcome'];

export const OUTCOME_NAMES: Record<Outcome, string> = {
  answered: 'Answered',
  no_match: 'No match',
  offline: 'Offline',
  error: 'Error',
  timed_out: 'Timed out',
  cancelled: 'Cancelled',
};

/** "Answered" means that entries came: a device that read its log and found none is "no match". */
export const OUTCOMES: readonly Outcome[] = [
  'answered',
  'no_match',
  'offline',
  'error',
  'timed_out',
  'cancelled',
];

export function groupOutcomes(outcomes: readonly QueryOutcome[]): Record<Outcome, QueryOutcome[]> {
  const groups: Record<Outcome, QueryOutcome[]> = {
    answered: [],
    no_match: [],
    offline: [],
    error: [],
    timed_out: [],
    cancelled: [],
  };
  for (const outcome of outcomes) groups[outcome.outcome].push(outcome);
  return groups;
}

const MEANINGS: Record<Outcome, string> = {
  answered: 'These devices have sent entries.',
  no_match: 'These devices have read their log, and no entry meets the conditions.',
  offline: 'These devices are not connected. Their stored events can be read.',
  error: 'These devices, or the server, refused the query.',
  timed_out: 'These devices did not finish within 30 seconds. What they sent is kept.',
  cancelled: 'These devices were not asked to the end.',
};

/** The devices that had one outcome. */
export function OutcomeList({
  outcome,
  outcomes,
  devices,
  view,
}: {
  outcome: Outcome;
  outcomes: readonly QueryOutcome[];
  devices: ReadonlyMap<string, DeviceSummary>;
  /** The conditions with which the log of a device opens. */
  view: LogSearch;
}) {
  const names = useNames();
  const nameOf = (id: string) => {
    const device = devices.get(id);
    return device === undefined ? id : (device.displayName ?? device.hostname);
  };
  const linkTo = (deviceId: string) => (
    <TextLink
      size="sm"
      to="/devices/$deviceId/logs"
      params={{ deviceId }}
      search={outcome === 'offline' ? { ...view, log: undefined, stored: true } : view}
    >
      {nameOf(deviceId)}
    </TextLink>
  );
  const columns: DataColumn<QueryOutcome>[] = [
    {
      id: 'device',
      header: 'Device',
      width: 200,
      value: ({ deviceId }) => nameOf(deviceId),
      cell: ({ deviceId }) => linkTo(deviceId),
    },
    {
      id: 'organization',
      header: 'Organization',
      width: 170,
      value: ({ deviceId }) => names.organization(devices.get(deviceId)?.orgId ?? ''),
      cell: ({ deviceId }) => names.organization(devices.get(deviceId)?.orgId ?? ''),
    },
    {
      id: 'site',
      header: 'Site',
      width: 150,
      value: ({ deviceId }) => names.site(devices.get(deviceId)?.siteId ?? ''),
      cell: ({ deviceId }) => names.site(devices.get(deviceId)?.siteId ?? ''),
    },
    {
      id: 'rows',
      header: 'Entries',
      width: 80,
      align: 'right',
      value: ({ rows }) => rows,
      cell: ({ rows }) => formatCount(rows),
    },
    {
      id: 'message',
      header: 'Reason',
      width: 320,
      value: (each) => reasonOf(each),
      cell: reasonOf,
    },
  ];
  const name = OUTCOME_NAMES[outcome];
  if (outcomes.length === 0) return <Empty title={`${name}: no device`}>{MEANINGS[outcome]}</Empty>;
  const exportCsv = () =>
    saveFile(
      `event-log-${outcome}.csv`,
      toCsv([
        [...columns.map(({ header }) => header), 'Device id'],
        ...outcomes.map((each) => [...columns.map(({ value }) => value?.(each)), each.deviceId]),
      ]),
    );
  return (
    <Stack gap={6} flex={1} mih={0}>
      <Group justify="space-between">
        <Text size="sm">{MEANINGS[outcome]}</Text>
        <Button variant="default" leftSection={<IconDownload size={14} aria-hidden />} onClick={exportCsv}>
          Export the list as CSV
        </Button>
      </Group>
      <DataTable
        label={`Devices: ${name}`}
        rows={outcomes}
        columns={columns}
        keyOf={({ deviceId }) => deviceId}
      />
    </Stack>
  );
}

function reasonOf({ outcome, message, note, truncated, scanned }: QueryOutcome): string {
  if (message !== undefined) return message;
  if (note !== undefined) return note;
  if (truncated === true) {
    return `Stopped before the end of the log${scanned === undefined ? '' : `, after ${formatCount(scanned)} records`}`;
  }
  return outcome === 'answered' || outcome === 'no_match'
    ? scanned === undefined
      ? ''
      : `${formatCount(scanned)} records read`
    : '';
}
