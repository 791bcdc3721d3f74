import { Alert, Anchor, Stack, Switch, Text, Tooltip } from '@mantine/core';
import { IconArchive, IconPlugConnectedX } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { apiQuery, useApiChange, type Device } from '../../../../api/index.ts';
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
} from '../../../../ui/index.ts';
import { REFRESHES } from '../../dialogs/simple-forms.tsx';
import { useDeviceRefusals } from '../device-refusals.ts';
import { CustomFieldsCard } from './custom-fields-card.tsx';
import { Card, Facts } from './facts.tsx';
import styles from './facts.module.css';
import { MetricsCard } from './metrics-card.tsx';

const MIB = 1024 ** 2;

/** What is known about the device, the most needed first. */
export function SummaryTab({ device }: { device: Device }) {
  const inventory = useQuery(apiQuery('GET /devices/{id}/inventory', { params: { id: device.id } }));
  const { presence, lastSeenAt } = device;
  const mayRun = useDeviceRefusals(device).command('script.run');
  const isAway = presence.state === 'disconnected';
  return (
    <Stack gap="sm">
      {device.status === 'decommissioned' && (
        <Alert
          color="gray"
          variant="light"
          p="xs"
          icon={<IconArchive aria-hidden />}
          title="This device is out of service"
        >
          <Text size="sm">
            What you see is what was known last. “Put back in service” is under More; its agent then enrolls
            again.
          </Text>
        </Alert>
      )}
      {isAway && device.status !== 'decommissioned' && (
        <Alert
          color="orange"
          variant="light"
          p="xs"
          icon={<IconPlugConnectedX aria-hidden />}
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
        </Alert>
      )}
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
                ({ name, ipAddresses, isPrimary }) =>
                  [
                    name,
                    `${ipAddresses.length === 0 ? 'no address' : ipAddresses.join(', ')}${isPrimary ? ' (default route)' : ''}`,
                  ] as const,
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

const softwareLink = (device: Device, count: number | undefined) =>
  count === undefined ? undefined : (
    <Anchor
      inherit
      renderRoot={(props) => (
        <Link
          {...props}
          to="/devices/$deviceId"
          params={{ deviceId: device.id }}
          search={{ tab: 'software' }}
        />
      )}
    >
      {formatCounted(count, 'program')}
    </Anchor>
  );

function PresenceCard({ device }: { device: Device }) {
  const { presence, status, maintenanceUntil } = device;
  return (
    <Card title="Presence">
      <Facts
        facts={[
          ['Connection', formatWord(presence.state)],
          // Of a device that is connected it says the same once more.
          ['Reason', presence.state === 'connected' ? undefined : formatWord(reasonText(presence))],
          ['Since', formatTime(new Date(presence.since))],
          ['Last seen', <When key="seen" at={device.lastSeenAt} />],
          [
            'Maintenance',
            status === 'maintenance'
              ? maintenanceUntil === null
                ? 'Until somebody ends it'
                : `Until ${formatTime(new Date(maintenanceUntil))}`
              : 'None',
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
  <Anchor
    inherit
    underline="always"
    renderRoot={(props) => <Link {...props} to="/groups/$groupId" params={{ groupId: id }} />}
  >
    {name}
  </Anchor>
);
