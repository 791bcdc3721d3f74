import { Anchor, Drawer, Group, Stack, Text, Title, type ButtonProps } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { JobUpdate } from '../../../../protocol/index.ts';
import { apiQuery, useApiChange, useRefreshOn, type RecoveryToken } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { ConfirmAction, formatBytes, formatTime, Loaded, StateBadge } from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { FactTable } from '../parts/facts.tsx';
import { Cause } from '../parts/faults.tsx';
import { Warnings } from '../parts/warnings.tsx';
import { WorkProgress } from '../parts/work-progress.tsx';
import { bootModeText } from '../parts/consistency.tsx';
import { RecoveredDisks } from './recovered-disks.tsx';
import { disksText, isOpen, noteOf, SESSIONS, STATES } from './token-texts.ts';
import { TOKEN_READS } from './use-recoveries.ts';

const REFRESH_MS = 15_000;

export function TokenDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  return (
    <Drawer
      opened={id !== undefined}
      onClose={onClose}
      position="right"
      size="lg"
      title="Recovery token"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {id !== undefined && <TokenStanding key={id} id={id} />}
    </Drawer>
  );
}

/** Ends a token, in the middle of a recovery as well. */
export function RevokeToken({ token, ...button }: ButtonProps & { token: RecoveryToken }) {
  const refusal = useRefusal('recovery:execute');
  const revoke = useApiChange('DELETE /backup/bmr/token/{id}', { refreshes: TOKEN_READS });
  const { id, status } = token;
  const over = isOpen(token) ? undefined : `The token opens nothing any more: ${STATES[status].label}.`;
  return (
    <ConfirmAction
      {...button}
      refusal={refusal ?? over}
      title="Revoke this token"
      question={
        status === 'authenticated'
          ? 'A recovery is going on with it. It is cut off at once, and what was written so far is not a whole machine.'
          : 'Nobody can begin a recovery with it any more.'
      }
      confirm="Revoke the token"
      run={() => revoke.mutateAsync({ params: { id } })}
    >
      Revoke …
    </ConfirmAction>
  );
}

/** One token, and how far its recovery is. */
function TokenStanding({ id }: { id: string }) {
  const query = useQuery({
    ...apiQuery('GET /backup/bmr/token/{id}', { params: { id } }),
    refetchInterval: REFRESH_MS,
  });
  const [live] = useLiveJobs({ jobId: id });
  useRefreshOn(live === undefined ? '' : `${live.state} ${live.phase}`, TOKEN_READS);
  return (
    <Loaded query={query} what="Reading the token">
      {(token) => (
        <Stack gap="sm">
          <Group justify="space-between">
            <Group gap="xs">
              <Title order={2} size="h4">
                Recovery of <DeviceLink id={token.deviceId} />
              </Title>
              <StateBadge {...STATES[token.status]} />
            </Group>
            <RevokeToken token={token} variant="default" size="compact-sm" />
          </Group>
          <Text size="sm">{noteOf(token)}</Text>
          <Recovery token={token} live={live} />
          <Facts token={token} />
        </Stack>
      )}
    </Loaded>
  );
}

function Recovery({ token, live }: { token: RecoveryToken; live: JobUpdate | undefined }) {
  const { progress, result, sessionStatus, status } = token;
  if (sessionStatus === 'running' && status === 'authenticated') {
    const percent =
      progress === null || progress.total === 0 ? undefined : (100 * progress.done) / progress.total;
    return (
      <WorkProgress
        label="Progress of the recovery"
        standing={{ ...progress, percent, path: progress?.disk, ...live }}
      />
    );
  }
  if (result === null) return null;
  const { validated, warnings, error } = result;
  return (
    <>
      <Group gap="xs">
        <StateBadge {...SESSIONS[result.status]} />
        {result.status !== 'failed' && (
          <StateBadge
            tone={validated ? 'good' : 'warning'}
            label={validated ? 'Read back and checked' : 'A check has failed'}
          />
        )}
      </Group>
      <Cause error={error} />
      <Warnings warnings={warnings} />
      <RecoveredDisks disks={result.disks} />
    </>
  );
}

function Facts({ token }: { token: RecoveryToken }) {
  const { snapshotId, machine, result, authentications, targetConfig, expiresAt } = token;
  return (
    <FactTable
      label="About the token"
      facts={[
        [
          'Snapshot',
          <Anchor
            key="snapshot"
            inherit
            renderRoot={(props) => (
              <Link {...props} to="/backup/snapshots/$snapshotId" params={{ snapshotId }} />
            )}
          >
            Open it
          </Anchor>,
        ],
        ['What', disksText(token)],
        ['Larger disks', targetConfig.grow === true ? 'The last partition reaches their end' : undefined],
        ['Valid until', formatTime(new Date(expiresAt))],
        [
          'Onto',
          machine === null
            ? undefined
            : `${machine.hostname}, started by ${bootModeText(machine.bootMode)}, agent ${machine.agentVersion}`,
        ],
        ['Starts', authentications === 0 ? undefined : String(authentications)],
        ['Restored', result === null ? undefined : formatBytes(result.bytesRestored)],
        ['Started', token.authenticatedAt === null ? undefined : formatTime(new Date(token.authenticatedAt))],
        ['Ended', token.completedAt === null ? undefined : formatTime(new Date(token.completedAt))],
        ['Created', formatTime(new Date(token.createdAt))],
      ]}
    />
  );
}
