import { Stack, Switch, Text, Tooltip, Group, Progress } from '@mantine/core';
import { IconArchive, IconPlugConnectedX } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { type Alert, type Answer, apiQuery, useApiChange, type Device } from '../../api/index.ts';
import {
  Failure,
  formatBytes,
  formatCount,
  formatCounted,
  formatTime,
  formatWord,
  reasonText,
  SYSTEM_NAMES,
  When,
  TextLink,
  formatDuration,
  formatPercent,
  Notice,
} from '../../ui/index.ts';
import { useRefusal } from '../../session.ts';
import { SEVERITIES } from '../alert-words/index.ts';
import { SeverityBadge } from '../alerts/index.ts';
import { REFRESHES } from './device-dialogs.tsx';
import { PinnedNotes } from './device-notes.tsx';
import { useDeviceRefusals } from './use-device.ts';
import { CustomFieldsCard } from './custom-fields-card.tsx';
import { Card, Facts } from './tab-parts.tsx';
import { useEffect, useState } from 'react';
import { type Sample, withSample } from './samples.ts';
import styles from './tab-parts.module.css';

const MIB = 1024 ** 2;

/** The properties of the device, the most needed first. */
export function SummaryTab({ device }: { device: Device }) {
  const inventory = useQuery(apiQuery('GET /devices/{id}/inventory', { params: { id: device.id } }));
  const { presence, lastSeenAt } = device;
  const mayRun = useDeviceRefusals(device).command('script.run');
  const isAway = presence.state === 'disconnected';
  return (
    <Stack gap="sm">
      {device.status === 'decommissioned' && (
        <Notice tone="neutral" icon={IconArchive} title="This device is out of service">
          <Text size="sm">
            What you see is what was known last. “Put back in service” is under More; its agent then enrolls
            again.
          </Text>
        </Notice>
      )}
      {isAway && device.status !== 'decommissioned' && (
        <Notice
          tone="warning"
          icon={IconPlugConnectedX}
          title={lastSeenAt === null ? 'This device has never connected' : 'This device is not connected'}
        >
          <Text size="sm">
            {lastSeenAt === null ? (
              'It appears here as soon as its agent connects for the first time.'
            ) : (
              <>
                What you see is what it last reported, <When at={lastSeenAt} />.{' '}
              </>
            )}
            {lastSeenAt !== null && mayRun === undefined && 'Scripts and commands wait for it, for a day.'}
          </Text>
        </Notice>
      )}
      <OpenAlerts device={device} />
      <PinnedNotes device={device} />
      <div className={styles['cards']}>
        <MetricsCard device={device} />
        <PresenceCard device={device} />
        <AgentCard device={device} />
        <Card title="System">
          <Facts
            facts={[
              ['System', device.osVersion || SYSTEM_NAMES[device.osType]],
              ['Build', device.osBuild],
              ['Architecture', device.architecture],
              ['Host name', device.hostname],
              ['Last user', inventory.data?.lastUser],
              ['Software', softwareLink(device, inventory.data?.softwareCount)],
            ]}
          />
        </Card>
        <HardwareCard device={device} collectedAt={inventory.data?.collectedAt ?? null} />
        <Card title="Network">
          <Facts
            facts={[
              ['Address', device.network.ipAddress],
              ['Public address', device.network.publicIp],
              ['MAC address', device.network.macAddress],
              ['Seen from', device.lastIp],
              ...(inventory.data?.interfaces ?? []).map(
                ({ name, isPrimary, ...addresses }) =>
                  [name, `${addressesText(addresses)}${isPrimary ? ' (default route)' : ''}`] as const,
              ),
            ]}
          />
        </Card>
        <GroupsCard device={device} />
        <CustomFieldsCard device={device} />
      </div>
      {inventory.error !== null && <Failure error={inventory.error} retry={() => void inventory.refetch()} />}
    </Stack>
  );
}

const ALERTS_SHOWN = '5';
const ALERTS_AGAIN_MS = 15_000;

