import { Anchor, Box, Group, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { RecoveryAction, RecoveryStep } from '../../../api/index.ts';
import { formatDuration, When } from '../../../ui/index.ts';
import { DeviceLink } from '../../backup/index.ts';
import { RecoveryState } from '../parts/recovery-words.tsx';

/** What is done for one device, in its order, and what came of it. */
export function StepActions({ step }: { step: RecoveryStep }) {
  return (
    <Stack gap={6}>
      <Text size="xs" c="dimmed" component="div">
        {isSaved(step) ? (
          <>
            Bring it back from{' '}
            <Anchor
              inherit
              renderRoot={(props) => (
                <Link
                  to="/backup/snapshots/$snapshotId"
                  params={{ snapshotId: step.snapshotId }}
                  {...props}
                />
              )}
            >
              the snapshot that was made of it
            </Anchor>
            .
          </>
        ) : step.recoveryPointAt === null ? (
          pointText(step)
        ) : (
          <>
            Data of <When at={step.recoveryPointAt} />
            {step.rpoSeconds !== null &&
              `, ${formatDuration(step.rpoSeconds * 1000)} old when the execution began`}
            .
          </>
        )}
      </Text>
      {step.error !== null && (
        <Text size="sm" c="var(--mantine-color-error)">
          {step.error.message}
        </Text>
      )}
      {step.actions.map((action) => (
        <Action key={action.id} action={action} />
      ))}
    </Stack>
  );
}

/** A machine that a failback has backed up, and not brought back. */
const isSaved = (step: RecoveryStep): step is RecoveryStep & { snapshotId: string } =>
  step.snapshotId !== null && step.actions.some(({ kind }) => kind === 'backup');

/** Why it is not known of when the data is. */
function pointText({ snapshotId, actions }: RecoveryStep): string {
  if (actions.some(({ kind }) => kind === 'backup')) return 'The data is backed up first.';
  return snapshotId === null ? 'There is no snapshot.' : 'The snapshot is being read.';
}

function Action({ action }: { action: RecoveryAction }) {
  const { name, state, message, error, startedAt, finishedAt, deviceId } = action;
  const text = error?.message ?? message;
  return (
    <Group gap={8} align="flex-start" wrap="nowrap">
      <Box w={100} style={{ flexShrink: 0 }}>
        <RecoveryState state={state} />
      </Box>
      <div>
        <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
          {name}
          {startedAt !== null &&
            finishedAt !== null &&
            `, ${formatDuration(Date.parse(finishedAt) - Date.parse(startedAt))}`}
        </Text>
        <Text size="xs" c="dimmed" component="div">
          On <DeviceLink id={deviceId} />
          <Progress action={action} />
        </Text>
        {text !== null && (
          <Text
            size="xs"
            c={error === null ? 'dimmed' : 'var(--mantine-color-error)'}
            style={{ overflowWrap: 'anywhere' }}
          >
            {text}
          </Text>
        )}
      </div>
    </Group>
  );
}

/** Where the work itself is shown. */
function Progress({ action: { restoreId, backupJobId } }: { action: RecoveryAction }) {
  if (restoreId !== null) {
    return (
      <>
        {' · '}
        <Anchor
          inherit
          underline="always"
          renderRoot={(props) => <Link {...props} to="/backup/restores" search={{ restore: restoreId }} />}
        >
          Its restore
        </Anchor>
      </>
    );
  }
  if (backupJobId === null) return null;
  return (
    <>
      {' · '}
      <Anchor
        inherit
        underline="always"
        renderRoot={(props) => <Link {...props} to="/backup/jobs" search={{ job: backupJobId }} />}
      >
        Its backup
      </Anchor>
    </>
  );
}
