import { Group, Progress, SimpleGrid, Stack, Text, SegmentedControl } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import {
  apiQuery,
  type BackupDashboard,
  type BackupUsageHistory,
  useList,
  type BackupRecoveryReadiness,
} from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import {
  Empty,
  formatBytes,
  formatCount,
  formatCounted,
  Loaded,
  Panel,
  PagedTable,
  When,
  TextLink,
  Action,
  formatDuration,
  formatWord,
  StateBadge,
  type Tone,
} from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { DeviceLink } from './selects.tsx';
import { SlaEvents } from './slas-page.tsx';
import { useState } from 'react';

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
              action={<TextLink to="/backup/configurations">Make the first configuration</TextLink>}
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
          <TextLink
            key={state}
            underline="hover"
            c="var(--mantine-color-text)"
            to="/backup/jobs"
            search={{ status: state === 'queued' ? 'pending' : state }}
          >
            <Text size="xs" component="span" display="block">
              {LABELS[state]}
            </Text>
            <Text fw={600} component="span">
              {formatCount(jobsLast24h[state])}
            </Text>
          </TextLink>
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

/** The cloud backup configurations that are failing, late or unprotected. */
function CloudBackups({ cloud }: { cloud: BackupDashboard['data']['cloud'] }) {
  const { configs, failing, late, unprotected, attentionItems } = cloud;
  return (
    <Panel title="Cloud backups">
      <Stack gap="sm">
        <Text size="sm">
          {formatCount(cloud.protected)} of {formatCount(configs)} configurations protect what they are about.{' '}
          {formatCount(failing)} failing, {formatCount(late)} late, {formatCount(unprotected)} without a good
          run.
        </Text>
        {attentionItems.length > 0 && (
          <PagedTable
            label="Cloud backups that need attention"
            rows={attentionItems}
            keyOf={({ configId }) => configId}
            columns={[
              {
                header: 'Configuration',
                isName: true,
                width: 180,
                cell: ({ configId, name }) => (
                  <TextLink inherit to="/cloud-backup/jobs" search={{ config: configId }}>
                    {name}
                  </TextLink>
                ),
              },
              { header: 'Points', align: 'right', width: 70, cell: ({ readinessScore }) => readinessScore },
              { header: 'Risks', cell: ({ riskFactors }) => <Risks risks={riskFactors} /> },
              {
                header: 'Last good run',
                width: 130,
                cell: ({ estimatedRpoMinutes }) => ageText(estimatedRpoMinutes),
              },
            ]}
          />
        )}
        <TextLink size="sm" to="/cloud-backup">
          All cloud backup configurations
        </TextLink>
      </Stack>
    </Panel>
  );
}

const SHOWN = '5';

