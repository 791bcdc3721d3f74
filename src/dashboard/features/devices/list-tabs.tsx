import { Button, Text, Group } from '@mantine/core';
import { IconRefresh } from '@tabler/icons-react';
import {
  type Device,
  type DiagnosticLog,
  useList,
  type InstalledSoftware,
  type SoftwareChange,
  useApiChange,
  type Alert,
} from '../../api/index.ts';
import {
  When,
  type Column,
  Action,
  List,
  formatWord,
  StateBadge,
  Failure,
  formatCount,
  type Tone,
} from '../../ui/index.ts';
import {
  useDeviceAddress,
  joined,
  LevelBadge,
  WithDetails,
  RangeSelect,
  useRangeBegin,
} from './tab-parts.tsx';
import { SeverityBadge } from '../alerts/index.ts';
import { useRefusal } from '../../session.ts';

const LEVELS = ['error', 'warn', 'info', 'debug'] as const;
const DEFAULT_RANGE = 'week';
const READ_AGAIN_MS = 20_000;

const COLUMNS: readonly Column<DiagnosticLog>[] = [
  { header: 'Time', cell: ({ timestamp }) => <When at={timestamp} />, width: 120 },
  { header: 'Level', cell: ({ level }) => <LevelBadge level={level} />, width: 100 },
  { header: 'Component', cell: ({ component }) => component, width: 160 },
  {
    header: 'Message',
    cell: ({ message, fields }) => <WithDetails details={fields}>{message}</WithDetails>,
  },
  { header: 'Agent', cell: ({ agentVersion }) => agentVersion ?? '–', width: 90 },
];

/** The diagnostic log of the agent. */
export function AgentLogsTab({ device: { id } }: { device: Device }) {
  const address = useDeviceAddress();
  const { range = DEFAULT_RANGE, level, source, q, page = 1 } = address.search;
  const query = useList(
    'GET /devices/{id}/diagnostic-logs',
    {
      params: { id },
      query: {
        page: String(page),
        limit: '50',
        level: joined(level, LEVELS),
        component: source,
        search: q,
        since: useRangeBegin(range),
      },
    },
    // Do not refresh a later page: its rows would move while being read.
    page === 1 ? READ_AGAIN_MS : undefined,
  );
  const found = query.data && {
    data: query.data.logs,
    pagination: { page, limit: query.data.limit, total: query.data.total },
  };
  const all = (
    <Button
      variant="default"
      onClick={() => address.narrow({ level: undefined, source: undefined, q: undefined, range: 'all' })}
    >
      Show all that is kept
    </Button>
  );
  return (
    <>
      <Text size="xs" mb="xs">
        Agents send their warnings and errors; more where they are set to.
      </Text>
      <List
        query={{ data: found, error: query.error, refetch: query.refetch }}
        noun="lines"
        label="Log of the agent"
        keyOf={(line) => line.id}
        address={address}
        facets={[
          { kind: 'chips', name: 'level', label: 'Level', options: LEVELS },
          {
            kind: 'text',
            name: 'source',
            label: 'Component, exactly',
            placeholder: 'Component, exactly',
            width: 170,
          },
          { kind: 'text', name: 'q', label: 'Search messages', placeholder: 'Search messages' },
        ]}
        tools={
          <>
            <RangeSelect value={range} onChange={(next) => address.narrow({ range: next })} />
            <Action
              variant="default"
              icon={IconRefresh}
              loading={query.isRefetching}
              onClick={() => void query.refetch()}
            >
              Refresh
            </Action>
          </>
        }
        empty={{
          title: 'No lines of the agent',
          text:
            range === 'all'
              ? 'The agent has had nothing to complain about.'
              : 'Nothing that was sent in this time is kept.',
          action: range !== 'all' && all,
        }}
        noneFound={{
          title: 'No lines of the agent',
          text: 'Nothing that was sent matches these choices.',
          action: all,
        }}
        columns={COLUMNS}
      />
    </>
  );
}

const SHOWN = '50';

/** The installed software, or its changes. */
export function SoftwareTab({ device }: { device: Device }) {
  return useDeviceAddress().search.show === 'changes' ? (
    <Changes device={device} />
  ) : (
    <Installed device={device} />
  );
}

const VIEWS = {
  kind: 'view',
  name: 'show',
  label: 'What is shown',
  first: 'Installed',
  options: ['changes'],
} as const;
const SEARCH = { kind: 'text', name: 'q', label: 'Search software', placeholder: 'Search software' } as const;

