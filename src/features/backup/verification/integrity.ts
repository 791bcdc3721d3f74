import { clock } from '../../../clock.ts';
import { checkRepository } from '../../../engine/index.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { type RepositoryAccessParts, withRepository } from '../access/open-repository.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { holdTrash } from '../repositories/repository.service.ts';
import type { BackupVerification } from './verification.model.ts';

const PART_BYTES = 4 * 2 ** 30;
const PARTS_MAX = 14;

/** Parts of about 4 GiB, and at most 14, so that two weeks of daily verifications read everything. */
export const partsFor = (storedBytes: number): number =>
  Math.min(PARTS_MAX, Math.max(1, Math.ceil(storedBytes / PART_BYTES)));

/**
 * Checks the structure of the repository and reads the next part of its data. It looks at the repository as it is at this
 * moment, so that a backup that goes on meanwhile neither disturbs it nor is disturbed.
 */
export async function verifyIntegrity(
  parts: RepositoryAccessParts,
  repository: BackupRepository,
  signal: AbortSignal,
): Promise<Partial<BackupVerification>> {
  const { id: repositoryId, readParts, readPartsDone } = repository;
  const begins = readParts === 0 || readPartsDone >= readParts;
  const of = begins ? partsFor(Number(repository.storedBytes)) : readParts;
  const read = { part: begins ? 1 : readPartsDone + 1, of };
  const { isSound, errors, isCut } = await withRepository(
    parts,
    { repositoryId, role: 'as-of', asOf: clock.date() },
    (engine, opened) => checkRepository(engine, opened, { read }, { signal }),
  );
  await withSystem(parts.db, 'note how much of a repository was read', (tx) =>
    noteRead(repository, read, isSound)(tx),
  );
  return {
    status: isSound ? 'passed' : 'failed',
    details: { part: read, errors, ...(isCut ? { errorsAreCut: true } : {}) },
  };
}

/**
 * A round in which every part was sound proves what a prune before it has left, so that what it deleted may go. Parts of
 * a round that a prune has interrupted prove nothing.
 */
const noteRead =
  (
    { id, prunedAt, trashHeldAt }: BackupRepository,
    { part, of }: { part: number; of: number },
    isSound: boolean,
  ) =>
  async (tx: Parameters<typeof holdTrash>[0]): Promise<void> => {
    const isWhole = isSound && part === of;
    const changed = await BackupRepository.query(tx)
      .findById(id)
      .whereRaw('pruned_at is not distinct from ?', [prunedAt])
      .patch({
        readParts: of,
        readPartsDone: isSound ? part : 0,
        ...(isWhole ? { readWholeSince: clock.date() } : {}),
      });
    if (changed > 0 && isWhole && trashHeldAt !== null) await holdTrash(tx, id, false);
  };
