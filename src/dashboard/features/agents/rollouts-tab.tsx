import { Alert, Anchor, Group, Stack, Text, Title } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { apiQuery, useApiChange, type AgentRolloutDetails } from '../../../api/index.ts';
import {
  Action,
  ConfirmAction,
  Failure,
  formatCount,
  formatTime,
  formatWord,
  Loaded,
  PagedTable,
  StateBadge,
} from '../../../ui/index.ts';
import { RolloutState } from './rollout-state.tsx';

type Wave = AgentRolloutDetails['waves'][number];
const REFRESH_MS = 10_000;
const REFRESHES = ['GET /agent-rollouts', 'GET /agent-rollouts/{id}'] as const;

/** The waves of a rollout with their counts, why it halted, and what comes next. */
export function RolloutDetails({ id }: { id: string }) {
  const query = useQuery({
    ...apiQuery('GET /agent-rollouts/{id}', { params: { id } }),
    // Who declines the second factor is not asked again and again.
    refetchInterval: ({ state }) => (state.status === 'success' ? REFRESH_MS : false),
    refetchOnWindowFocus: false,
  });
  return (
    <Loaded query={query} what="Reading the rollout">
      {(rollout) => (
        <Stack gap="sm">
          <Group justify="space-between">
            <Group gap="xs">
              <Title order={2} size="h4">
                {formatWord(rollout.component)} {rollout.version}
              </Title>
              <RolloutState state={rollout.state} />
            </Group>
            <Controls rollout={rollout} />
          </Group>
          <Text size="sm">{rollout.next.message}</Text>
          <PagedTable
            label="Waves"
            rows={rollout.waves.map((wave, place) => ({ ...wave, place }))}
            keyOf={({ place }) => String(place)}
            columns={[
              { header: 'Wave', isName: true, cell: ({ place }) => place + 1 },
              { header: 'Reaches', cell: ({ reachedPercent }) => `${reachedPercent} %` },
              {
                header: 'State',
                cell: ({ state }) => (
                  <StateBadge tone={state === 'open' ? 'busy' : 'neutral'} label={formatWord(state)} />
                ),
              },
              { header: 'Devices', align: 'right', cell: ({ devices }) => formatCount(devices) },
              { header: 'Healthy', align: 'right', cell: ({ counts }) => formatCount(counts.healthy) },
              {
                header: 'Failed',
                align: 'right',
                cell: ({ counts }) => formatCount(counts.failed + counts.rolledBack),
              },
              { header: 'Silent', align: 'right', cell: ({ counts }) => formatCount(counts.silent) },
              { header: 'Under way', align: 'right', cell: ({ counts }) => formatCount(underWay(counts)) },
              { header: 'Why others wait', cell: ({ counts }) => waitingText(counts) },
            ]}
          />
          {rollout.outside > 0 && (
            <Text size="sm">{formatCount(rollout.outside)} devices are reached by no wave.</Text>
          )}
          <Halts halts={rollout.halts} />
        </Stack>
      )}
    </Loaded>
  );
}

const underWay = ({ due, offered, downloading, verifying, installing, restarting, trial }: Wave['counts']) =>
  due + offered + downloading + verifying + installing + restarting + trial;

function waitingText({ waiting, upToDate }: Wave['counts']): string {
  const reasons = Object.entries(waiting)
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => `${formatWord(reason)} (${formatCount(count)})`);
  if (upToDate > 0) reasons.push(`Has it already (${formatCount(upToDate)})`);
  return reasons.length === 0 ? '–' : reasons.join(', ');
}

function Controls({ rollout: { id, state } }: { rollout: AgentRolloutDetails }) {
  const pause = useApiChange('POST /agent-rollouts/{id}/pause', { refreshes: REFRESHES });
  const resume = useApiChange('POST /agent-rollouts/{id}/resume', { refreshes: REFRESHES });
  const abort = useApiChange('POST /agent-rollouts/{id}/abort', { refreshes: REFRESHES });
  const error = pause.error ?? resume.error;
  if (state === 'aborted' || state === 'completed') return null;
  return (
    <Stack gap="xs" align="flex-end">
      <Group gap="xs">
        {state === 'running' ? (
          <Action
            variant="default"
            loading={pause.isPending}
            onClick={() => pause.mutate({ params: { id } })}
          >
            Pause
          </Action>
        ) : (
          <Action
            variant="default"
            loading={resume.isPending}
            onClick={() => resume.mutate({ params: { id } })}
          >
            Resume
          </Action>
        )}
        <ConfirmAction
          variant="default"
          title="Abort the rollout"
          question="No other device gets the version by it, and it cannot be resumed. Devices that have the version keep it."
          confirm="Abort"
          run={() => abort.mutateAsync({ params: { id } })}
        >
          Abort
        </ConfirmAction>
      </Group>
      {error !== null && <Failure error={error} />}
    </Stack>
  );
}

function Halts({ halts }: { halts: AgentRolloutDetails['halts'] }) {
  return halts.map((halt) => (
    <Alert
      key={halt.haltedAt}
      color={halt.endedAt === null ? 'red' : 'gray'}
      icon={<IconAlertTriangle aria-hidden />}
      title={`${halt.endedAt === null ? 'Halted' : 'Was halted'} ${formatTime(new Date(halt.haltedAt))}`}
    >
      <Text size="sm">{halt.message}</Text>
      <Group gap="xs">
        {halt.devices.map(({ deviceId, name }) => (
          <Anchor
            key={deviceId}
            size="sm"
            underline="always"
            c="var(--mantine-color-text)"
            renderRoot={(props) => (
              <Link {...props} to="/devices/$deviceId" params={{ deviceId }} search={{ tab: 'upgrades' }} />
            )}
          >
            {name}
          </Anchor>
        ))}
        {halt.deviceCount > halt.devices.length && (
          <Text size="sm">and {formatCount(halt.deviceCount - halt.devices.length)} more</Text>
        )}
      </Group>
    </Alert>
  ));
}
