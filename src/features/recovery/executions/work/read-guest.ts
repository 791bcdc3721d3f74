import { clock } from '../../../../clock.ts';
import type { Db } from '../../../../platform/db/pool.ts';
import { withSystem } from '../../../../platform/db/transaction.ts';
import type { Logger } from '../../../../platform/logger.ts';
import { readGuest, type RepositoryReaders, WorkRefused } from '../../../backup/index.ts';
import { RecoveryAction } from '../execution.model.ts';
import { badEnd } from './observe.ts';

export interface ReadingParts {
  db: Db;
  log: Logger;
  backupStore: { readers: RepositoryReaders };
}

/** Opening a repository reads its index. */
const READING_MS = 60_000;

/**
 * Asks the store what the guest of an action consists of, and notes it in the action, which the next round then starts.
 * It holds no lock, so an abort does not wait for it: what was skipped meanwhile stays as it is.
 */
export async function readGuestOf(
  { db, log, backupStore }: ReadingParts,
  { id, orgId, spec }: RecoveryAction,
  signal: AbortSignal,
): Promise<void> {
  if (spec.does !== 'machine' || spec.snapshotId === null || spec.machineId === null) return;
  const wanted = { snapshotId: spec.snapshotId, orgId, machine: spec.machineId };
  const inTime = AbortSignal.any([signal, clock.timeoutSignal(READING_MS)]);
  let changes: Partial<RecoveryAction>;
  try {
    changes = { spec: { ...spec, guest: await readGuest(db, wanted, backupStore.readers, inTime) } };
  } catch (error) {
    signal.throwIfAborted();
    const isRefused = error instanceof WorkRefused;
    if (!isRefused) log.error({ err: error, recoveryActionId: id }, 'recovery.guest_not_read');
    const [code, message] = isRefused
      ? [error.code, error.message]
      : ['SNAPSHOT_UNREADABLE', 'The guest in the snapshot could not be read from the store.'];
    changes = { startedAt: clock.date(), ...badEnd('failed', code, message) };
  }
  await withSystem(db, 'note what the store says of a guest that a recovery plan restores', async (tx) => {
    await RecoveryAction.query(tx).findById(id).where('state', 'waiting').patch(changes);
  });
}