/** The last backups that failed, each with its cause. */
function FailedJobs({ orgId }: { orgId: string | undefined }) {
  const jobs = useQuery({
    ...apiQuery('GET /backup/jobs', { query: { orgId, status: 'failed', limit: SHOWN } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Panel title="Failed jobs">
      <Loaded query={jobs} what="Reading failed jobs">
        {({ data }) =>
          data.length === 0 ? (
            <Text size="sm">No backup has failed.</Text>
          ) : (
            <PagedTable
              label="Failed jobs"
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                { header: 'Device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
                {
                  header: 'Cause',
                  cell: ({ id, error }) => (
                    <TextLink inherit to="/backup/jobs" search={{ job: id }}>
                      {error?.message ?? 'Not known'}
                    </TextLink>
                  ),
                },
                { header: 'When', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Panel>
  );
}

const WIDTH = 600;
const HEIGHT = 140;
const RANGES = ['7', '30', '90'];

/** The storage used by backups, day by day. The line of text below the plot says the same. */
function UsagePlot({ days, onDays }: { days: number; onDays: (days: number) => void }) {
  const { orgId } = scopeQuery(useScope());
  const usage = useList('GET /backup/usage-history', { query: { orgId, days: String(days) } });
  return (
    <Stack gap="xs">
      <Group justify="flex-end">
        <SegmentedControl
          size="xs"
          aria-label="Days that are shown"
          data={RANGES.map((value) => ({ value, label: `${value} days` }))}
          value={String(days)}
          onChange={(value) => onDays(Number(value))}
        />
      </Group>
      <Loaded query={usage} what="Reading the usage">
        {({ data: { points } }) => <Plot points={points} />}
      </Loaded>
    </Stack>
  );
}

function Plot({ points }: { points: BackupUsageHistory['data']['points'] }) {
  const first = points[0];
  const last = points.at(-1);
  if (first === undefined || last === undefined || points.every(({ totalBytes }) => totalBytes === 0)) {
    return <Text size="sm">Nothing was stored in these days.</Text>;
  }
  const most = Math.max(...points.map(({ totalBytes }) => totalBytes));
  const x = (place: number) => (points.length === 1 ? WIDTH : (place / (points.length - 1)) * WIDTH);
  const y = (bytes: number) => HEIGHT - (bytes / most) * (HEIGHT - 4);
  const line = points.map(({ totalBytes }, place) => `${x(place).toFixed(1)},${y(totalBytes).toFixed(1)}`);
  const day = (at: string) => new Date(at).toLocaleDateString();
  const providers = last.providers
    .map(({ provider, bytes }) => `${provider} ${formatBytes(bytes)}`)
    .join(', ');
  const growth = last.totalBytes - first.totalBytes;
  return (
    <Stack gap={4}>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} height={HEIGHT} preserveAspectRatio="none" aria-hidden>
        <polygon
          points={`0,${HEIGHT} ${line.join(' ')} ${WIDTH},${HEIGHT}`}
          fill="var(--mantine-primary-color-light)"
        />
        <polyline
          points={line.join(' ')}
          fill="none"
          stroke="var(--mantine-primary-color-filled)"
          strokeWidth={2}
          vectorEffect="non-scaling-stroke"
        />
      </svg>
      <Group justify="space-between">
        <Text size="xs">{day(first.timestamp)}</Text>
        <Text size="xs">{day(last.timestamp)}</Text>
      </Group>
      <Text size="sm">
        {formatBytes(first.totalBytes)} on {day(first.timestamp)}, {formatBytes(last.totalBytes)} now (
        {growth < 0 ? '−' : '+'}
        {formatBytes(Math.abs(growth))}), at most {formatBytes(most)}.{' '}
        {providers !== '' && `Now by place: ${providers}.`}
      </Text>
    </Stack>
  );
}

const GOOD = 85;
const AT_RISK_SHOWN = 8;
const READINESS_REFRESH_MS = 60_000;
const MINUTE_MS = 60_000;

/** How surely each device can be restored, and what speaks against it: the least ready first. */
function Readiness({ orgId }: { orgId: string | undefined }) {
  const [isWhole, setWhole] = useState(false);
  const readiness = useQuery({
    ...apiQuery('GET /backup/recovery-readiness', { query: { orgId } }),
    refetchInterval: READINESS_REFRESH_MS,
  });
  return (
    <Panel title="Readiness for recovery">
      <Loaded query={readiness} what="Reading the readiness">
        {({ data: { summary, devices } }) => {
          const atRisk = devices.filter(({ readinessScore }) => readinessScore < GOOD);
          const shown = isWhole ? atRisk : atRisk.slice(0, AT_RISK_SHOWN);
          return (
            <Stack gap="sm">
              <Text size="sm">
                {summary.averageScore === null
                  ? 'There is no device to restore yet.'
                  : `On average ${Math.round(summary.averageScore)} of 100 points. ${formatCount(summary.highReadiness)} of ${formatCount(summary.devices)} devices are ready, ${formatCount(summary.lowReadiness)} are far from it.`}
              </Text>
              {shown.length > 0 && (
                <PagedTable
                  label="Devices at risk"
                  rows={shown}
                  keyOf={({ deviceId }) => deviceId}
                  columns={[
                    {
                      header: 'Device',
                      isName: true,
                      width: 180,
                      cell: ({ deviceId }) => <DeviceLink id={deviceId} />,
                    },
                    {
                      header: 'Points',
                      align: 'right',
                      width: 70,
                      cell: ({ readinessScore }) => readinessScore,
                    },
                    { header: 'Risks', cell: ({ riskFactors }) => <Risks risks={riskFactors} /> },
                    {
                      header: 'Newest snapshot',
                      width: 130,
                      cell: ({ estimatedRpoMinutes }) => ageText(estimatedRpoMinutes),
                    },
                    {
                      header: 'A restore takes',
                      width: 130,
                      cell: ({ estimatedRtoMinutes: minutes }) =>
                        minutes === null ? 'Never measured' : formatDuration(minutes * MINUTE_MS),
                    },
                  ]}
                />
              )}
              {atRisk.length > AT_RISK_SHOWN && (
                <Group>
                  <Action size="compact-sm" variant="default" onClick={() => setWhole(!isWhole)}>
                    {isWhole ? 'Show fewer' : `Show all ${formatCount(atRisk.length)}`}
                  </Action>
                </Group>
              )}
            </Stack>
          );
        }}
      </Loaded>
    </Panel>
  );
}

type Risk = BackupRecoveryReadiness['data']['devices'][number]['riskFactors'][number];
const TONES: Record<Risk['severity'], Tone> = {
  critical: 'bad',
  high: 'bad',
  medium: 'warning',
  low: 'info',
};

const ageText = (minutes: number | null) =>
  minutes === null ? 'None' : `${formatDuration(minutes * MINUTE_MS)} old`;

/** The risks for a restore. */
function Risks({ risks }: { risks: readonly Risk[] }) {
  return (
    <Stack gap={2}>
      {risks.map(({ code, severity, message }) => (
        <Group key={code} gap={6} wrap="nowrap">
          <StateBadge tone={TONES[severity]} label={formatWord(severity)} />
          <Text size="sm">{message}</Text>
        </Group>
      ))}
    </Stack>
  );
}
