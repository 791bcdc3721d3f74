import { Group, Paper, SimpleGrid, Stack, Text, UnstyledButton, Progress } from '@mantine/core';
import { Link, type LinkProps } from '@tanstack/react-router';
import { DeviceStatus, type DeviceSummary } from '../../../protocol/index.ts';
import { useLiveDevices, type LiveDevices } from '../../live/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { refusalOf, useMe } from '../../session.ts';
import {
  DeviceStatusBadge,
  Failure,
  formatCount,
  Loading,
  Page,
  Panel,
  Loaded,
  When,
  formatBytes,
  formatCounted,
  formatWord,
  StateBadge,
  TextLink,
} from '../../ui/index.ts';
import { GettingStarted } from '../getting-started/index.ts';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useMemo } from 'react';
import { apiQuery } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { FleetTrends } from './fleet-trends.tsx';
import { NeedsAttention } from './needs-attention.tsx';

/** The overview: devices and alerts that need attention now, work in progress, and how the fleet has changed. */
export function OverviewPage() {
  const me = useMe();
  const live = useLiveDevices(scopeQuery(useScope()));
  const may = (permission: string) => refusalOf(me, permission) === undefined;
  const isEmpty = live.state === 'live' && live.counts.total === 0;
  return (
    <Page title="Overview">
      {live.state === 'loading' && <Loading what="Counting devices" />}
      {live.error !== undefined && <Failure error={live.error} />}
      <GettingStarted />
      {!isEmpty && live.state !== 'loading' && <StatusCounts live={live} />}
      {may('alerts:read') && <NeedsAttention />}
      {!isEmpty && <FleetTrends />}
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        {!isEmpty && <UnreachableCard devices={live.devices} />}
        {may('backup:read') && <BackupCard />}
        {!isEmpty && <AgentVersionsCard devices={live.devices} />}
      </SimpleGrid>
      {may('audit:read') && <LatestActionsCard />}
    </Page>
  );
}

/** Counts of states in which no device is are left out, but for the two that people always look for. */
function StatusCounts({ live }: { live: LiveDevices }) {
  const { byStatus, total } = live.counts;
  const shown = DeviceStatus.options.filter(
    (status) => status === 'online' || status === 'offline' || (byStatus[status] ?? 0) > 0,
  );
  return (
    <Group gap="sm" role="group" aria-label="Devices by status">
      <Count label="All devices" count={total} />
      {shown.map((status) => (
        <Count key={status} status={status} count={byStatus[status] ?? 0} />
      ))}
    </Group>
  );
}

function Count({ status, label, count }: { status?: DeviceStatus; label?: string; count: number }) {
  const search = status === undefined ? {} : { status: [status] };
  return (
    <UnstyledButton renderRoot={(props) => <Link {...props} to="/devices" search={search} />}>
      <Paper withBorder px="md" py="xs" miw={120}>
        <Stack gap={2}>
          {status === undefined ? <Text size="sm">{label}</Text> : <DeviceStatusBadge status={status} />}
          <Text fz={26} fw={600} lh={1.1}>
            {formatCount(count)}
          </Text>
        </Stack>
      </Paper>
    </UnstyledButton>
  );
}

interface CardProps {
  title: string;
  more?: { label: string; to: NonNullable<LinkProps['to']> };
  children: ReactNode;
}

/** A part of the overview, with the way to the page that has more. */
const Card = ({ title, more, children }: CardProps) => (
  <Panel
    title={title}
    aside={
      more !== undefined && (
        <TextLink size="sm" to={more.to}>
          {more.label}
        </TextLink>
      )
    }
  >
    {children}
  </Panel>
);

const SHOWN = 6;

function AgentVersionsCard({ devices }: { devices: readonly DeviceSummary[] }) {
  const versions = useMemo(() => {
    const counts = new Map<string, number>();
    for (const { agentVersion } of devices) counts.set(agentVersion, (counts.get(agentVersion) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]);
  }, [devices]);
  return (
    <Card title="Versions of the agent">
      <Stack gap={6}>
        {versions.slice(0, SHOWN).map(([version, count]) => (
          <Group key={version} gap="xs" wrap="nowrap">
            <Text size="sm" w={90}>
              {version}
            </Text>
            <Progress
              flex={1}
              value={(count / devices.length) * 100}
              aria-label={`Share of devices with ${version}`}
            />
            <Text size="sm" w={60} ta="right">
              {formatCount(count)}
            </Text>
          </Group>
        ))}
        {versions.length > SHOWN && (
          <Text size="xs" c="dimmed">
            And {formatCount(versions.length - SHOWN)} other versions.
          </Text>
        )}
      </Stack>
    </Card>
  );
}

const REFRESH_MS = 30_000;

const BACKUP_REFRESH_MS = 60_000;

