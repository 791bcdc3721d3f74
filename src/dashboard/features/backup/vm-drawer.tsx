import { Group, Stack, Text, Title } from '@mantine/core';
import { apiQuery, type VmRestore, useApiChange } from '../../api/index.ts';
import { useLiveWork } from '../../live/index.ts';
import {
  CopyText,
  formatBytes,
  formatTime,
  When,
  ConfirmAction,
  type Tone,
  Warnings,
  type Facts,
  OpenName,
  RunAction,
  type Work,
  WorkDrawer,
  WorkList,
  workOf,
} from '../../ui/index.ts';
import { useRefusal } from '../../session.ts';
import { ToSnapshot } from './job-drawer.tsx';
import { DeviceLink } from './selects.tsx';
import type { JobUpdate } from '../../../protocol/index.ts';

const MIB = 2 ** 20;
const REFRESH_MS = 15_000;

/** A machine of a snapshot in the words of all work: its host may be at work on it, or it may merely run. */
const vmWork = (restore: VmRestore): Work => ({
  ...workOf(restore),
  stage: restore.status === 'pending' ? 'waiting' : BUSY.includes(restore.status) ? 'running' : 'idle',
  state: stateOf(restore),
  waits: `It waits for its host, until ${formatTime(new Date(restore.expiresAt))} at most.`,
  standing: { ...restore.progress },
  error: restore.error,
  errorTitle: OVER.includes(restore.status) ? 'It failed' : 'It needs attention',
  finishedAt: restore.completedAt,
});

/** One machine of a snapshot: what it does, how it is reached, and what can be done with it. */
export function VmDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  return (
    <WorkDrawer
      title="Machine of a snapshot"
      name="the machine"
      opened={id}
      onClose={onClose}
      read={(opened) => apiQuery('GET /backup/restore/vm/{id}', { params: { id: opened } })}
      reads={VM_READS}
      // The host is asked for the state of a machine every minute.
      every={{ ms: REFRESH_MS, isAlways: true }}
      newsOf={({ state, phase, at }) => `${state} ${phase} ${at}`}
      workOf={vmWork}
      heading={({ vmName }) => vmName}
      actions={(restore) => <VmActions restore={restore} />}
      note={noteOf}
      facts={factsOf}
    >
      {(restore) => (
        <>
          <Warnings warnings={restore.warnings} />
          <Reach restore={restore} />
        </>
      )}
    </WorkDrawer>
  );
}

/** Where people find a machine that is there. */
function Reach({ restore: { forwards, console: screen, hostDeviceName } }: { restore: VmRestore }) {
  if (forwards.length === 0 && screen === null) return null;
  return (
    <Stack gap={4}>
      <Title order={3} size="h5">
        On its host {hostDeviceName}
      </Title>
      {forwards.map(({ hostPort, guestPort }) => (
        <div key={guestPort}>
          <Text size="sm">Port {guestPort} of the machine:</Text>
          <CopyText label={`Address of port ${guestPort}`} text={`127.0.0.1:${hostPort}`} />
        </div>
      ))}
      {screen !== null && (
        <div>
          <Text size="sm">Its screen, for a VNC viewer of an administrator of the host:</Text>
          <CopyText label="Socket of the screen" text={screen} />
        </div>
      )}
    </Stack>
  );
}

function factsOf(restore: VmRestore): Facts {
  const { kind, vmSpecs, snapshotId, stateAt, folder, accelerator } = restore;
  return [
    ['Kind', KIND_NAMES[kind]],
    ['Host', <DeviceLink key="host" id={restore.deviceId} />],
    ['Snapshot', snapshotId === null ? 'It is gone' : <ToSnapshot key="snapshot" id={snapshotId} />],
    ['State as of', stateAt === null ? undefined : <When key="state" at={stateAt} />],
    ['Memory', formatBytes(vmSpecs.memoryMb * MIB)],
    ['Processors', String(vmSpecs.cpuCount)],
    ['First disk', vmSpecs.diskSizeGb === null ? undefined : `Grown to ${vmSpecs.diskSizeGb} GiB`],
    ['Network', networkText(restore)],
    ['Speed', accelerator === 'tcg' ? 'Slow: its processors are emulated' : undefined],
    ['Folder', folder],
  ];
}

