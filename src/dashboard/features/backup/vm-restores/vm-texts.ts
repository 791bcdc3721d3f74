import type { VmRestore } from '../../../api/index.ts';
import type { Tone } from '../../../ui/index.ts';

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

export const stateOf = ({ status, kind }: VmRestore): { tone: Tone; label: string } =>
  status === 'completed' && kind === 'instant_boot' ? { tone: 'good', label: 'Permanent' } : STATES[status];

export const KIND_NAMES: Readonly<Record<VmRestore['kind'], string>> = {
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

/** What the state means for the person who looks at it. */
export const noteOf = ({ status, error }: VmRestore): string | undefined =>
  error?.code === LOST && !BUSY.includes(status) && !OVER.includes(status) ? KEPT : NOTES[status];

/** States in which the host is at work. */
export const BUSY: readonly Status[] = ['pending', 'restoring', 'booting', 'migrating', 'discarding'];
export const OVER: readonly Status[] = ['completed', 'discarded', 'failed', 'cancelled'];

const atWork = (restore: VmRestore): string | undefined =>
  OVER.includes(restore.status)
    ? 'This has ended.'
    : BUSY.includes(restore.status)
      ? `Its host is still at work: ${stateOf(restore).label.toLowerCase()}.`
      : undefined;

/** Why each action on an instant boot means nothing now. The server judges by itself. */
export const refusalOf = {
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

export function networkText({ network }: VmRestore): string {
  if (network.type === 'none') return 'None';
  if (network.type === 'bridge') return `The network of ${network.bridge} on the host`;
  return network.isIsolated ? 'Its own, from which it reaches nothing' : 'That of its host';
}
