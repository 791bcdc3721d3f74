import { EngineError } from '../../../engine/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import type { RepositoryReaders } from '../reading/repository-readers.ts';
import { type MachinePlace, readPlace } from '../vm-restores/machine-source.ts';
import { storedSnapshot } from './open-source.ts';
import { WorkRefused } from './refusal.ts';

export interface WantedGuest {
  snapshotId: string;
  orgId: string;
  /** Its id. */
  machine: string;
}

/**
 * Reads from the store what a guest of a snapshot consists of, which its host has not reported. So it must not be called
 * within a transaction. Throws `WorkRefused`.
 */
export async function readGuest(
  db: Db,
  { snapshotId, orgId, machine }: WantedGuest,
  readers: RepositoryReaders,
  signal: AbortSignal,
): Promise<MachinePlace> {
  const { snapshot, repository } = await withSystem(db, 'find the snapshot of a guest to restore', (tx) =>
    storedSnapshot(tx, { snapshotId, orgId }),
  );
  try {
    const { reader } = await readers.open(repository, null);
    return await readPlace(reader, snapshot, { machine, field: 'machine', signal });
  } catch (error) {
    if (error instanceof EngineError) throw new WorkRefused(error.code, error.message);
    if (error instanceof AppError) throw new WorkRefused('IMAGE_UNUSABLE', error.message);
    throw error;
  }
}
