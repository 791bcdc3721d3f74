import type { Difference } from '../../../engine/index.ts';
import type { DetachedContext } from '../../../platform/context.ts';
import { invalid, notFound } from '../../../platform/errors.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { findState, openState } from './open-snapshot.ts';
import type { DiffQuery, SnapshotDiff, SnapshotDifference } from './reading.schema.ts';
import type { RepositoryReaders } from './repository-readers.ts';
import { instantOf, shownType, withoutSlashes } from './shown-entry.ts';
import { type SnapshotWalks, WALKED_MAX } from './walks.ts';

/** What has changed from one snapshot to another one of the same repository. */
export async function compareSnapshots(
  ctx: DetachedContext,
  { id, against, path, asOf, page, limit }: DiffQuery & { id: string },
  { readers, walks }: { readers: RepositoryReaders; walks: SnapshotWalks },
  signal: AbortSignal,
): Promise<SnapshotDiff> {
  const state = await findState(ctx, { id, asOf });
  const { snapshot } = state;
  // Before the repository is opened, which takes a second.
  const base = await findBase(ctx, snapshot, { against, asOf });
  const { reader } = await openState(state, readers);
  const query = { before: base.engineId, after: snapshot.engineId, path };
  return walks.run(ctx, signal, async (isOver) => {
    const tally = new Tally({ from: (page - 1) * limit, limit });
    let compared = 0;
    let isComplete = true;
    for await (const folder of reader.compare(query)) {
      compared += folder.compared;
      for (const difference of folder.differences) tally.add(difference);
      if (compared > WALKED_MAX || isOver()) {
        isComplete = false;
        break;
      }
    }
    const { data, totals, count } = tally;
    return {
      against: base.id,
      path: withoutSlashes(path) || '/',
      data,
      totals,
      compared,
      isComplete,
      pagination: { page, limit, total: count },
    };
  });
}

/** The one that is named, or else the one that arrived before. */
async function findBase(
  ctx: DetachedContext,
  { repositoryId, receivedAt }: BackupSnapshot,
  { against, asOf }: Pick<DiffQuery, 'against' | 'asOf'>,
): Promise<BackupSnapshot> {
  if (against !== undefined) {
    const { snapshot } = await findState(ctx, { id: against, asOf });
    if (snapshot.repositoryId === repositoryId) return snapshot;
    throw invalid('query.against', 'must be a snapshot of the same repository');
  }
  const earlier = await ctx.withTenant(({ tx }) => {
    const found = BackupSnapshot.query(tx)
      .where('repository_id', repositoryId)
      .where('received_at', '<', receivedAt)
      .orderBy('received_at', 'desc')
      .first();
    return asOf === undefined
      ? found.whereNull('removed_at')
      : found.whereRaw('coalesce(removed_at > ?, true)', [asOf]);
  });
  if (earlier === undefined) throw notFound('Earlier backup snapshot');
  return earlier;
}

const KEYS = { added: 'added', removed: 'removed', changed: 'changed', type_changed: 'typeChanged' } as const;
const noneYet = () => ({ entries: 0, bytes: 0 });

/** Counts all differences and keeps those of one page. */
class Tally {
  readonly data: SnapshotDifference[] = [];
  readonly totals = { added: noneYet(), removed: noneYet(), changed: noneYet(), typeChanged: noneYet() };
  count = 0;
  readonly #from: number;
  readonly #limit: number;

  constructor({ from, limit }: { from: number; limit: number }) {
    this.#from = from;
    this.#limit = limit;
  }

  add(difference: Difference): void {
    const total = this.totals[KEYS[difference.kind]];
    total.entries += 1;
    total.bytes += sizeOf(difference.after ?? difference.before);
    if (this.count >= this.#from && this.data.length < this.#limit) this.data.push(shown(difference));
    this.count += 1;
  }
}

const sizeOf = (entry: Difference['after']) => (entry?.type === 'file' ? entry.sizeBytes : 0);

const shown = ({ path, kind, before, after }: Difference): SnapshotDifference => ({
  path,
  change: kind,
  before: before === undefined ? null : side(before),
  after: after === undefined ? null : side(after),
});

const side = ({ type, sizeBytes, modifiedAt }: NonNullable<Difference['after']>) => ({
  type: shownType(type),
  sizeBytes,
  modifiedAt: instantOf(modifiedAt),
});