/** The actions on a machine of a snapshot that has not ended. */
function VmActions({ restore }: { restore: VmRestore }) {
  const { id, vmName, kind, status } = restore;
  const refusal = useRefusal('recovery:execute');
  const start = useApiChange('POST /backup/restore/instant-boot/{id}/start', changes);
  const migrate = useApiChange('POST /backup/restore/instant-boot/{id}/migrate', changes);
  const discard = useApiChange('POST /backup/restore/instant-boot/{id}/discard', changes);
  const cancel = useApiChange('POST /backup/restore/vm/{id}/cancel', changes);
  if (OVER.includes(status)) return null;
  const input = { params: { id } };
  const button = { size: 'compact-sm', variant: 'default' } as const;
  return (
    <Group gap="xs">
      {kind === 'instant_boot' && (
        <>
          <ConfirmAction
            {...button}
            color="blue"
            refusal={refusal ?? refusalOf.migrate(restore)}
            title={`Make ${vmName} permanent`}
            question="What the machine still has in its snapshot is copied to its host while it runs. The host needs the space of its disks. Afterwards it needs the snapshot no more."
            confirm="Make it permanent"
            run={() => migrate.mutateAsync(input)}
          >
            Make permanent …
          </ConfirmAction>
          <RunAction
            {...button}
            refusal={refusal ?? refusalOf.start(restore)}
            run={() => start.mutateAsync(input)}
          >
            Start again
          </RunAction>
          <ConfirmAction
            {...button}
            refusal={refusal ?? refusalOf.discard(restore)}
            title={`Discard ${vmName}`}
            question="The machine is ended, and everything that it has written since its start is lost. The snapshot stays as it is. A host that is away does it when it returns."
            confirm="Discard the machine"
            run={() => discard.mutateAsync(input)}
          >
            Discard …
          </ConfirmAction>
        </>
      )}
      {BUSY.includes(status) && status !== 'discarding' && (
        <ConfirmAction
          {...button}
          refusal={refusal}
          title="Stop this work"
          question={
            status === 'migrating'
              ? 'The machine runs on from its snapshot, as before.'
              : 'What was made of the machine so far is removed.'
          }
          confirm="Stop it"
          run={() => cancel.mutateAsync(input)}
        >
          Cancel …
        </ConfirmAction>
      )}
    </Group>
  );
}

