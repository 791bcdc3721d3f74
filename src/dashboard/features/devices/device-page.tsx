import { Badge, Group, Tabs, Text, Table } from '@mantine/core';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import {
  lazy,
  Suspense,
  useEffect,
  type ComponentType,
  type LazyExoticComponent,
  useState,
  type ReactNode,
} from 'react';
import { ApiError, type Device, apiQuery, useApiChange } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useMe, useRefusal } from '../../session.ts';
import {
  DeviceStatusBadge,
  Empty,
  Failure,
  Forbidden,
  formatTime,
  formatWord,
  Loading,
  MaintenanceBadge,
  Page,
  reasonText,
  For,
  When,
  TextLink,
  Action,
  Modal,
  Notice,
} from '../../ui/index.ts';
import { DeviceBackup } from '../backup/index.ts';
import { TerminalTab } from '../terminals/index.ts';
import { rememberDevice } from './recent-devices.ts';
import { DeviceActions } from './device-actions.tsx';
import { DEVICE_TABS, type DeviceTab } from './device-tabs.ts';
import { isMissing, useDevice, useDeviceRefusals } from './use-device.ts';
import { IconUserQuestion } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { DialogForm, REFRESHES } from './device-dialogs.tsx';

const route = getRouteApi('/signed-in/devices/$deviceId');

export interface TabProps {
  device: Device;
}

const tab = (load: () => Promise<ComponentType<TabProps>>): LazyExoticComponent<ComponentType<TabProps>> =>
  lazy(async () => ({ default: await load() }));

/** The viewer of event logs, live and stored, takes a page of its own, whose address holds its query. */
const LOG_VIEWER = 'event-log';

/** All tabs stand in one line on a screen of 1280 pixels. */
const TAB_SPACE = 8;

/** Each tab is loaded when it is first opened. */
const TABS: Record<DeviceTab, { label: string; permission?: string; Content: ComponentType<TabProps> }> = {
  summary: {
    label: 'Summary',
    Content: tab(async () => (await import('./summary-tab.tsx')).SummaryTab),
  },
  history: {
    label: 'History',
    Content: tab(async () => (await import('./history-tab.tsx')).HistoryTab),
  },
  metrics: {
    label: 'Metrics',
    Content: tab(async () => (await import('./metrics-tab.tsx')).MetricsTab),
  },
  software: {
    label: 'Software',
    Content: tab(async () => (await import('./list-tabs.tsx')).SoftwareTab),
  },
  services: {
    label: 'Services',
    Content: tab(async () => (await import('./services-tab.tsx')).ServicesTab),
  },
  processes: {
    label: 'Processes',
    Content: tab(async () => (await import('./processes-tab.tsx')).ProcessesTab),
  },
  'agent-logs': {
    label: 'Agent logs',
    Content: tab(async () => (await import('./list-tabs.tsx')).AgentLogsTab),
  },
  commands: {
    label: 'Commands',
    Content: tab(async () => (await import('./commands-tab.tsx')).CommandsTab),
  },
  terminal: {
    label: 'Terminal',
    permission: 'devices:terminal',
    Content: TerminalTab,
  },
  alerts: {
    label: 'Alerts',
    permission: 'alerts:read',
    Content: tab(async () => (await import('./list-tabs.tsx')).AlertsTab),
  },
  backup: {
    label: 'Backup',
    permission: 'backup:read',
    Content: BackupTab,
  },
  upgrades: {
    label: 'Upgrades',
    Content: tab(async () => (await import('./upgrades-tab.tsx')).UpgradesTab),
  },
};

/** Everything about one device, kept up to date while it is shown. */
export function DevicePage() {
  const { deviceId } = route.useParams();
  // Another device begins anew, so that nothing of the one before is shown for it.
  return <OneDevice key={deviceId} id={deviceId} />;
}

function OneDevice({ id }: { id: string }) {
  const { query, device, live } = useDevice(id);
  if (device !== undefined) return <ShownDevice device={device} isStale={live === 'stale'} />;
  const { error } = query;
  if (error === null) return <Loading what="Reading the device" />;
  if (isMissing(error) || (error instanceof ApiError && error.status === 400)) {
    return (
      <Page title="Device">
        <Empty
          title="There is no such device"
          action={
            <Group>
              <TextLink to="/devices">All devices</TextLink>
              <TextLink to="/devices/decommissioned">Decommissioned devices</TextLink>
            </Group>
          }
        >
          It may be decommissioned, or it belongs to an organization that you do not see.
        </Empty>
      </Page>
    );
  }
  return <Failure error={error} retry={() => void query.refetch()} />;
}