/** What is wrong now, the worst first, before everything else that is known. */
function OpenAlerts({ device }: { device: Device }) {
  const mayRead = useRefusal('alerts:read') === undefined;
  const alerts = useQuery({
    ...apiQuery('GET /alerts', {
      query: { deviceId: device.id, status: 'active,acknowledged', limit: ALERTS_SHOWN },
    }),
    enabled: mayRead,
    refetchInterval: ALERTS_AGAIN_MS,
  });
  const { data: open = [], pagination } = alerts.data ?? {};
  if (open.length === 0) return null;
  const more = (pagination?.total ?? 0) - open.length;
  return (
    <Notice tone="warning" title={formatCounted(pagination?.total ?? open.length, 'open alert')}>
      <ul className={styles['alerts']}>
        {[...open].sort(bySeverity).map((alert) => (
          <li key={alert.id}>
            <SeverityBadge severity={alert.severity} />
            <TextLink inherit underline="always" to="/alerts" search={{ alert: alert.id }}>
              {alert.title}
            </TextLink>
            <Text size="xs" component="span">
              <When at={alert.raisedAt} />
              {alert.status === 'acknowledged' && ', acknowledged'}
            </Text>
          </li>
        ))}
      </ul>
      {more > 0 && (
        <TextLink
          size="sm"
          underline="always"
          to="/devices/$deviceId"
          params={{ deviceId: device.id }}
          search={{ tab: 'alerts' }}
        >
          {formatCounted(more, 'more alert')}
        </TextLink>
      )}
    </Notice>
  );
}

const bySeverity = (a: Alert, b: Alert) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity);

type Interface = Answer<'GET /devices/{id}/inventory'>['interfaces'][number];

/** "10.0.0.5, 10.0.0.6 and 3 more" */
function addressesText({
  ipAddresses,
  addressCount = ipAddresses.length,
}: Pick<Interface, 'ipAddresses' | 'addressCount'>): string {
  if (ipAddresses.length === 0) return 'no address';
  const more = addressCount - ipAddresses.length;
  return `${ipAddresses.join(', ')}${more > 0 ? ` and ${formatCount(more)} more` : ''}`;
}

const softwareLink = (device: Device, count: number | undefined) =>
  count === undefined ? undefined : (
    <TextLink inherit to="/devices/$deviceId" params={{ deviceId: device.id }} search={{ tab: 'software' }}>
      {formatCounted(count, 'program')}
    </TextLink>
  );

function PresenceCard({ device }: { device: Device }) {
  const { presence, status, maintenanceUntil } = device;
  return (
    <Card title="Presence">
      <Facts
        facts={[
          ['Connection', formatWord(presence.state)],
          // For a device that is connected, the reason would say the same once more.
          ['Reason', presence.state === 'connected' ? undefined : formatWord(reasonText(presence))],
          ['Since', formatTime(new Date(presence.since))],
          ['Last seen', <When key="seen" at={device.lastSeenAt} />],
          [
            'Maintenance',
            status === 'maintenance'
              ? maintenanceUntil === null
                ? 'Until it is ended'
                : `Until ${formatTime(new Date(maintenanceUntil))}`
              : 'None',
          ],
          [
            'Maintenance window',
            device.maintenance === null
              ? undefined
              : `${device.maintenance.name}, until ${formatTime(new Date(device.maintenance.until))}`,
          ],
          ['Enrolled', <When key="enrolled" at={device.enrolledAt} />],
        ]}
      />
    </Card>
  );
}

const AGENT_STATES: Record<NonNullable<Device['agentState']>['state'], string> = {
  running: 'Running',
  restarting: 'Restarting',
  silent: 'Not responding',
  crash_loop: 'Crashes repeatedly',
  stopped: 'Stopped',
};