/** A page that lists machines of snapshots, as those are now. */
export function VmList<S extends object>({
  isOfBoots = false,
  onOpen,
  ...list
}: Omit<Parameters<typeof WorkList<VmRestore, S>>[0], 'workOf' | 'subject' | 'nameOf' | 'onOpen'> & {
  onOpen: (id: string) => void;
  isOfBoots?: boolean;
}) {
  return (
    <WorkList
      {...list}
      workOf={vmWork}
      nameOf={({ vmName }) => vmName}
      subject={[
        {
          header: 'Machine',
          isName: true,
          cell: ({ id, vmName }) => <OpenName onOpen={() => onOpen(id)}>{vmName}</OpenName>,
        },
        !isOfBoots && { header: 'Kind', cell: ({ kind }) => KIND_NAMES[kind] },
        { header: 'Host', cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
      ]}
      columns={[isOfBoots && { header: 'Reached at', cell: reachedText }]}
      onOpen={onOpen}
    />
  );
}

function reachedText(restore: VmRestore): string {
  const { forwards } = restore;
  return forwards.length === 0
    ? networkText(restore)
    : forwards.map(({ hostPort, guestPort }) => `127.0.0.1:${hostPort} (port ${guestPort})`).join(', ');
}

/** All that shows a machine of a snapshot. */
export const VM_READS = [
  'GET /backup/restore/vm/{id}',
  'GET /backup/restore/vm',
  'GET /backup/restore/instant-boot/active',
] as const;
const changes = { refreshes: VM_READS };

/** How far the work on machines of snapshots is, by their ids. What else is new of them is read again. */
export const useVmWork = (orgId: string | undefined): ReadonlyMap<string, JobUpdate> =>
  useLiveWork('vm_restore', orgId, VM_READS, newsOf);

/** The value whose changes count as news: each state of an idle machine, but not each percent of a copy. */
const newsOf = ({ id, state, phase, percent, at }: JobUpdate): string =>
  [id, state, phase, percent == null ? at : ''].join(' ');

type Status = VmRestore['status'];

const STATES: Readonly<Record<Status, { tone: Tone; label: string }>> = {
  pending: { tone: 'neutral', label: 'Waiting' },
  restoring: { tone: 'busy', label: 'Being copied' },
  booting: { tone: 'busy', label: 'Starting' },
  running: { tone: 'good', label: 'Running' },
  paused: { tone: 'warning', label: 'Paused' },
  faulty: { tone: 'bad', label: 'Stuck' },
  stopped: { tone: 'warning', label: 'Stopped' },
  unknown: { tone: 'warning', label: 'Not known' },
  migrating: { tone: 'busy', label: 'Becoming permanent' },
  discarding: { tone: 'busy', label: 'Being discarded' },
  completed: { tone: 'good', label: 'Restored' },
  discarded: { tone: 'neutral', label: 'Discarded' },
  failed: { tone: 'bad', label: 'Failed' },
  cancelled: { tone: 'neutral', label: 'Cancelled' },
};

const stateOf = ({ status, kind }: VmRestore): { tone: Tone; label: string } =>
  status === 'completed' && kind === 'instant_boot' ? { tone: 'good', label: 'Permanent' } : STATES[status];

const KIND_NAMES: Readonly<Record<VmRestore['kind'], string>> = {
  as_vm: 'Restore as a machine',
  instant_boot: 'Instant boot',
};

/** The code of a machine whose snapshot its host cannot read. */
const LOST = 'SNAPSHOT_UNREADABLE';

const KEPT = 'Everything that it has written is kept on the host.';

const NOTES: Partial<Record<Status, string>> = {
  running: 'It runs straight from its snapshot, which is kept for as long. Make it permanent, or discard it.',
  paused: `It is paused on its host. ${KEPT}`,
  faulty: `Its disk cannot be read or written, so it stands still. ${KEPT} Start it again when the cause is gone.`,
  stopped: `It has shut down, or its host was restarted. ${KEPT} Start it again, make it permanent, or discard it.`,
  unknown: `Its host has not said yet how it is, or the machine does not answer its host. ${KEPT}`,
  migrating: 'What it still has in the snapshot is copied while it runs. It can be used meanwhile.',
  completed: 'It needs the snapshot no more, and stays on its host.',
  discarded: 'The machine is gone, and what it had written. The snapshot was not changed.',
};

/** A note that explains the state to the person who looks at it. */
const noteOf = ({ status, error }: VmRestore): string | undefined =>
  error?.code === LOST && !BUSY.includes(status) && !OVER.includes(status) ? KEPT : NOTES[status];

/** States in which the host is at work. */
const BUSY: readonly Status[] = ['pending', 'restoring', 'booting', 'migrating', 'discarding'];
const OVER: readonly Status[] = ['completed', 'discarded', 'failed', 'cancelled'];

const atWork = (restore: VmRestore): string | undefined =>
  OVER.includes(restore.status)
    ? 'This has ended.'
    : BUSY.includes(restore.status)
      ? `Its host is still at work: ${stateOf(restore).label.toLowerCase()}.`
      : undefined;

/** Why each action on an instant boot means nothing now. The server judges by itself. */
const refusalOf = {
  migrate: (restore: VmRestore): string | undefined =>
    atWork(restore) ??
    (restore.error?.code === LOST ? 'It has lost its snapshot. Start it again first.' : undefined),
  start: (restore: VmRestore): string | undefined =>
    atWork(restore) ??
    (restore.snapshotId === null
      ? 'Its snapshot is gone.'
      : restore.status === 'running' && restore.error?.code !== LOST
        ? 'It is running.'
        : undefined),
  discard: (restore: VmRestore): string | undefined =>
    restore.status === 'pending' || restore.status === 'migrating' ? undefined : atWork(restore),
};

function networkText({ network }: VmRestore): string {
  if (network.type === 'none') return 'None';
  if (network.type === 'bridge') return `The network of ${network.bridge} on the host`;
  return network.isIsolated ? 'Its own, from which it reaches nothing' : 'That of its host';
}
