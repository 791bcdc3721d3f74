import { Anchor, Badge, Group, Tabs, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, type ComponentType, type LazyExoticComponent } from 'react';
import { ApiError, type Device } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { useMe, useRefusal } from '../../../session/index.ts';
import {
  DeviceStatusBadge,
  Empty,
  Failure,
  Forbidden,
  formatTime,
  formatWord,
  Loading,
  Page,
  reasonText,
  For,
  When,
} from '../../../ui/index.ts';
import { rememberDevice } from '../recent-devices.ts';
import { DeviceActions } from './device-actions.tsx';
import { DEVICE_TABS, type DeviceTab } from './device-tabs.ts';
import { PendingNotice } from './pending-notice.tsx';
import { isMissing, useDevice } from './use-device.ts';

const route = getRouteApi('/signed-in/devices/$deviceId');

export interface TabProps {
  device: Device;
}

const tab = (load: () => Promise<ComponentType<TabProps>>): LazyExoticComponent<ComponentType<TabProps>> =>
  lazy(async () => ({ default: await load() }));

/** The viewer of live event logs takes a page of its own, whose address holds its query. */
const LOG_VIEWER = 'event-log';

/** Each tab is loaded when it is first opened. */
const TABS: Record<
  DeviceTab,
  { label: string; permission?: string; Content: LazyExoticComponent<ComponentType<TabProps>> }
> = {
  summary: {
    label: 'Summary',
    Content: tab(async () => (await import('./summary/summary-tab.tsx')).SummaryTab),
  },
  software: {
    label: 'Software',
    Content: tab(async () => (await import('./tabs/software-tab.tsx')).SoftwareTab),
  },
  events: {
    label: 'Stored events',
    Content: tab(async () => (await import('./tabs/stored-events-tab.tsx')).StoredEventsTab),
  },
  'agent-logs': {
    label: 'Agent logs',
    Content: tab(async () => (await import('./tabs/agent-logs-tab.tsx')).AgentLogsTab),
  },
  commands: {
    label: 'Commands',
    Content: tab(async () => (await import('./commands/commands-tab.tsx')).CommandsTab),
  },
  alerts: {
    label: 'Alerts',
    permission: 'alerts:read',
    Content: tab(async () => (await import('./tabs/alerts-tab.tsx')).AlertsTab),
  },
  backup: {
    label: 'Backup',
    permission: 'backup:read',
    Content: tab(async () => (await import('./tabs/backup-tab.tsx')).BackupTab),
  },
  upgrades: {
    label: 'Upgrades',
    Content: tab(async () => (await import('./tabs/upgrades-tab.tsx')).UpgradesTab),
  },
  audit: {
    label: 'Audit',
    permission: 'audit:read',
    Content: tab(async () => (await import('./tabs/audit-tab.tsx')).AuditTab),
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
              <Anchor renderRoot={(props) => <Link {...props} to="/devices" />}>All devices</Anchor>
              <Anchor renderRoot={(props) => <Link {...props} to="/devices/decommissioned" />}>
                Decommissioned devices
              </Anchor>
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
          <Tabs.Tab value={LOG_VIEWER}>Event log (live)</Tabs.Tab>
          {DEVICE_TABS.map((each) => (
            <Tabs.Tab key={each} value={each}>
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
      <Text size="sm">
        {formatWord(reasonText(presence))}
        {presence.state === 'connected' ? ' for ' : ', '}
        {presence.state === 'connected' ? <For at={presence.since} /> : <When at={presence.since} />}
        {device.status === 'maintenance' &&
          `. Maintenance ends ${maintenanceUntil === null ? 'when somebody ends it' : formatTime(new Date(maintenanceUntil))}`}
        {isStale && '. The connection to the server is lost: this may have changed'}
      </Text>
      <Text size="sm" component="span">
        <Anchor
          inherit
          renderRoot={(props) => <Link {...props} to="/devices" search={{ org: device.orgId }} />}
        >
          {names.organization(device.orgId)}
        </Anchor>
        {' · '}
        <Anchor
          inherit
          renderRoot={(props) => (
            <Link {...props} to="/devices" search={{ org: device.orgId, site: device.siteId }} />
          )}
        >
          {names.site(device.siteId)}
        </Anchor>
      </Text>
      {device.tags.map((tagName) => (
        <Badge key={tagName} variant="default" radius="sm" tt="none" fw={400}>
          {tagName}
        </Badge>
      ))}
    </Group>
  );
}