/** A device counts as protected when a snapshot of it was verified, not when a backup was started. */
function BackupCard() {
  const { orgId } = scopeQuery(useScope());
  const dashboard = useQuery({
    ...apiQuery('GET /backup/dashboard', { query: { orgId } }),
    refetchInterval: BACKUP_REFRESH_MS,
  });
  return (
    <Card title="Backup">
      <Loaded query={dashboard} what="Reading the state of backups">
        {({ data: { cloud, coverage, jobsLast24h, storage } }) => (
          <Stack gap="xs">
            {coverage.devices === 0 ? (
              <Text size="sm">
                No device is backed up yet.{' '}
                <TextLink inherit underline="always" to="/backup">
                  Set up backups
                </TextLink>
              </Text>
            ) : (
              <>
                <Group justify="space-between">
                  <Text size="sm">Devices with a verified snapshot</Text>
                  <Text size="sm" fw={600}>
                    {formatCount(coverage.protectedDevices)} of {formatCount(coverage.devices)}
                  </Text>
                </Group>
                <Progress
                  value={(coverage.protectedDevices / coverage.devices) * 100}
                  aria-label="Share of devices with a verified snapshot"
                />
              </>
            )}
            <SimpleGrid cols={4}>
              <Figure label="Completed, 24 h" value={formatCount(jobsLast24h.completed)} />
              <Figure
                label="Failed, 24 h"
                value={formatCount(jobsLast24h.failed)}
                isBad={jobsLast24h.failed > 0}
              />
              <Figure label="Running" value={formatCount(jobsLast24h.running)} />
              <Figure label="Stored" value={formatBytes(storage.totalBytes)} />
            </SimpleGrid>
            {cloud.configs > 0 && (
              <Text size="sm" {...(cloud.protected < cloud.configs ? { c: 'red' } : {})}>
                {cloud.protected < cloud.configs
                  ? `${formatCounted(cloud.configs - cloud.protected, 'cloud backup')} of ${formatCount(cloud.configs)} failing, late or unprotected`
                  : `${formatCounted(cloud.configs, 'cloud backup')} in order`}
              </Text>
            )}
          </Stack>
        )}
      </Loaded>
    </Card>
  );
}

function Figure({ label, value, isBad = false }: { label: string; value: string; isBad?: boolean }) {
  return (
    <Stack gap={0}>
      <Text size="xs" c="dimmed">
        {label}
      </Text>
      <Text fw={600} {...(isBad ? { c: 'red' } : {})}>
        {value}
      </Text>
    </Stack>
  );
}

/** The newest actions of people and programs, from the audit trail. */
function LatestActionsCard() {
  const trail = useQuery({
    ...apiQuery('GET /audit-logs/logs', { query: { limit: '6', skipCount: 'true' } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Card title="Latest actions" more={{ label: 'Audit', to: '/audit' }}>
      <Loaded query={trail} what="Reading the audit trail">
        {({ data: latest }) => (
          <Stack gap={6}>
            {latest.length === 0 && (
              <Text size="sm" c="dimmed">
                There is no activity yet.
              </Text>
            )}
            {latest.map((entry) => (
              <Group key={entry.id} gap="xs" wrap="nowrap">
                <Text size="sm" flex="3 1 0" truncate>
                  {entry.user.name ?? entry.user.email ?? 'Muster'}
                </Text>
                <Text size="sm" flex="3 1 0" truncate>
                  <TextLink inherit to="/audit" search={{ entry: entry.id }}>
                    {formatWord(entry.action)}
                  </TextLink>
                </Text>
                <Group gap="xs" flex="5 1 0" miw={0} wrap="nowrap">
                  <Text size="sm" c="dimmed" truncate>
                    {entry.resource.name ?? formatWord(entry.resource.type)}
                  </Text>
                  {entry.result !== 'success' && (
                    <StateBadge tone="warning" label={formatWord(entry.result)} />
                  )}
                </Group>
                <Text size="xs" c="dimmed" w={90} ta="right">
                  <When at={entry.timestamp} />
                </Text>
              </Group>
            ))}
          </Stack>
        )}
      </Loaded>
    </Card>
  );
}

/** The devices that went offline last. */
function UnreachableCard({ devices }: { devices: readonly DeviceSummary[] }) {
  const names = useNames();
  const offline = devices
    .filter(({ status }) => status === 'offline')
    .sort((a, b) => (a.presence.since < b.presence.since ? 1 : -1))
    .slice(0, SHOWN);
  return (
    <Card title="Went offline last" more={{ label: 'All devices', to: '/devices' }}>
      {offline.length === 0 ? (
        <Text size="sm" c="dimmed">
          Every device is connected.
        </Text>
      ) : (
        <Stack gap={6}>
          {offline.map((device) => (
            <Group key={device.id} gap="xs" justify="space-between" wrap="nowrap">
              <TextLink size="sm" to="/devices/$deviceId" params={{ deviceId: device.id }}>
                {device.displayName ?? device.hostname}
              </TextLink>
              <Text size="sm" truncate flex={1} c="dimmed">
                {names.organization(device.orgId)}
              </Text>
              <Text size="xs" c="dimmed">
                <When at={device.presence.since} />
              </Text>
            </Group>
          ))}
        </Stack>
      )}
    </Card>
  );
}