const INSTALLED: readonly Column<InstalledSoftware>[] = [
  { header: 'Name', cell: ({ name }) => name, isName: true },
  { header: 'Version', cell: ({ version }) => version ?? 'Unknown' },
  { header: 'Publisher', cell: ({ publisher }) => publisher ?? 'Unknown' },
  { header: 'Installed', cell: ({ installedAt }) => <When at={installedAt} never="Unknown" /> },
];

function Installed({ device: { id } }: { device: Device }) {
  const address = useDeviceAddress();
  const { q, page = 1 } = address.search;
  const query = useList('GET /devices/{id}/software', {
    params: { id },
    query: { page: String(page), limit: SHOWN, search: q },
  });
  return (
    <List
      query={query}
      noun="software"
      label="Installed software"
      keyOf={({ name, version }) => `${name} ${version ?? ''}`}
      address={address}
      facets={[VIEWS, SEARCH]}
      empty={{
        title: 'No software was reported',
        text: 'The agent reports it with its inventory. “Refresh inventory” asks for it now.',
      }}
      noneFound={{ title: 'No software has this name', text: 'The search looks for a part of the name.' }}
      columns={INSTALLED}
    />
  );
}

const CHANGE_TONES = { installed: 'good', updated: 'info', removed: 'warning' } as const;

const CHANGES: readonly Column<SoftwareChange>[] = [
  { header: 'Found', cell: ({ at }) => <When at={at} />, width: 130 },
  {
    header: 'Change',
    cell: ({ change }) => <StateBadge tone={CHANGE_TONES[change]} label={formatWord(change)} />,
    width: 120,
  },
  { header: 'Name', cell: ({ name }) => name, isName: true },
  { header: 'Before', cell: ({ previousVersion }) => previousVersion ?? '–' },
  { header: 'After', cell: ({ version }) => version ?? '–' },
];

function Changes({ device: { id } }: { device: Device }) {
  const address = useDeviceAddress();
  const { q, page = 1 } = address.search;
  const query = useList('GET /devices/{id}/software/changes', {
    params: { id },
    query: { page: String(page), limit: SHOWN, search: q },
  });
  return (
    <List
      query={query}
      noun="changes"
      label="Changes of software"
      keyOf={({ at, name, change: kind, version, previousVersion }) =>
        [at, kind, name, version, previousVersion].join(' ')
      }
      address={address}
      facets={[VIEWS, SEARCH]}
      empty={{
        title: 'No change was seen',
        text: 'A change is found when an inventory differs from the one before.',
      }}
      columns={CHANGES}
    />
  );
}

const STATUSES = ['active', 'acknowledged', 'resolved'] as const;
const STATUS_TONES: Record<Alert['status'], Tone> = {
  active: 'bad',
  acknowledged: 'busy',
  resolved: 'good',
};
const ALERTS_AGAIN_MS = 30_000;

/** The alerts of this device. */
export function AlertsTab({ device: { id } }: { device: Device }) {
  const address = useDeviceAddress();
  const { level, page = 1 } = address.search;
  const refusal = useRefusal('alerts:write');
  const query = useList(
    'GET /alerts',
    {
      query: {
        deviceId: id,
        page: String(page),
        limit: '50',
        status: joined(level, STATUSES),
      },
    },
    ALERTS_AGAIN_MS,
  );
  const refreshes = ['GET /alerts', 'GET /alerts/summary'] as const;
  const acknowledge = useApiChange('POST /alerts/{id}/acknowledge', { refreshes });
  const resolve = useApiChange('POST /alerts/{id}/resolve', { refreshes });
  const error = acknowledge.error ?? resolve.error;
  return (
    <>
      {error !== null && <Failure error={error} />}
      <List
        query={query}
        noun="alerts"
        label="Alerts of the device"
        keyOf={(alert) => alert.id}
        address={address}
        facets={[{ kind: 'chips', name: 'level', label: 'Status', options: STATUSES }]}
        empty={{ title: 'No alerts', text: 'Nothing was noticed about this device.' }}
        noneFound={{ title: 'No alerts', text: 'No alert has the chosen status.' }}
        columns={alertColumns({ refusal, acknowledge, resolve })}
      />
    </>
  );
}

interface Change {
  isPending: boolean;
  variables: { params: { id: string } } | undefined;
  mutate: (input: { params: { id: string }; body: object }) => void;
}

const alertColumns = ({
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
