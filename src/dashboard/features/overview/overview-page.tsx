import { Group, Paper, SimpleGrid, Stack, Text, UnstyledButton } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { DeviceStatus } from '../../../protocol/index.ts';
import { GettingStarted } from '../getting-started/index.ts';
import { useLiveDevices, type LiveDevices } from '../../live/index.ts';
import { scopeQuery, useScope } from '../../routing/index.ts';
import { refusalOf, useMe } from '../../session/index.ts';
import { DeviceStatusBadge, Failure, formatCount, Loading, Page } from '../../ui/index.ts';
import { AgentVersionsCard } from './cards/agent-versions-card.tsx';
import { AlertsCard } from './cards/alerts-card.tsx';
import { BackupCard } from './cards/backup-card.tsx';
import { LatestActionsCard } from './cards/latest-actions-card.tsx';
import { UnreachableCard } from './cards/unreachable-card.tsx';

/** What needs attention now, and what goes on. */
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
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        {may('alerts:read') && <AlertsCard />}
        {!isEmpty && <UnreachableCard devices={live.devices} />}
        {may('backup:read') && <BackupCard />}
        {!isEmpty && <AgentVersionsCard devices={live.devices} />}
      </SimpleGrid>
      {may('audit:read') && <LatestActionsCard />}
    </Page>
  );
}

/** Counts of states in which no device is are left out, but for the two that everybody looks for. */
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
