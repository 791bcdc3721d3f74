import { Group, Text, type ButtonProps } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconKey } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { type BackupSnapshot, type RecoveryToken, useList, apiQuery, useApiChange } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  StateBadge,
  When,
  useAddress,
  ConfirmAction,
  formatBytes,
  formatTime,
  formatCounted,
  PagedTable,
  type Tone,
  Warnings,
  type Facts,
  type Work,
  WorkDrawer,
  WorkList,
  workOf,
} from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { ChooseImageDialog } from './choose-image.tsx';
import { NewTokenDialog } from './new-bare-metal-token-dialog.tsx';
import { ToSnapshot } from './job-drawer.tsx';
import { deviceFacet, DeviceLink } from './selects.tsx';
import { useLiveWork } from '../../live/index.ts';
import { bootModeText } from './facts.tsx';

const route = getRouteApi('/signed-in/backup/bare-metal');
const REFRESH_MS = 15_000;

/** Tokens by which machines without an agent fetch their disks, and how far they are. */
export function TokensPage() {
  const address = useAddress(route.useSearch());
  const { device, recovery, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const live = useLiveWork(
    'recovery',
    orgId,
    TOKEN_READS,
    ({ id, state, phase }) => `${id} ${state} ${phase}`,
  );
  const tokens = useList(
    'GET /backup/bmr/token',
    { query: { orgId, deviceId: device, page: String(page) } },
    REFRESH_MS,
  );
  return (
    <WorkList
      frame={BackupFrame}
      title="Bare-metal recovery"
      description="A token lets a new or empty machine, without an agent, fetch the disks of one snapshot once."
      actions={<NewToken />}
      query={tokens}
      noun="recovery tokens"
      address={address}
      facets={[deviceFacet(address)]}
      empty={{
        title: 'No recovery token was created',
        text: 'Create one here, or in a snapshot of whole disks, when a machine has to come back from nothing.',
      }}
      noneFound={{ title: 'No recovery token was created', text: 'None was created for this device.' }}
      workOf={tokenWork}
      live={live}
      subject={[
        { header: 'Of device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
        { header: 'What', cell: disksText },
        { header: 'Onto', cell: ({ machine }) => machine?.hostname ?? '–' },
      ]}
      columns={[{ header: 'Valid until', width: 110, cell: ({ expiresAt }) => <When at={expiresAt} /> }]}
      rowActions={(token) => isOpen(token) && <RevokeToken token={token} inRow />}
      onOpen={(id) => address.set({ recovery: id })}
    >
      <TokenDrawer id={recovery} onClose={() => address.set({ recovery: undefined })} />
    </WorkList>
  );
}

/** A token with its recovery, in the words of all work. */
function tokenWork(token: RecoveryToken): Work {
  const { progress, sessionStatus, status, result } = token;
  const isRunning = sessionStatus === 'running' && status === 'authenticated';
  return {
    ...workOf(token),
    stage: isRunning ? 'running' : 'idle',
    state: STATES[status],
    standing: {
      ...progress,
      percent: progress === null || progress.total === 0 ? null : (100 * progress.done) / progress.total,
      path: progress?.disk,
    },
    error: result?.error,
    outcome: <Recovery token={token} />,
    startedAt: token.authenticatedAt,
    finishedAt: token.completedAt,
  };
}

function Recovery({ token: { sessionStatus } }: { token: RecoveryToken }) {
  if (sessionStatus === 'pending') return '–';
  if (sessionStatus === 'running') return <StateBadge tone="warning" label="Cut off" />;
  return <StateBadge {...SESSIONS[sessionStatus]} />;
}

/** First the snapshot, then what the token is for. */
function NewToken() {
  const refusal = useRefusal('recovery:execute');
  const [isChoosing, { open, close }] = useDisclosure(false);
  const [snapshot, setSnapshot] = useState<BackupSnapshot>();
  return (
    <>
      <Action refusal={refusal} icon={IconKey} onClick={open}>
        New token …
      </Action>
      {isChoosing && <ChooseImageDialog onChoose={setSnapshot} onClose={close} />}
      {snapshot !== undefined && (
        <NewTokenDialog snapshot={snapshot} onClose={() => setSnapshot(undefined)} />
      )}
    </>
  );
}

/** One token, and how far its recovery is. */
function TokenDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  return (
    <WorkDrawer
      title="Recovery token"
      name="the recovery"
      opened={id}
      onClose={onClose}
      read={(opened) => apiQuery('GET /backup/bmr/token/{id}', { params: { id: opened } })}
      reads={TOKEN_READS}
      every={{ ms: REFRESH_MS, isAlways: true }}
      newsOf={({ state, phase }) => `${state} ${phase}`}
      workOf={tokenWork}
      heading={({ deviceId }) => (
        <>
          Recovery of <DeviceLink id={deviceId} />
        </>
      )}
      actions={(token) => (
        <Group>
          <RevokeToken token={token} variant="default" size="compact-sm" />
        </Group>
      )}
      note={noteOf}
      facts={factsOf}
    >
      {({ result }) => result !== null && <Result result={result} />}
    </WorkDrawer>
  );
}

/** Ends a token, in the middle of a recovery as well. */
function RevokeToken({ token, ...button }: ButtonProps & { token: RecoveryToken; inRow?: boolean }) {
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
          : 'No recovery can begin with it any more.'
      }
      confirm="Revoke the token"
      run={() => revoke.mutateAsync({ params: { id } })}
    >
      Revoke …
    </ConfirmAction>
  );
}

