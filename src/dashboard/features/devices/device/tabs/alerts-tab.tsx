import { Button, Group } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery, useApiChange, type Alert, type Device } from '../../../../api/index.ts';
import { useRefusal } from '../../../../session/index.ts';
import {
  Action,
  Empty,
  Failure,
  formatCount,
  formatWord,
  Loaded,
  PagedTable,
  StateBadge,
  When,
  type Column,
  type Tone,
} from '../../../../ui/index.ts';
import { SeverityBadge } from '../../../alerts/index.ts';
import { useDeviceSearch } from '../device-search.ts';
import { joined, WordChips } from './log-level.tsx';
import { WithDetails } from './more-details.tsx';

const STATUSES = ['active', 'acknowledged', 'resolved'] as const;
const STATUS_TONES: Record<Alert['status'], Tone> = {
  active: 'bad',
  acknowledged: 'busy',
  resolved: 'good',
};
const READ_AGAIN_MS = 30_000;

/** What the server has noticed about this device. */
export function AlertsTab({ device: { id } }: { device: Device }) {
  const { search, change } = useDeviceSearch();
  const refusal = useRefusal('alerts:write');
  const query = useQuery({
    ...apiQuery('GET /alerts', {
      query: {
        deviceId: id,
        page: String(search.page ?? 1),
        limit: '50',
        status: joined(search.level, STATUSES),
      },
    }),
    placeholderData: keepPreviousData,
    refetchInterval: READ_AGAIN_MS,
  });
  const refreshes = ['GET /alerts', 'GET /alerts/summary'] as const;
  const acknowledge = useApiChange('POST /alerts/{id}/acknowledge', { refreshes });
  const resolve = useApiChange('POST /alerts/{id}/resolve', { refreshes });
  const error = acknowledge.error ?? resolve.error;
  return (
    <>
      <Group gap="xs" mb="xs">
        <WordChips
          label="Status"
          words={STATUSES}
          chosen={search.level ?? []}
          onChange={(level) => change({ level })}
        />
      </Group>
      {error !== null && <Failure error={error} />}
      <Loaded query={query} what="Reading the alerts">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty
              title="No alerts"
              action={
                search.level !== undefined && (
                  <Button variant="default" onClick={() => change({ level: undefined })}>
                    Show all
                  </Button>
                )
              }
            >
              {search.level === undefined
                ? 'Nothing was noticed about this device.'
                : 'No alert has the chosen status.'}
            </Empty>
          ) : (
            <PagedTable
              label="Alerts of the device"
              rows={data}
              columns={columns({ refusal, acknowledge, resolve })}
              keyOf={(alert) => alert.id}
              page={pagination}
              onPage={(page) => change({ page })}
            />
          )
        }
      </Loaded>
    </>
  );
}

interface Change {
  isPending: boolean;
  variables: { params: { id: string } } | undefined;
  mutate: (input: { params: { id: string }; body: object }) => void;
}

const columns = ({
  refusal,
  acknowledge,
  resolve,
}: {
  refusal: string | undefined;
  acknowledge: Change;
  resolve: Change;
}): Column<Alert>[] => [
  { header: 'Raised', cell: ({ raisedAt }) => <When at={raisedAt} />, width: 120 },
  {
    header: 'Severity',
    cell: ({ severity }) => <SeverityBadge severity={severity} />,
    width: 110,
  },
  {
    header: 'Status',
    cell: ({ status }) => <StateBadge tone={STATUS_TONES[status]} label={formatWord(status)} />,
    width: 140,
  },
  {
    header: 'Alert',
    isName: true,
    cell: ({ title, message, count, note, resolution }) => (
      <WithDetails details={undefined}>
        {title}
        {'\n'}
        {message}
        {count > 1 && ` Seen ${formatCount(count)} times.`}
        {note !== null && `\nNote: ${note}`}
        {resolution !== null && `\nResolved: ${resolution}`}
      </WithDetails>
    ),
  },
  {
    header: 'Action',
    width: 200,
    cell: (alert) =>
      alert.status === 'resolved' ? (
        <When at={alert.resolvedAt} />
      ) : (
        <Group gap={4} wrap="nowrap">
          {alert.status === 'active' && (
            <Action
              size="compact-xs"
              variant="default"
              refusal={refusal}
              loading={acknowledge.isPending && acknowledge.variables?.params.id === alert.id}
              onClick={() => acknowledge.mutate({ params: { id: alert.id }, body: {} })}
            >
              Acknowledge
            </Action>
          )}
          <Action
            size="compact-xs"
            variant="default"
            refusal={refusal}
            loading={resolve.isPending && resolve.variables?.params.id === alert.id}
            onClick={() => resolve.mutate({ params: { id: alert.id }, body: {} })}
          >
            Resolve
          </Action>
        </Group>
      ),
  },
];
