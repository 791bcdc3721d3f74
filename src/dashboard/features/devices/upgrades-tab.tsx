import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import {
  apiQuery,
  useApiChange,
  type Device,
  type DeviceUpgrade,
  type DeviceUpgradeAttempt,
} from '../../api/index.ts';
import {
  ConfirmAction,
  Empty,
  formatTime,
  formatWord,
  Loaded,
  PagedTable,
  StateBadge,
  When,
  type Column,
  type Tone,
} from '../../ui/index.ts';
import { useDeviceRefusals } from './use-device.ts';
import { Card, Facts, WithDetails } from './tab-parts.tsx';

const TONES: Record<DeviceUpgrade['state'] | 'completed', Tone> = {
  up_to_date: 'good',
  completed: 'good',
  offered: 'busy',
  deferred: 'neutral',
  blocked: 'warning',
  downloading: 'busy',
  verifying: 'busy',
  installing: 'busy',
  restarting: 'busy',
  trial: 'busy',
  failed: 'bad',
  rolled_back: 'bad',
};
const ATTEMPTS: readonly Column<DeviceUpgradeAttempt>[] = [
  { header: 'Started', cell: ({ startedAt }) => <When at={startedAt} />, width: 120 },
  {
    header: 'Version',
    cell: ({ fromVersion, targetVersion }) => `${fromVersion ?? '?'} → ${targetVersion}`,
    isName: true,
  },
  {
    header: 'State',
    cell: (attempt) => <StateBadge tone={TONES[attempt.state]} label={formatWord(attempt.state)} />,
  },
  { header: 'Ended', cell: ({ finishedAt }) => <When at={finishedAt} never="Not yet" /> },
  { header: 'Asked by', cell: ({ byHand }) => (byHand ? 'A person' : 'Its policy') },
  {
    header: 'Fault',
    cell: ({ error, code }) =>
      error === null && code === null ? '–' : <WithDetails details={undefined}>{error ?? code}</WithDetails>,
  },
];
const READ_AGAIN_MS = 10_000;

/** Which version each program of the device should run, and why it does not. */
export function UpgradesTab({ device }: { device: Device }) {
  const query = useQuery({
    ...apiQuery('GET /devices/{id}/upgrades', { params: { id: device.id } }),
    refetchInterval: READ_AGAIN_MS,
  });
  return (
    <Loaded query={query} what="Reading the upgrades">
      {({ data }) =>
        data.length === 0 ? (
          <Empty title="Nothing to upgrade">The device has reported no program of Muster yet.</Empty>
        ) : (
          <Stack gap="sm">
            {data.map((upgrade) => (
              <Component key={upgrade.component} device={device} upgrade={upgrade} />
            ))}
          </Stack>
        )
      }
    </Loaded>
  );
}

function Component({ device, upgrade }: { device: Device; upgrade: DeviceUpgrade }) {
  const refusals = useDeviceRefusals(device);
  const start = useApiChange('POST /devices/{id}/upgrades', { refreshes: ['GET /devices/{id}/upgrades'] });
  const { component, current, target, state, reason, message, nextAt, levels, history } = upgrade;
  const name = formatWord(component);
  return (
    <Card
      title={name}
      action={
        <ConfirmAction
          variant="default"
          color="blue"
          title={`Upgrade the ${component} now`}
          confirm="Upgrade now"
          refusal={refusals.write ?? refused(upgrade)}
          question={`Does not wait for the policy, the wave of the rollout or the pause after a failure. A pinned version and the maintenance window still hold.`}
          run={() => start.mutateAsync({ params: { id: device.id }, body: { component } })}
        >
          Try now
        </ConfirmAction>
      }
    >
      <Group gap="xs" mb="xs">
        <StateBadge tone={TONES[state]} label={formatWord(state)} />
        <Text size="sm">{message}</Text>
      </Group>
      <Facts
        facts={[
          ['Current version', current],
          ['Target version', target ?? 'None: no release is promoted for its platform'],
          ['Reason', reason === null ? undefined : formatWord(reason)],
          ['Next try', nextAt === undefined ? undefined : formatTime(new Date(nextAt))],
          ['Set by', setBy(levels)],
        ]}
      />
      {history.length > 0 && (
        <PagedTable
          label={`Attempts to upgrade the ${component}`}
          rows={history}
          keyOf={({ id }) => id}
          columns={ATTEMPTS}
        />
      )}
    </Card>
  );
}

const LEVELS = {
  default: 'the default of Muster',
  partner: 'the provider',
  organization: 'the organization',
} as const;

/** Where version, policy and window come from, as a sentence. */
function setBy({ pin, policy, window }: DeviceUpgrade['levels']): string {
  if (pin === policy && policy === window) return `Version, policy and window are set by ${LEVELS[pin]}.`;
  return `The version is set by ${LEVELS[pin]}, the policy by ${LEVELS[policy]}, the window by ${LEVELS[window]}.`;
}

function refused({ state, target }: DeviceUpgrade): string | undefined {
  if (state === 'up_to_date') return 'It runs the version that it should run.';
  if (target === null) return 'No release is promoted for this kind of device.';
  if (TONES[state] === 'busy') return 'An upgrade is going on.';
  return undefined;
}
