import { z } from 'zod';
import { clock } from '../../clock.ts';
import {
  type Difference,
  type ListedEntry,
  MACHINE_PATH,
  MachineDescription,
  openMachineIn,
} from '../../engine/index.ts';
import { ConcurrencyLimiter } from '../../platform/concurrency.ts';
import type { DetachedContext } from '../../platform/context.ts';
import { invalid, notFound } from '../../platform/errors.ts';
import { imagePathIn, noImage, type OpenedImages } from './images.ts';
import {
  findState,
  mapEngineErrors,
  openSnapshot,
  openState,
  type RepositoryReaders,
  type SnapshotQuery,
} from './repository-readers.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import type {
  BrowseQuery,
  DiffQuery,
  MachineQuery,
  SearchQuery,
  SnapshotDiff,
  SnapshotDifference,
  SnapshotEntry,
} from './snapshot.schema.ts';

/** The description of a machine, as the archive of its image begins with it. */

export const SnapshotMachine = MachineDescription.extend({
  places: z
    .array(z.object({ name: z.string(), sizeBytes: z.number().int(), offset: z.number().int() }))
    .describe('Where each disk stands in the file.'),
  file: z.string().describe(`The archive in the snapshot: ${MACHINE_PATH}, or one of several machines.`),
}).meta({ id: 'SnapshotMachine' });
export type SnapshotMachine = z.infer<typeof SnapshotMachine>;

/** A disk of several terabytes. */
const PARTS_MAX = 8_000_000;

export async function readMachine(
  ctx: DetachedContext,
  { machine, ...query }: SnapshotQuery & MachineQuery,
  readers: RepositoryReaders,
  signal: AbortSignal,
): Promise<SnapshotMachine> {
  const { reader, snapshot } = await openSnapshot(ctx, query, readers);
  return mapEngineErrors(async () => {
    const path = await imagePathIn(reader, snapshot, { machine, field: 'query.machine', signal });
    const opened = await reader.openContent(
      { snapshotId: snapshot.engineId, path },
      { limits: { entries: 10, parts: PARTS_MAX }, signal },
    );
    if (opened === 'too_large' || opened.type !== 'file') throw noImage();
    const { content } = opened;
    const { description, disks } = await openMachineIn(content);
    return { ...description, places: disks, file: path };
  });
}

const TYPES: Partial<Record<ListedEntry['type'], SnapshotEntry['type']>> = {
  file: 'file',
  dir: 'directory',
  symlink: 'symlink',
};

export const shownType = (type: ListedEntry['type']): SnapshotEntry['type'] => TYPES[type] ?? 'other';

const shownEntry = ({ name, type, sizeBytes, modifiedAt }: ListedEntry, path: string): SnapshotEntry => ({
  name,
  path,
  type: shownType(type),
  sizeBytes,
  modifiedAt: instantOf(modifiedAt),
});

/** The device writes it as it likes. */
export function instantOf(written: string | null): string | null {
  const at = new Date(written ?? Number.NaN);
  const isShowable =
    at.getTime() >= Date.UTC(1, 0) && at.getUTCFullYear() >= 1 && at.getUTCFullYear() <= 9999;
  return isShowable ? at.toISOString() : null;
}

/** `/inner/folder`; nothing for the root. */
export const withoutSlashes = (path: string): string => {
  const names = path.split('/').filter((name) => name !== '');
  return names.map((name) => `/${name}`).join('');
};

/** Well before proxies give up. */
const WALK_MS = 20_000;
const WALKS_MAX = 2;
/** More entries are not looked at for one answer. */
export const WALKED_MAX = 2_000_000;

/** Walks through snapshots of all callers: each keeps a processor busy for seconds. */
export class SnapshotWalks {
  readonly #limiter = new ConcurrencyLimiter({ waitMs: WALK_MS });

  /** Gives `work` a signal that is aborted when it has taken long enough, or when its caller is gone. */
  run<T>(
    { caller }: Pick<DetachedContext, 'caller'>,
    signal: AbortSignal,
    work: (isOver: () => boolean) => Promise<T>,
  ): Promise<T> {
    const shares = [
      { key: `person ${caller.userId}`, max: 1, waitingMax: 3 },
      { key: 'all', max: WALKS_MAX },
    ];
    return this.#limiter.run(
      shares,
      () => {
        const end = clock.now() + WALK_MS;
        return mapEngineErrors(() => work(() => clock.now() > end || signal.aborted));
      },
      { signal },
    );
  }
}

/** One page of a folder, in the order of the bytes of the names. */
export async function browseSnapshot(
  ctx: DetachedContext,
  { id, path, page, limit, asOf, machine, disk, partition }: BrowseQuery & { id: string },
  { readers, images }: { readers: RepositoryReaders; images: OpenedImages },
  signal: AbortSignal,
) {
  const { snapshot, reader } = await openSnapshot(ctx, { id, asOf }, readers);
  const place = { path, offset: (page - 1) * limit, limit };
  const { entries, total, ...volume } = await mapEngineErrors(async () => {
    if (disk === undefined) return reader.listFolder({ snapshotId: snapshot.engineId, ...place });
    const files = await images.open(reader, snapshot, { machine, disk, partition }, signal);
    return { ...(await files.listFolder(place)), isSettled: files.isSettled };
  });
  const folder = withoutSlashes(path);
  return {
    path: folder === '' ? '/' : folder,
    data: entries.map((entry) => shownEntry(entry, `${folder}/${entry.name}`)),
    pagination: { page, limit, total },
    ...volume,
  };
}

const MATCHES_MAX = 1000;

/** Entries whose names contain a text, until there are enough, or it has taken long enough. */
export async function searchSnapshot(
  ctx: DetachedContext,
  { id, name, path, asOf }: SearchQuery & { id: string },
  { readers, walks }: { readers: RepositoryReaders; walks: SnapshotWalks },
  signal: AbortSignal,
): Promise<{ data: SnapshotEntry[]; searched: number; isComplete: boolean }> {
  const { snapshot, reader } = await openSnapshot(ctx, { id, asOf }, readers);
  const wanted = name.normalize('NFC').toLowerCase();
  return walks.run(ctx, signal, async (isOver) => {
    const data: SnapshotEntry[] = [];
    let searched = 0;
    const query = { snapshotId: snapshot.engineId, path, maxEntries: WALKED_MAX + 1 };
    for await (const entry of reader.walk(query)) {
      if (searched === WALKED_MAX || data.length === MATCHES_MAX || isOver()) {
        return { data, searched, isComplete: false };
      }
      searched += 1;
      if (!entry.name.normalize('NFC').toLowerCase().includes(wanted)) continue;
      data.push(shownEntry(entry, entry.path));
    }
    return { data, searched, isComplete: true };
  });
}

/** The changes from one snapshot to another one of the same repository. */
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
