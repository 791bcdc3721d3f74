import type { DetachedContext } from '../../../platform/context.ts';
import { answeringFailures } from './engine-failures.ts';
import type { OpenedImages } from './images/opened-images.ts';
import { openSnapshot } from './open-snapshot.ts';
import type { BrowseQuery, SearchQuery, SnapshotEntry } from './reading.schema.ts';
import type { RepositoryReaders } from './repository-readers.ts';
import { shownEntry, withoutSlashes } from './shown-entry.ts';
import { type SnapshotWalks, WALKED_MAX } from './walks.ts';

/** One page of a folder, in the order of the bytes of the names. */
export async function browseSnapshot(
  ctx: DetachedContext,
  { id, path, page, limit, asOf, machine, disk, partition }: BrowseQuery & { id: string },
  { readers, images }: { readers: RepositoryReaders; images: OpenedImages },
  signal: AbortSignal,
) {
  const { snapshot, reader } = await openSnapshot(ctx, { id, asOf }, readers);
  const place = { path, offset: (page - 1) * limit, limit };
  const { entries, total, ...volume } = await answeringFailures(async () => {
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
