import { Group, Stack, Text } from '@mantine/core';
import { IconPlayerPlay, IconPlayerStop, IconRefresh } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import {
  apiQuery,
  type Device,
  type DeviceService,
  type LiveService,
  type ServiceControlled,
  useApiChange,
  useList,
} from '../../api/index.ts';
import {
  Action,
  type Column,
  ConfirmDialog,
  formatCounted,
  formatWord,
  List,
  MenuEntry,
  Notice,
  RowMenu,
  StateBadge,
  type Tone,
  When,
} from '../../ui/index.ts';
import { ON_DEMAND, ReadLine } from './live-read.tsx';
import { joined, useDeviceAddress } from './tab-parts.tsx';
import { useDeviceRefusals } from './use-device.ts';

const STATES = ['running', 'stopped', 'failed', 'starting', 'stopping', 'paused'] as const;

const TONES: Record<DeviceService['state'], Tone> = {
  running: 'good',
  stopped: 'neutral',
  failed: 'bad',
  starting: 'busy',
  stopping: 'busy',
  paused: 'warning',
};

/** A service as it is stored or as it was just read. */
interface Row {
  name: string;
  displayName?: string | null;
  state: DeviceService['state'];
  startMode?: DeviceService['startMode'];
  isProtected?: boolean;
  /** Only stored. */
  since?: string;
}

/** What has to run with the machine and does not, is worth a look. */
const toneOf = ({ state, startMode }: Row): Tone =>
  state === 'stopped' && startMode === 'automatic' ? 'warning' : TONES[state];

const COLUMNS: readonly Column<Row>[] = [
  { header: 'Name', cell: ({ name, displayName }) => displayName ?? name, isName: true },
  { header: 'Service', cell: ({ name }) => name },
  {
    header: 'State',
    cell: (service) => <StateBadge tone={toneOf(service)} label={formatWord(service.state)} />,
    width: 120,
  },
  {
    header: 'Start',
    cell: ({ startMode }) => (startMode == null ? 'Unknown' : formatWord(startMode)),
    width: 120,
  },
];
const SINCE: Column<Row> = { header: 'Since', cell: ({ since }) => <When at={since} />, width: 130 };

const SHOWN = 50;
const READ_AGAIN_MS = 60_000;

/** The services of this device: as it reported them last, or on demand as they are now. */
export function ServicesTab({ device }: { device: Device }) {
  const { id } = device;
  const address = useDeviceAddress();
  const { q, level, page = 1 } = address.search;
  const stored = useList(
    'GET /devices/{id}/services',
    {
      params: { id },
      query: { page: String(page), limit: String(SHOWN), search: q, state: joined(level, STATES) },
    },
    READ_AGAIN_MS,
  );
  const refusal = useDeviceRefusals(device).live('services.list');
  const [wantsLive, setWantsLive] = useState(false);
  const live = useQuery({
    ...apiQuery('GET /system-tools/devices/{deviceId}/services', { params: { deviceId: id } }),
    ...ON_DEMAND,
    enabled: false,
  });
  const readLive = () => {
    setWantsLive(true);
    void live.refetch();
  };
  const [order, setOrder] = useState<Order>();
  const [done, setDone] = useState<ServiceControlled>();
  const { manager = null, unlisted = 0 } = stored.data ?? {};
  const isLive = wantsLive && refusal === undefined && live.data !== undefined;
  const chosen = useMemo(() => narrowed(live.data?.data ?? [], q, level), [live.data, q, level]);
  const shown = isLive
    ? {
        data: chosen.slice((page - 1) * SHOWN, page * SHOWN),
        pagination: { page, limit: SHOWN, total: chosen.length },
      }
    : stored.data;
  const actions: Column<Row> = {
    header: '',
    cell: (service) => <Actions device={device} service={service} onChoose={setOrder} />,
    width: 50,
  };
  return (
    <Stack gap="sm">
      {done !== undefined && <DoneNotice done={done} onClose={() => setDone(undefined)} />}
      <List
        query={{ data: shown, error: stored.error, refetch: stored.refetch }}
        noun="services"
        label="Services"
        keyOf={({ name }) => name}
        address={address}
        facets={[
          { kind: 'text', name: 'q', label: 'Search services', placeholder: 'Search services' },
          { kind: 'chips', name: 'level', label: 'State', options: STATES },
        ]}
        tools={
          wantsLive && refusal === undefined ? (
            <ReadLine query={live} readAt={live.data?.meta.readAt} refusal={refusal} />
          ) : (
            <Group gap="sm">
              <Action variant="default" icon={IconRefresh} refusal={refusal} onClick={readLive}>
                Read from the device now
              </Action>
              <Text size="sm" component="output">
                {device.presence.state !== 'connected' && 'The device is not connected. '}
                {stored.data?.reportedAt != null && (
                  <>
                    Reported <When at={stored.data.reportedAt} />
                  </>
                )}
              </Text>
            </Group>
          )
        }
        empty={
          manager === 'none'
            ? {
                title: 'No service manager',
                text: 'The agent can read the services of Windows, macOS, and Linux with systemd.',
              }
            : {
                title: 'No services were reported',
                text: 'The agent reports them soon after it has connected. Older agents do not.',
              }
        }
        noneFound={{
          title: 'No service matches these choices',
          text: 'The search looks for a part of either name.',
        }}
        columns={[...COLUMNS, !isLive && SINCE, actions]}
      />
      {!isLive && unlisted > 0 && (
        <Text size="xs">The device has {formatCounted(unlisted, 'more service')} than an agent reports.</Text>
      )}
      {order !== undefined && (
        <OrderDialog
          key={`${order.action} ${order.service.name}`}
          deviceId={id}
          order={order}
          onClose={() => setOrder(undefined)}
          onDone={(answer) => {
            setDone(answer);
            // What is stored follows when the agent has reported it.
            readLive();
          }}
        />
      )}
    </Stack>
  );
}

