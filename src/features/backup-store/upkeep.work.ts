import { clock } from '../../../../clock.ts';
import type { Db } from '../../../../platform/db/pool.ts';
import { withSystem } from '../../../../platform/db/transaction.ts';
import type { Logger } from '../../../../platform/logger.ts';
import { type Folder, FOLDERS } from '../protocol/object-name.ts';
import { bytesTaken, forgetObjects } from '../records/objects.ts';
import type { FoundObject, ObjectStorage } from '../storage/storage.ts';

/**
 * Compares the table of objects with what is really there, and makes them agree: after a server was killed between the
 * two, and after somebody restored one of them from a backup of their own.
 *
 * - A file that nobody recorded is recorded, with the time at which it was written. It is whole and has the right name,
 *   because it got its name last. It is never removed: the table may be the one that is too old. Locks are the exception.
 * - A file that was deleted, but not yet moved, is moved to the trash.
 * - A record whose file is missing is marked, so that restic sees the loss and `check` names it.
 */

interface Parts {
  db: Db;
  storage: ObjectStorage;
  log: Logger;
}

interface Recorded {
  name: string;
  trashedAt: Date | null;
  lostAt: Date | null;
}

export interface Differences {
  recorded: number;
  moved: number;
  lost: number;
  found: number;
}

const PAGE = 2000;
/** An upload is recorded long before this time has passed since its last byte was written. */
const UNDERWAY_MS = 600_000;

export async function reconcileAll(parts: Parts, signal: AbortSignal): Promise<Differences> {
  const total: Differences = { recorded: 0, moved: 0, lost: 0, found: 0 };
  for (let after = '00000000-0000-0000-0000-000000000000'; !signal.aborted; ) {
    const ids = await repositoriesAfter(parts.db, after);
    for (const id of ids) {
      if (signal.aborted) break;
      await reconcileRepository(parts, id, total, signal);
    }
    after = ids.at(-1) ?? '';
    if (ids.length < PAGE) break;
  }
  if (Object.values(total).some((count) => count > 0)) parts.log.warn(total, 'backup_store.reconciled');
  return total;
}

const repositoriesAfter = (db: Db, after: string): Promise<string[]> =>
  withSystem(db, 'reconcile the backup store', (tx) =>
    tx('backup_repositories').where('id', '>', after).orderBy('id').limit(PAGE).pluck('id'),
  );

async function reconcileRepository(
  parts: Parts,
  repositoryId: string,
  total: Differences,
  signal: AbortSignal,
): Promise<void> {
  for (const type of FOLDERS) {
    for await (const pair of merged(
      recordedOf(parts.db, repositoryId, type),
      parts.storage.list(repositoryId, type),
    )) {
      if (signal.aborted) return;
      await settle(parts, { repositoryId, type }, pair, total);
    }
  }
}

async function* recordedOf(db: Db, repositoryId: string, type: Folder): AsyncGenerator<Recorded> {
  for (let after = ''; ; ) {
    const rows: Recorded[] = await withSystem(db, 'reconcile the backup store', (tx) =>
      tx('backup_objects')
        .where({ repository_id: repositoryId, type })
        .where('name', '>', after)
        .orderBy('name')
        .limit(PAGE)
        .select<Recorded[]>('name', 'trashed_at as trashedAt', 'lost_at as lostAt'),
    );
    yield* rows;
    after = rows.at(-1)?.name ?? '';
    if (rows.length < PAGE) return;
  }
}

export interface Pair<A, B> {
  recorded: A | undefined;
  found: B | undefined;
}

/** Both in the order of their names, each name once. */
export async function* merged<A extends { name: string }, B extends { name: string }>(
  recorded: AsyncIterable<A>,
  found: AsyncIterable<B>,
): AsyncGenerator<Pair<A, B>> {
  const left = recorded[Symbol.asyncIterator]();
  const right = found[Symbol.asyncIterator]();
  let a = await left.next();
  let b = await right.next();
  while (a.done !== true || b.done !== true) {
    const takesA = a.done !== true && (b.done === true || a.value.name <= b.value.name);
    const takesB = b.done !== true && (a.done === true || b.value.name <= a.value.name);
    yield { recorded: takesA ? a.value : undefined, found: takesB ? b.value : undefined };
    if (takesA) a = await left.next();
    if (takesB) b = await right.next();
  }
}

async function settle(
  parts: Parts,
  place: { repositoryId: string; type: Folder },
  { recorded, found }: Pair<Recorded, FoundObject>,
  total: Differences,
): Promise<void> {
  const { db, storage } = parts;
  const { repositoryId, type } = place;
  if (found === undefined) {
    if (recorded === undefined || recorded.trashedAt !== null || recorded.lostAt !== null) return;
    total.lost += await markMissing(parts, place, recorded.name);
  } else if (recorded === undefined) {
    if (type === 'locks') await removeOldLock(parts, repositoryId, found);
    else total.recorded += await adopt(db, place, found);
  } else if (recorded.trashedAt !== null) {
    if (storage.kind !== 'folder') return;
    await storage.setAside(repositoryId, { type, name: found.name }, recorded.trashedAt);
    total.moved += 1;
  } else if (recorded.lostAt !== null) {
    await updateObject(db, place, found.name, { lost_at: null });
    total.found += 1;
  }
}

/** Asks both once more: it may have come or gone since they were listed. */
async function markMissing(
  { db, storage, log }: Parts,
  { repositoryId, type }: { repositoryId: string; type: Folder },
  name: string,
): Promise<number> {
  if (await storage.has(repositoryId, { type, name })) return 0;
  if (type === 'locks') {
    await forgetObjects(db, repositoryId, type, [name]);
    return 0;
  }
  const count = await updateObject(db, { repositoryId, type }, name, { lost_at: clock.date() });
  if (count > 0) log.error({ repositoryId, type, name }, 'backup_store.object_missing');
  return count;
}

const updateObject = (
  db: Db,
  { repositoryId, type }: { repositoryId: string; type: Folder },
  name: string,
  change: { lost_at: Date | null },
): Promise<number> =>
  withSystem(db, 'reconcile the backup store', (tx) =>
    tx('backup_objects')
      .where({ repository_id: repositoryId, type, name })
      .whereNull('trashed_at')
      .update(change),
  );

async function adopt(
  db: Db,
  { repositoryId, type }: { repositoryId: string; type: Folder },
  { name, size, writtenAt }: FoundObject,
): Promise<number> {
  return withSystem(db, 'reconcile the backup store', async (tx) => {
    const added = await tx('backup_objects')
      .insert({ repository_id: repositoryId, type, name, size, arrived_at: writtenAt })
      .onConflict(['repository_id', 'type', 'name'])
      .ignore()
      .returning('name');
    if (added.length === 0) return 0;
    await tx('backup_repositories').where({ id: repositoryId }).increment('stored_bytes', bytesTaken(size));
    return 1;
  });
}

async function removeOldLock({ storage }: Parts, repositoryId: string, lock: FoundObject): Promise<void> {
  if (clock.now() - lock.writtenAt.getTime() < UNDERWAY_MS) return;
  await storage.remove(repositoryId, { type: 'locks', name: lock.name, trashedAt: null });
}
