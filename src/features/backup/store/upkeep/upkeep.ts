import { z } from 'zod';
import type { BackgroundPart } from '../../../../platform/close-stack.ts';
import type { Db } from '../../../../platform/db/pool.ts';
import { withSystem } from '../../../../platform/db/transaction.ts';
import { defineJob } from '../../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../../platform/jobs/jobs.ts';
import { eachByItself } from '../../../../platform/each-by-itself.ts';
import type { Logger } from '../../../../platform/logger.ts';
import { forgetObjects } from '../records/objects.ts';
import { purgeTrash } from './purge.ts';
import { reconcileAll } from './reconcile.ts';
import type { ObjectStorage } from '../storage/storage.ts';

/** No upload pauses for so long: what is older is of one that nobody finishes. */
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
  result: z.object({ recorded: z.number(), moved: z.number(), lost: z.number(), found: z.number() }),
  inCluster: 1,
});

export interface UpkeepParts {
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
      tx('backup_objects as o')
        .leftJoin('backup_store_credentials as c', 'c.id', 'o.credential_id')
        .where('o.type', 'locks')
        .whereRaw('(c.id is null or c.ended_at is not null or c.expires_at <= now())')
        .limit(LOCKS_AT_ONCE)
        .select<{ repositoryId: string; name: string }[]>('o.repository_id as repositoryId', 'o.name'),
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

/** What a server that was killed has left is put in order at the next start, while it already serves. */
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