function narrowed(
  services: readonly LiveService[],
  q: string | undefined,
  level: readonly string[] | undefined,
): LiveService[] {
  const part = q?.trim().toLowerCase() ?? '';
  const states = level?.filter((state) => STATES.some((known) => known === state)) ?? [];
  return services.filter(
    ({ name, displayName = '', state }) =>
      (states.length === 0 || states.includes(state)) &&
      [name, displayName].some((text) => text.toLowerCase().includes(part)),
  );
}

type ServiceAction = ServiceControlled['action'];
interface Order {
  service: Row;
  action: ServiceAction;
}

const ACTIONS = [
  { action: 'start', label: 'Start', icon: IconPlayerPlay },
  { action: 'stop', label: 'Stop', icon: IconPlayerStop },
  { action: 'restart', label: 'Restart', icon: IconRefresh },
] as const;

const nameOf = ({ name, displayName }: Row): string => displayName ?? name;

function Actions({
  device,
  service,
  onChoose,
}: {
  device: Device;
  service: Row;
  onChoose: (order: Order) => void;
}) {
  const refusal = useDeviceRefusals(device).act('services.control');
  return (
    <RowMenu label={`Actions for ${nameOf(service)}`}>
      {ACTIONS.map(({ action, label, icon }) => (
        <MenuEntry
          key={action}
          icon={icon}
          refusal={refusal ?? refusalOf(service, action)}
          onClick={() => onChoose({ service, action })}
        >
          {label}
        </MenuEntry>
      ))}
    </RowMenu>
  );
}

function refusalOf({ isProtected, startMode }: Row, action: ServiceAction): string | undefined {
  if (action !== 'start' && isProtected === true) return 'It is the service of the agent.';
  return action !== 'stop' && startMode === 'disabled' ? 'It is disabled on the device.' : undefined;
}

const TITLES: Readonly<Record<ServiceAction, string>> = { start: 'Start', stop: 'Stop', restart: 'Restart' };
const QUESTIONS: Readonly<Record<ServiceAction, string>> = {
  start: 'The service is started on the device now.',
  stop: 'What needs this service stops working until it is started again. If the agent needs it to reach the server, the device goes offline.',
  restart: 'What needs this service is interrupted for a moment.',
};

function OrderDialog({
  deviceId,
  order: { service, action },
  onClose,
  onDone,
}: {
  deviceId: string;
  order: Order;
  onClose: () => void;
  onDone: (done: ServiceControlled) => void;
}) {
  const routes = {
    start: useApiChange('POST /system-tools/devices/{deviceId}/services/{name}/start', REFRESHES),
    stop: useApiChange('POST /system-tools/devices/{deviceId}/services/{name}/stop', REFRESHES),
    restart: useApiChange('POST /system-tools/devices/{deviceId}/services/{name}/restart', REFRESHES),
  };
  return (
    <ConfirmDialog
      opened
      onClose={onClose}
      title={`${TITLES[action]} ${nameOf(service)}`}
      confirm={TITLES[action]}
      color={action === 'start' ? 'blue' : 'red'}
      question={QUESTIONS[action]}
      run={async () => {
        onDone(await routes[action].mutateAsync({ params: { deviceId, name: service.name } }));
      }}
    />
  );
}

const REFRESHES = { refreshes: ['GET /devices/{id}/services'] } as const;

const WANTED: Readonly<Record<ServiceAction, DeviceService['state']>> = {
  start: 'running',
  stop: 'stopped',
  restart: 'running',
};

/** The state that the device named after the action, which it also reports to be stored. */
function DoneNotice({
  done: { name, action, before, after },
  onClose,
}: {
  done: ServiceControlled;
  onClose: () => void;
}) {
  const isAsWanted = after === WANTED[action];
  return (
    <Notice
      tone={isAsWanted ? 'good' : 'warning'}
      role="status"
      onClose={onClose}
      title={
        isAsWanted
          ? `${name}: ${action} is done`
          : `${name}: the device has done it, and the service is ${after}`
      }
    >
      State before: {before}. Now: {after}. The stored services show it when the agent has reported it.
    </Notice>
  );
}