function Result({ result }: { result: NonNullable<RecoveryToken['result']> }) {
  const { status, validated, warnings, disks } = result;
  return (
    <>
      <Group gap="xs">
        <StateBadge {...SESSIONS[status]} />
        {status !== 'failed' && (
          <StateBadge
            tone={validated ? 'good' : 'warning'}
            label={validated ? 'Read back and checked' : 'A check has failed'}
          />
        )}
      </Group>
      <Warnings warnings={warnings} />
      <RecoveredDisks disks={disks} />
    </>
  );
}

function factsOf(token: RecoveryToken): Facts {
  const { snapshotId, machine, result, authentications, targetConfig, expiresAt } = token;
  return [
    ['Snapshot', <ToSnapshot key="snapshot" id={snapshotId} />],
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
  ];
}

type Disk = NonNullable<RecoveryToken['result']>['disks'][number];

/** The result for each disk, with its failed checks. */
function RecoveredDisks({ disks }: { disks: readonly Disk[] }) {
  if (disks.length === 0) return null;
  return (
    <PagedTable
      label="Recovered disks"
      // A machine may name several disks alike.
      rows={disks.map((disk, place) => ({ ...disk, key: `${place}` }))}
      keyOf={({ key }) => key}
      columns={[
        { header: 'Disk', isName: true, cell: ({ disk }) => disk },
        { header: 'Onto', cell: ({ target }) => target },
        {
          header: 'Checks',
          cell: (disk) => <Checks disk={disk} />,
        },
      ]}
    />
  );
}

/** If there are more checks than are listed, those that have failed are listed first. */
function Checks({ disk: { checks, checkCount = checks.length } }: { disk: Disk }) {
  const failed = checks.filter(({ ok }) => !ok);
  if (failed.length === 0) return `${formatCounted(checkCount, 'check')}, all good`;
  const texts = failed.map(({ name, message }) => `${name}: ${message ?? 'it has failed'}`);
  return [...new Set(texts)].map((text) => (
    <Text key={text} size="sm">
      {text}
    </Text>
  ));
}

const TOKEN_READS = ['GET /backup/bmr/token', 'GET /backup/bmr/token/{id}'] as const;

type Status = RecoveryToken['status'];

const STATES: Readonly<Record<Status, { tone: Tone; label: string }>> = {
  active: { tone: 'info', label: 'Active' },
  authenticated: { tone: 'busy', label: 'In use' },
  used: { tone: 'neutral', label: 'Used' },
  expired: { tone: 'neutral', label: 'Expired' },
  revoked: { tone: 'neutral', label: 'Revoked' },
};

const NOTES: Readonly<Record<Status, string>> = {
  active: 'It was not used yet. The first machine that uses it is the only one that can go on with it.',
  authenticated: 'A machine has begun with it. If that is not yours, revoke it: it is cut off at once.',
  used: 'The recovery has ended, and the token opens nothing any more.',
  expired: 'It has expired, and opens nothing any more.',
  revoked: 'It was revoked, and opens nothing any more.',
};

const noteOf = ({ status, result }: RecoveryToken): string =>
  status === 'authenticated' && result?.status === 'failed'
    ? 'The last attempt has failed. The same machine can begin again, with a larger disk for example.'
    : NOTES[status];

/** Whether the token still opens something. */
const isOpen = ({ status }: RecoveryToken): boolean => status === 'active' || status === 'authenticated';

type Session = RecoveryToken['sessionStatus'];

const SESSIONS: Readonly<Record<Session, { tone: Tone; label: string }>> = {
  pending: { tone: 'neutral', label: 'Not begun' },
  running: { tone: 'busy', label: 'Running' },
  completed: { tone: 'good', label: 'Completed' },
  partial: { tone: 'warning', label: 'Partial' },
  failed: { tone: 'bad', label: 'Failed' },
};

const disksText = ({ targetConfig: { disks } }: RecoveryToken): string =>
  disks === undefined ? 'All disks' : `${formatCounted(disks.length, 'disk')}: ${disks.join(', ')}`;
