import { Anchor, Group, Progress, SimpleGrid, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { apiQuery, type BackupDashboard } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { Empty, formatBytes, formatCount, formatCounted, Loaded, Panel } from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { CloudBackups } from './cloud-backups.tsx';
import { FailedJobs } from './failed-jobs.tsx';
import { Readiness } from './readiness.tsx';
import { SlaEvents } from './sla-events.tsx';
import { UsagePlot } from './usage-plot.tsx';

const route = getRouteApi('/signed-in/backup');
const REFRESH_MS = 30_000;
const DAYS = 30;

/** Whether what should be protected is, and what stands in the way. */
export function BackupPage() {
  const { days } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const dashboard = useQuery({
    ...apiQuery('GET /backup/dashboard', { query: { orgId } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <BackupFrame
      title="Backup"
      description="A device counts as protected when a snapshot of it was verified, not when a backup was started."
    >
      <Loaded query={dashboard} what="Reading the state of backups">
        {({ data }) =>
          data.totals.configs + data.cloud.configs === 0 ? (
            <Empty
              title="Nothing is backed up"
              action={
                <Anchor renderRoot={(props) => <Link {...props} to="/backup/configurations" />}>
                  Make the first configuration
                </Anchor>
              }
            >
              Three steps: make a key that encrypts the backups, say what is backed up and where it goes, and
              choose the devices.
            </Empty>
          ) : (
            <Stack gap="sm">
              <SimpleGrid cols={{ base: 1, md: 2 }} spacing="sm">
                <Panel title="Coverage">
                  <Coverage data={data} />
                </Panel>
                <Panel title="Stored data">
                  <UsagePlot
                    days={days ?? DAYS}
                    onDays={(next) =>
                      void navigate({ search: (previous) => ({ ...previous, days: next }), replace: true })
                    }
                  />
                </Panel>
              </SimpleGrid>
              {data.cloud.configs > 0 && <CloudBackups cloud={data.cloud} />}
              <Readiness orgId={orgId} />
              <SimpleGrid cols={{ base: 1, md: 2 }} spacing="sm">
                <FailedJobs orgId={orgId} />
                <SlaEvents orgId={orgId} />
              </SimpleGrid>
            </Stack>
          )
        }
      </Loaded>
    </BackupFrame>
  );
}

function Coverage({ data: { coverage, jobsLast24h, storage } }: { data: BackupDashboard['data'] }) {
  const share = coverage.devices === 0 ? 0 : (coverage.protectedDevices / coverage.devices) * 100;
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Text size="sm">Devices with a verified snapshot</Text>
        <Text size="sm" fw={600}>
          {formatCount(coverage.protectedDevices)} of {formatCount(coverage.devices)}
        </Text>
      </Group>
      <Progress value={share} aria-label="Share of devices with a verified snapshot" />
      <Text size="sm" fw={600}>
        Jobs of the last 24 hours
      </Text>
      <SimpleGrid cols={3} spacing="xs">
        {(['completed', 'partial', 'failed', 'running', 'queued', 'cancelled'] as const).map((state) => (
          <Anchor
            key={state}
            underline="hover"
            c="var(--mantine-color-text)"
            renderRoot={(props) => (
              <Link
                {...props}
                to="/backup/jobs"
                search={{ status: state === 'queued' ? 'pending' : state }}
              />
            )}
          >
            <Text size="xs" component="span" display="block">
              {LABELS[state]}
            </Text>
            <Text fw={600} component="span">
              {formatCount(jobsLast24h[state])}
            </Text>
          </Anchor>
        ))}
      </SimpleGrid>
      <Text size="sm">
        {formatBytes(storage.totalBytes)} in {formatCounted(storage.snapshots, 'snapshot')}
      </Text>
    </Stack>
  );
}

const LABELS = {
  completed: 'Completed',
  partial: 'Partial',
  failed: 'Failed',
  running: 'Running',
  queued: 'Waiting',
  cancelled: 'Cancelled',
};