function AgentCard({ device }: { device: Device }) {
  const refusals = useDeviceRefusals(device);
  const patch = useApiChange('PATCH /devices/{id}', { refreshes: REFRESHES });
  const { agentState } = device;
  const isRefused = refusals.write !== undefined;
  return (
    <Card title="Agent">
      <Facts
        facts={[
          ['Agent', device.agentVersion],
          ['Watchdog', device.watchdogVersion ?? 'Not installed'],
          [
            'State',
            agentState === null ? undefined : (
              <>
                {AGENT_STATES[agentState.state]}, since <When at={agentState.since} />
                {agentState.message !== null && `: ${agentState.message}`}
              </>
            ),
          ],
          [
            'Capabilities',
            <Tooltip
              key="can"
              multiline
              maw={360}
              label={device.capabilities.join(', ') || 'Nothing reported'}
            >
              {/* Reached by keyboard, because the list is nowhere else. */}
              {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
              <span tabIndex={0}>{formatCount(device.capabilities.length)}</span>
            </Tooltip>,
          ],
        ]}
      />
      <Tooltip label={refusals.write} disabled={!isRefused} multiline maw={320}>
        <Switch
          mt="xs"
          label="Automatic updates"
          checked={device.autoUpdate}
          aria-disabled={isRefused}
          aria-description={refusals.write}
          onChange={(event) => {
            if (isRefused) return;
            patch.mutate({ params: { id: device.id }, body: { autoUpdate: event.currentTarget.checked } });
          }}
        />
      </Tooltip>
      {patch.error !== null && <Failure error={patch.error} />}
    </Card>
  );
}

function HardwareCard({ device: { hardware }, collectedAt }: { device: Device; collectedAt: string | null }) {
  return (
    <Card
      title="Hardware"
      action={
        collectedAt === null ? undefined : (
          <Text size="xs">
            Collected <When at={collectedAt} />
          </Text>
        )
      }
    >
      <Facts
        facts={[
          ['Manufacturer', hardware.manufacturer],
          ['Model', hardware.model],
          ['Serial number', hardware.serialNumber],
          [
            'Processor',
            hardware.cpuModel === undefined
              ? undefined
              : `${hardware.cpuModel}${hardware.cpuCores === undefined ? '' : `, ${hardware.cpuCores} cores`}`,
          ],
          ['Memory', hardware.ramTotalMb === undefined ? undefined : formatBytes(hardware.ramTotalMb * MIB)],
          [
            'Disk',
            hardware.diskTotalGb === undefined ? undefined : `${formatCount(hardware.diskTotalGb)} GB`,
          ],
          ['Graphics', hardware.gpuModel],
        ]}
        none="The agent has reported no hardware yet. Refresh the inventory to ask for it."
      />
    </Card>
  );
}

/** The groups that the device is in, by name. */
function GroupsCard({ device: { groupIds, orgId } }: { device: Device }) {
  const groups = useQuery({
    ...apiQuery('GET /groups', { query: { orgId, limit: '100' } }),
    enabled: groupIds.length > 0,
  });
  const nameOf = (id: string) => groups.data?.data.find((group) => group.id === id);
  return (
    <Card title="Groups">
      {groupIds.length === 0 ? (
        <Text size="sm">It is in no group.</Text>
      ) : (
        <Facts
          facts={groupIds.map((id) => {
            const group = nameOf(id);
            const how = group?.type === 'dynamic' ? 'By its filter' : 'Chosen by people';
            return [<GroupLink key={id} id={id} name={group?.name ?? id.slice(0, 8)} />, how] as const;
          })}
        />
      )}
    </Card>
  );
}

const GroupLink = ({ id, name }: { id: string; name: string }) => (
  <TextLink inherit underline="always" to="/groups/$groupId" params={{ groupId: id }}>
    {name}
  </TextLink>
);

const HIGH_PERCENT = 90;

/** How busy the machine is: the newest figures, and their course since the dashboard was opened. */
function MetricsCard({ device }: { device: Device }) {
  const samples = useMetricHistory(device);
  const { metrics, presence } = device;
  if (metrics === null) {
    return (
      <Card title="Load">
        <Text size="sm">The agent has reported no figures yet. It sends them with its heartbeat.</Text>
      </Card>
    );
  }
  const isOld = presence.state === 'disconnected';
  const length = (samples.at(-1)?.at ?? 0) - (samples[0]?.at ?? 0);
  return (
    <Card
      title={isOld ? 'Last known load' : 'Load'}
      action={
        <Text size="xs">
          {isOld ? 'From ' : 'Measured '}
          <When at={metrics.at} />
        </Text>
      }
    >
      <Stack gap="xs" {...(isOld ? { className: styles['old'] } : {})}>
        <Meter name="Processor" percent={metrics.cpuPercent} samples={samples} of="cpu" isOld={isOld} />
        <Meter name="Memory" percent={metrics.ramPercent} samples={samples} of="ram" isOld={isOld} />
        <Meter name="System disk" percent={metrics.diskPercent} samples={samples} of="disk" isOld={isOld} />
      </Stack>
      <Text size="xs" mt={6}>
        {samples.length < 2
          ? 'The curves grow while the dashboard is open. The past two years are under Metrics.'
          : `The curves show the last ${formatDuration(length)}, from 0 to 100 %.`}
      </Text>
    </Card>
  );
}

function Meter({
  name,
  percent,
  samples,
  of,
  isOld,
}: {
  name: string;
  percent: number;
  samples: readonly Sample[];
  of: 'cpu' | 'ram' | 'disk';
  isOld: boolean;
}) {
  const isHigh = percent >= HIGH_PERCENT;
  return (
    <Stack gap={4}>
      <Group justify="space-between" gap={4} wrap="nowrap">
        <Text size="sm">{name}</Text>
        <Text size="sm" fw={700} c={isHigh ? 'red' : 'inherit'}>
          {formatPercent(percent)}
          {isHigh && ', high'}
        </Text>
      </Group>
      <Progress
        value={percent}
        size="sm"
        color={isOld ? 'gray' : isHigh ? 'red' : 'blue'}
        aria-label={`${name}: ${formatPercent(percent)}`}
      />
      {samples.length >= 2 && <Curve name={name} values={samples.map((sample) => [sample.at, sample[of]])} />}
    </Stack>
  );
}

function Curve({
  name,
  values,
}: {
  name: string;
  values: readonly (readonly [at: number, percent: number])[];
}) {
  const begin = values[0]?.[0] ?? 0;
  const length = Math.max(1, (values.at(-1)?.[0] ?? 0) - begin);
  const points = values.map(([at, percent]) => `${((at - begin) / length) * 100},${100 - percent}`).join(' ');
  const percents = values.map(([, percent]) => percent);
  const label = `${name} in the last ${formatDuration(length)}: from ${formatPercent(Math.min(...percents))} to ${formatPercent(Math.max(...percents))}`;
  return (
    <svg
      className={styles['curve']}
      viewBox="0 0 100 100"
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <line className={styles['base']} x1="0" y1="100" x2="100" y2="100" />
      <polyline className={styles['line']} points={points} />
    </svg>
  );
}

/** The API keeps the newest figures only, so what came while the dashboard is open is kept here. */
const DEVICES_MAX = 30;
const kept = new Map<string, readonly Sample[]>();

function useMetricHistory({ id, metrics }: Device): readonly Sample[] {
  const [samples, setSamples] = useState<readonly Sample[]>(() => kept.get(id) ?? []);
  const at = metrics?.at;
  useEffect(() => {
    if (metrics === null || at === undefined) return;
    const sample = {
      at: Date.parse(at),
      cpu: metrics.cpuPercent,
      ram: metrics.ramPercent,
      disk: metrics.diskPercent,
    };
    setSamples((known) => {
      const next = withSample(known, sample);
      kept.delete(id);
      kept.set(id, next);
      const [oldest] = kept.keys();
      if (kept.size > DEVICES_MAX && oldest !== undefined) kept.delete(oldest);
      return next;
    });
    // New figures have a new time.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [id, at]);
  return samples;
}
