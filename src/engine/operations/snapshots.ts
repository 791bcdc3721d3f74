import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import {
  type EngineSnapshot,
  EngineSnapshots,
  EngineStats,
  parseDocument,
  SnapshotId,
} from '../output/documents.ts';
import { runDocument } from '../process/run-engine.ts';
import type { RunOptions } from '../process/start-engine.ts';

/** All snapshots of a repository. Without a lock: nothing is changed, and a locked repository can be listed. */
export async function listSnapshots(
  engine: Engine,
  repository: Repository,
  options: RunOptions = {},
): Promise<EngineSnapshot[]> {
  const args = () => ['snapshots'];
  return parseDocument(
    EngineSnapshots,
    await runDocument(engine, { ...options, repository, noLock: true, args }),
  );
}

/** The id where it is one in full. */
export const fullId = (id: string): string | null => (SnapshotId.safeParse(id).success ? id : null);

/** The full id for the short one that restic prints before 0.15; `null` where it cannot be found out now. */
export async function fullSnapshotId(
  engine: Engine,
  repository: Repository,
  id: string,
): Promise<string | null> {
  if (fullId(id) !== null) return id;
  try {
    const args = () => ['snapshots', id];
    const output = await runDocument(engine, { repository, noLock: true, args });
    const found = parseDocument(EngineSnapshots, output).filter((each) => each.id.startsWith(id));
    return found.length === 1 ? (found[0]?.id ?? null) : null;
  } catch (error) {
    // The snapshot exists. Its index in the repository completes the id later.
    if (error instanceof EngineError) return null;
    throw error;
  }
}

export interface StatsQuery {
  /** `restore`: what a restore writes. `stored`: what the data takes in the repository. */
  mode: 'restore' | 'stored';
  /** All snapshots where it is missing. */
  snapshotId?: string;
}

export async function readStats(
  engine: Engine,
  repository: Repository,
  { mode, snapshotId }: StatsQuery,
  options: RunOptions = {},
): Promise<EngineStats> {
  const id = snapshotId === undefined ? [] : [SnapshotId.parse(snapshotId)];
  const args = () => ['stats', '--mode', mode === 'restore' ? 'restore-size' : 'raw-data', ...id];
  return parseDocument(
    EngineStats,
    await runDocument(engine, { ...options, repository, noLock: true, args }),
  );
}

const FORGET_BATCH = 200;

/**
 * Removes snapshots by their full ids, and returns those that were there. restic's own rules (`--keep-daily` and
 * others) are never used: they follow the times that the backed-up machine claims.
 */
export async function forgetSnapshots(
  engine: Engine,
  repository: Repository,
  snapshotIds: readonly string[],
  options: RunOptions = {},
): Promise<string[]> {
  const wanted = new Set(snapshotIds.map((id) => SnapshotId.parse(id)));
  const present = (await listSnapshots(engine, repository, options)).filter(({ id }) => wanted.has(id));
  const ids = present.map(({ id }) => id);
  for (let from = 0; from < ids.length; from += FORGET_BATCH) {
    const batch = ids.slice(from, from + FORGET_BATCH);
    await runDocument(engine, { ...options, repository, args: () => ['forget', ...batch] });
  }
  return ids;
}
