import type { Db } from '../../../../platform/db/pool.ts';
import { withSystem } from '../../../../platform/db/transaction.ts';
import { eachByItself } from '../../../../platform/each-by-itself.ts';
import type { Logger } from '../../../../platform/logger.ts';
import { OBJECT_TYPES, type ObjectType } from '../protocol/object-name.ts';
import { forgetObjects } from '../records/objects.ts';
import type { ObjectStorage } from '../storage/storage.ts';

const AT_ONCE = 500;

interface Trashed {
  repositoryId: string;
  type: ObjectType;
  name: string;
  trashedAt: Date;
}

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
    // The next run tries those again that have failed, so it would find them first now.
    if (batch.length < AT_ONCE || failed > 0) break;
  }
  return { removed };
}

/**
 * From its commit on, no credential is issued for a state that needs what is about to go, and no upload of the same
 * object counts until it has gone.
 */
function beginBatch(db: Db, days: number): Promise<Trashed[]> {
  return withSystem(db, 'purge the trash of the backup store', async (tx) => {
    const { rows } = await tx.raw<{ rows: Trashed[] }>(
      `with batch as (
        select o.repository_id, o.type, o.name, o.trashed_at from backup_objects o
        join backup_repositories r on r.id = o.repository_id
        where o.trashed_at < now() - make_interval(days => ?) and r.trash_held_at is null
        order by o.trashed_at limit ${AT_ONCE} for update of o skip locked),
      marked as (
        update backup_repositories r set purged_through = greatest(r.purged_through, last.at)
        from (select repository_id, max(trashed_at) as at from batch group by repository_id) last
        where r.id = last.repository_id and r.trash_held_at is null returning r.id),
      going as (
        update backup_objects o set lost_at = now() from batch b join marked m on m.id = b.repository_id
        where (o.repository_id, o.type, o.name) = (b.repository_id, b.type, b.name))
      select b.repository_id as "repositoryId", b.type, b.name, b.trashed_at as "trashedAt"
      from batch b join marked m on m.id = b.repository_id`,
      [days],
    );
    return rows;
  });
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