function ShownDevice({ device, isStale }: { device: Device; isStale: boolean }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { user } = useMe();
  const name = device.displayName ?? device.hostname;
  const shown = search.tab ?? 'summary';
  useEffect(() => rememberDevice(user.id, { id: device.id, name }), [user.id, device.id, name]);
  const open = (next: DeviceTab) => void navigate({ search: { tab: next === 'summary' ? undefined : next } });
  return (
    <Page
      title={name}
      description={<Standing device={device} isStale={isStale} />}
      actions={<DeviceActions device={device} />}
    >
      {device.status === 'pending' && <PendingNotice device={device} />}
      <Tabs
        value={shown}
        onChange={(value) => {
          if (value === LOG_VIEWER) {
            void navigate({ to: '/devices/$deviceId/logs', params: { deviceId: device.id }, search: {} });
            return;
          }
          const next = DEVICE_TABS.find((each) => each === value);
          if (next !== undefined) open(next);
        }}
        keepMounted={false}
        // The arrow keys only move the focus: a tab reads from the server, and the event log is another page.
        activateTabWithKeyboard={false}
      >
        <Tabs.List aria-label={`What is known about ${name}`}>
          <Tabs.Tab value={LOG_VIEWER} px={TAB_SPACE}>
            Event log
          </Tabs.Tab>
          {DEVICE_TABS.map((each) => (
            <Tabs.Tab key={each} value={each} px={TAB_SPACE}>
              {TABS[each].label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={shown} pt="sm">
          <Suspense fallback={<Loading />}>
            <Content of={shown} device={device} />
          </Suspense>
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function BackupTab({ device: { id, orgId, osType } }: TabProps) {
  return <DeviceBackup deviceId={id} orgId={orgId} isWindows={osType === 'windows'} />;
}

function Content({ of, device }: { of: DeviceTab; device: Device }) {
  const { permission, Content: Shown } = TABS[of];
  const refusal = useRefusal(permission);
  return refusal === undefined ? <Shown device={device} /> : <Forbidden reason={refusal} />;
}

/** Under the name: the state with its reason, where the device belongs, and its tags. */
function Standing({ device, isStale }: { device: Device; isStale: boolean }) {
  const names = useNames();
  const { presence, maintenanceUntil } = device;
  return (
    <Group gap="xs" mt={4} c="var(--mantine-color-text)">
      <DeviceStatusBadge status={device.status} presence={presence} />
      {device.maintenance !== null && <MaintenanceBadge maintenance={device.maintenance} />}
      <Text size="sm">
        {formatWord(reasonText(presence))}
        {presence.state === 'connected' ? ' for ' : ', '}
        {presence.state === 'connected' ? <For at={presence.since} /> : <When at={presence.since} />}
        {device.status === 'maintenance' &&
          `. Maintenance ends ${maintenanceUntil === null ? 'when a person ends it' : formatTime(new Date(maintenanceUntil))}`}
        {isStale && '. The connection to the server is lost: this may have changed'}
      </Text>
      <Text size="sm" component="span">
        <TextLink inherit to="/devices" search={{ org: device.orgId }}>
          {names.organization(device.orgId)}
        </TextLink>
        {' · '}
        <TextLink inherit to="/devices" search={{ org: device.orgId, site: device.siteId }}>
          {names.site(device.siteId)}
        </TextLink>
      </Text>
      {device.tags.map((tagName) => (
        <Badge key={tagName} variant="default" radius="sm" tt="none" fw={400}>
          {tagName}
        </Badge>
      ))}
    </Group>
  );
}

const TITLES = {
  approve: 'Approve as a device of its own',
  replace: 'Replace the other device',
  remove: 'Remove the device',
} as const;

/** A device that waits for approval: why, and what can be decided. */
function PendingNotice({ device }: { device: Device }) {
  const refusals = useDeviceRefusals(device);
  const [dialog, setDialog] = useState<keyof typeof TITLES>();
  const { conflictsWith } = device;
  const found = useQuery({
    ...apiQuery('GET /devices/{id}', { params: { id: conflictsWith ?? '' } }),
    enabled: conflictsWith !== null,
  });
  const other = conflictsWith === null ? undefined : found.data;
  return (
    <Notice tone="warning" icon={IconUserQuestion} title="This device waits for approval">
      <Text size="sm">
        It was enrolled with the machine id of{' '}
        {other === undefined
          ? 'another device, which was connected then'
          : `${nameOf(other)}, which was connected then`}
        . It may be a copy of that machine. Until it is approved, it gets no commands, upgrades or backups.
        {isMissing(found.error) && ' That device is no longer in service, or you do not see it.'}
      </Text>
      {other !== undefined && <BothMachines device={device} other={other} />}
      <Group gap="xs" mt="xs">
        <Action variant="default" refusal={refusals.write} onClick={() => setDialog('approve')}>
          Approve as its own device
        </Action>
        {other !== undefined && (
          <Action
            variant="default"
            refusal={refusals.write ?? refusals.decommission}
            onClick={() => setDialog('replace')}
          >
            {`Replace ${nameOf(other)}`}
          </Action>
        )}
        <Action variant="default" refusal={refusals.decommission} onClick={() => setDialog('remove')}>
          Remove
        </Action>
      </Group>
      <Modal
        opened={dialog !== undefined}
        onClose={() => setDialog(undefined)}
        title={dialog === undefined ? '' : TITLES[dialog]}
        centered
      >
        {dialog !== undefined && (
          <Decision dialog={dialog} device={device} other={other} onClose={() => setDialog(undefined)} />
        )}
      </Modal>
    </Notice>
  );
}

/** The properties that tell two machines with one machine id apart. */
function BothMachines({ device, other }: { device: Device; other: Device }) {
  const facts: [name: string, value: (of: Device) => ReactNode][] = [
    ['Host name', ({ hostname }) => hostname],
    ['Serial number', ({ hardware }) => hardware.serialNumber],
    ['Model', ({ hardware }) => [hardware.manufacturer, hardware.model].filter(Boolean).join(' ')],
    ['MAC address', ({ network }) => network.macAddresses?.join(', ') || network.macAddress],
    ['Seen from', ({ lastIp }) => lastIp],
    ['Enrolled', ({ enrolledAt }) => <When at={enrolledAt} />],
  ];
  const rows = facts
    .map(([name, value]) => ({ name, own: value(device), others: value(other) }))
    .filter(({ own, others }) => Boolean(own) || Boolean(others));
  return (
    <Table mt="xs" w="auto" verticalSpacing={2} withRowBorders={false} aria-label="The two machines">
      <Table.Thead>
        <Table.Tr>
          <Table.Td />
          <Table.Th scope="col">This machine</Table.Th>
          <Table.Th scope="col">
            <TextLink
              inherit
              // The colour of links is too pale on this ground.
              c="inherit"
              underline="always"
              to="/devices/$deviceId"
              params={{ deviceId: other.id }}
            >
              {nameOf(other)}
            </TextLink>
          </Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map(({ name, own, others }) => (
          <Table.Tr key={name}>
            <Table.Th scope="row" fw={400}>
              {name}
            </Table.Th>
            <Table.Td>{own || 'Not reported'}</Table.Td>
            <Table.Td>{others || 'Not reported'}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

const nameOf = ({ displayName, hostname }: Device) => displayName ?? hostname;

function Decision({
  dialog,
  device,
  other,
  onClose,
}: {
  dialog: keyof typeof TITLES;
  device: Device;
  other: Device | undefined;
  onClose: () => void;
}) {
  const navigate = useNavigate();
  const approve = useApiChange('POST /devices/{id}/approve', { refreshes: REFRESHES });
  const remove = useApiChange('DELETE /devices/{id}', { refreshes: REFRESHES });
  const params = { id: device.id };
  const name = nameOf(device);
  switch (dialog) {
    case 'approve':
      return (
        <DialogForm confirm="Approve" onClose={onClose} run={() => approve.mutateAsync({ params, body: {} })}>
          <Text size="sm">
            {name} becomes a device of its own, beside {other === undefined ? 'the other one' : nameOf(other)}
            .
          </Text>
        </DialogForm>
      );
    case 'replace':
      return (
        <DialogForm
          confirm="Replace"
          color="red"
          isReady={other !== undefined}
          onClose={onClose}
          run={async () => {
            if (other === undefined) return;
            await approve.mutateAsync({ params, body: { replaces: other.id } });
            await navigate({ to: '/devices/$deviceId', params: { deviceId: other.id }, search: {} });
          }}
        >
          <Text size="sm">
            The machine {name} continues the record of{' '}
            {other === undefined ? 'the other device' : nameOf(other)}, with its groups, history and backups.
            The machine that is connected there now can no longer sign in. This needs a session with a second
            factor.
          </Text>
        </DialogForm>
      );
    case 'remove':
      return (
        <DialogForm confirm="Remove" color="red" onClose={onClose} run={() => remove.mutateAsync({ params })}>
          <Text size="sm">
            {name} leaves the lists and can no longer sign in. With an enrollment key, its agent can enroll
            again and then waits again.
          </Text>
        </DialogForm>
      );
    default:
      return dialog satisfies never;
  }
}
