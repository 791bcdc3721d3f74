import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';

/** What was found in a vault. The ids are those of the engine. */
export interface SeenCopies {
  copies: readonly { source: string; copy: string }[];
  /** The snapshots about which this says everything: one of them that is not among the copies has none. */
  covers: 'all' | readonly string[];
  /** Every snapshot of the vault, where that is known. */
  present?: readonly string[];
}

/**
 * Makes the snapshots of a vault those that were found there.
 * @returns how many are new, and of which snapshots there are copies now
 */
export async function recordCopies(
  tx: Tx,
  { source, target }: { source: BackupRepository; target: BackupRepository },
  { copies, covers, present }: SeenCopies,
): Promise<{ added: number; sources: ReadonlySet<string> }> {
  const originals = await BackupSnapshot.query(tx)
    .where('repository_id', source.id)
    .whereIn(
      'engine_id',
      copies.map((copy) => copy.source),
    );
  const known = new Map(
    (await BackupSnapshot.query(tx).where('repository_id', target.id)).map((row) => [row.engineId, row]),
  );
  let added = 0;
  const sources = new Set<string>();
  for (const original of originals) {
    const copy = copies.find((one) => one.source === original.engineId)?.copy ?? '';
    const row = known.get(copy);
    sources.add(original.engineId);
    if (row !== undefined && row.removedAt === null) continue;
    added += 1;
    if (row === undefined) await insertCopy(tx, original, { target, engineId: copy });
    // It was to be removed, and is still there.
    else await row.$query(tx).patch({ removedAt: null, removedBecause: null });
  }
  const there = new Set(present ?? copies.map(({ copy }) => copy));
  const about = covers === 'all' ? undefined : await idsOf(tx, source.id, covers);
  const gone = [...known.values()].filter(
    ({ engineId, copyOf, removedAt }) =>
      removedAt === null && !there.has(engineId) && (about === undefined || about.has(copyOf ?? '')),
  );
  await BackupSnapshot.query(tx)
    .whereIn(
      'id',
      gone.map(({ id }) => id),
    )
    .patch({ removedAt: clock.date(), removedBecause: 'missing' });
  return { added, sources };
}

async function idsOf(
  tx: Tx,
  repositoryId: string,
  engineIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await BackupSnapshot.query(tx)
    .select('id')
    .where('repository_id', repositoryId)
    .whereIn('engine_id', [...engineIds]);
  return new Set(rows.map(({ id }) => id));
}

/** `receivedAt` is when the copy was found, because the vault had it later than the first repository. */
async function insertCopy(
  tx: Tx,
  original: BackupSnapshot,
  { target, engineId }: { target: BackupRepository; engineId: string },
): Promise<void> {
  const { backupType, takenAt, sizeBytes, fileCount, paths, isPartial, details } = original;
  await BackupSnapshot.query(tx).insert({
    orgId: target.orgId,
    deviceId: target.deviceId,
    configId: null,
    repositoryId: target.id,
    copyOf: original.id,
    engineId,
    receivedAt: clock.date(),
    backupType,
    takenAt,
    sizeBytes,
    fileCount,
    paths,
    isPartial,
    details,
  });
}
