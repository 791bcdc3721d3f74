import { z } from 'zod';
import type { BackgroundPart } from '../../platform/close-stack.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { eachByItself } from '../../platform/concurrency.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ObjectStorage, FoundObject } from './storage.ts';
import { OBJECT_TYPES, type ObjectType, type Folder, FOLDERS } from './store-protocol.ts';
import { beginPurge, endedLocks, forgetObjects, type Trashed, bytesTaken } from './store.queries.ts';
import { clock } from '../../clock.ts';

const AT_ONCE = 500;

/**
 * Removes what has been in the trash for so many days, but nothing of a repository that is held. The bytes go before
 * the record, so that a run that is interrupted is made up for by the next one.
 */
export async function purgeTrash(
  { db, storage, log }: { db: Db; storage: ObjectStorage; log: Logger },
  { days, signal }: { days: number; signal: AbortSignal },
): Promise<{ removed: number }> {
  let removed = 0;
  while (!signal.aborted) {
    const batch = await beginBatch(db, days);
    const gone: Trashed[] = [];
    const failed = await eachByItself(
      batch,
      async (object) => {
        await storage.remove(object.repositoryId, object);
        gone.push(object);
      },
      (error, { repositoryId }) => log.error({ err: error, repositoryId }, 'backup_store.object_not_removed'),
    );
    for (const [id, type, names] of grouped(gone)) await forgetObjects(db, id, type, names);
    removed += gone.length;
    // Those that have failed rest for a while, so the next batch has others.
    if (failed > 0) log.warn({ failed }, 'backup_store.trash_not_emptied');
    if (batch.length < AT_ONCE) break;
  }
  return { removed };
}

/**
 * From its commit on, no credential is issued for a state that needs what is about to go, and no upload of the same
 * object counts until it has gone.
 */
function beginBatch(db: Db, days: number): Promise<Trashed[]> {
  return withSystem(db, 'purge the trash of the backup store', (tx) =>
    beginPurge(tx, { days, limit: AT_ONCE }),
  );
}

function grouped(batch: readonly Trashed[]): [string, ObjectType, string[]][] {
  const repositoryIds = [...new Set(batch.map(({ repositoryId }) => repositoryId))];
  return repositoryIds.flatMap((repositoryId) =>
    OBJECT_TYPES.map((type): [string, ObjectType, string[]] => [
      repositoryId,
      type,
      batch.filter((one) => one.repositoryId === repositoryId && one.type === type).map(({ name }) => name),
    ]).filter(([, , names]) => names.length > 0),
  );
}

/** No upload pauses for so long: what is older is of an abandoned one. */
const ABANDONED_MS = 900_000;
const LOCKS_AT_ONCE = 500;

const Nothing = z.object({});

const CLEAN_UP = defineJob({
  name: 'backup-store.clean-up',
  input: Nothing,
  result: z.object({ locks: z.number() }),
  inCluster: 1,
});
const PURGE = defineJob({
  name: 'backup-store.purge-trash',
  input: Nothing,
  result: z.object({ removed: z.number() }),
  inCluster: 1,
});
const RECONCILE = defineJob({
  name: 'backup-store.reconcile',
  input: Nothing,
  result: z.object({
    recorded: z.number(),
    moved: z.number(),
    lost: z.number(),
    found: z.number(),
    failed: z.number(),
  }),
  inCluster: 1,
});

interface UpkeepParts {
  db: Db;
  storage: ObjectStorage;
  trashDays: number;
  log: Logger;
}

export function addUpkeepJobs(jobs: Jobs, parts: UpkeepParts): void {
  const { storage, trashDays: days } = parts;
  jobs.handle(CLEAN_UP, async () => {
    await storage.sweep(ABANDONED_MS);
    return { locks: await removeEndedLocks(parts) };
  });
  jobs.handle(PURGE, ({ signal }) => purgeTrash(parts, { days, signal }));
  jobs.handle(RECONCILE, ({ signal }) => reconcileAll(parts, signal));
  jobs.schedule(CLEAN_UP, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
  jobs.schedule(PURGE, { cron: '50 1 * * *', timeZone: 'UTC' }, {});
  jobs.schedule(RECONCILE, { cron: '20 3 * * 0', timeZone: 'UTC' }, {});
}

/** Removes the locks of jobs that have ended. They stopped to count with the credential that wrote them. */
export async function removeEndedLocks({
  db,
  storage,
  log,
}: Pick<UpkeepParts, 'db' | 'storage' | 'log'>): Promise<number> {
  let removed = 0;
  for (;;) {
    const locks = await withSystem(db, 'find the locks of ended backup jobs', (tx) =>
      endedLocks(tx, LOCKS_AT_ONCE),
    );
    const failed = await eachByItself(
      locks,
      async ({ repositoryId, name }) => {
        await storage.remove(repositoryId, { type: 'locks', name, trashedAt: null });
        await forgetObjects(db, repositoryId, 'locks', [name]);
      },
      (error, { repositoryId }) => log.error({ err: error, repositoryId }, 'backup_store.lock_not_removed'),
    );
    removed += locks.length - failed;
    // The next round tries those again that have failed.
    if (locks.length < LOCKS_AT_ONCE || failed > 0) return removed;
  }
}

/** The remains of a server that was killed are put in order at the next start, while it already serves. */
export class ReconcileAtStart implements BackgroundPart {
  readonly #parts: UpkeepParts;
  readonly #ending = new AbortController();
  #round: Promise<unknown> = Promise.resolve();

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  start(): void {
    const { log, storage } = this.#parts;
    // Listing a bucket costs money and time: there the weekly round is enough.
    if (storage.kind !== 'folder') return;
    this.#round = reconcileAll(this.#parts, this.#ending.signal).catch((error: unknown) => {
      if (!this.#ending.signal.aborted) log.error({ err: error }, 'backup_store.reconcile_failed');
    });
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#round;
  }
}

/**
 * Compares the table of objects with what is really there, and makes them agree: after a server was killed between the
 * two, and after an operator restored one of them from a backup of their own.
 *
 * - A file without a record is recorded, with the time at which it was written. It is whole and has the right name,
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

interface Differences {
  recorded: number;
  moved: number;
  lost: number;
  found: number;
  /** How many repositories could not be reconciled. */
  failed: number;
}

const PAGE = 2000;
/** An upload is recorded long before this time has passed since its last byte was written. */
const UNDERWAY_MS = 600_000;

export async function reconcileAll(parts: Parts, signal: AbortSignal): Promise<Differences> {
  const total: Differences = { recorded: 0, moved: 0, lost: 0, found: 0, failed: 0 };
  for (let after = '00000000-0000-0000-0000-000000000000'; !signal.aborted; ) {
    const ids = await repositoriesAfter(parts.db, after);
    for (const id of ids) {
      if (signal.aborted) break;
      try {
        await reconcileRepository(parts, id, total, signal);
      } catch (error) {
        if (signal.aborted || isDatabaseAway(error)) throw error;
        // Such as a folder that may not be read: the others are reconciled all the same.
        total.failed += 1;
        parts.log.error({ err: error, repositoryId: id }, 'backup_store.repository_not_reconciled');
      }
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

interface Pair<A, B> {
  recorded: A | undefined;
  found: B | undefined;
}

/** Merges two lists in the order of their names, each name once. */
async function* merged<A extends { name: string }, B extends { name: string }>(
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
