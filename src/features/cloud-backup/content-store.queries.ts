import { z } from 'zod';
import { withSystem } from '../../../platform/db/transaction.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Logger } from '../../../platform/logger.ts';
import type { ContentParts } from './content.ts';

const CLEAN_UP = defineJob({ name: 'c2c.clean-up', input: z.object({}), result: z.object({}), inCluster: 1 });
const AT_ONCE = 1000;
/** A run refers to what it has stored long before. */
const UNUSED = `now() - interval '1 day'`;

type Parts = Pick<ContentParts, 'db' | 'backupStore'> & { jobs: Jobs; log: Logger };

/** Removes what the retention of configurations does not keep, and then what nothing refers to any more. */
export function cleanUpDaily(parts: Parts): void {
  parts.jobs.handle(CLEAN_UP, async ({ signal }) => {
    await cleanUp(parts, signal);
    return {};
  });
  parts.jobs.schedule(CLEAN_UP, { cron: '20 4 * * *', timeZone: 'UTC' }, {});
}

export async function cleanUp(parts: Parts, signal: AbortSignal): Promise<void> {
  for (const [why, statement] of STEPS) {
    for (let removed = AT_ONCE; removed >= AT_ONCE && !signal.aborted; ) {
      removed = await withSystem(
        parts.db,
        why,
        async (tx) => (await tx.raw<{ rowCount: number }>(statement)).rowCount,
      );
    }
  }
  await removeObjects(parts, signal);
}

const STEPS: readonly (readonly [string, string])[] = [
  [
    'remove the items of cloud configurations that were deleted',
    `delete from c2c_items where id in (select i.id from c2c_items i join c2c_configs c on c.id = i.config_id
      where c.removing_since is not null limit ${AT_ONCE})`,
  ],
  [
    'remove cloud configurations that were deleted',
    `delete from c2c_configs where id in (select c.id from c2c_configs c where c.removing_since is not null
      and not exists (select from c2c_items i where i.config_id = c.id)
      and not exists (select from c2c_jobs j where j.config_id = c.id and j.finished_at is null) limit ${AT_ONCE})`,
  ],
  [
    'remove cloud items that were deleted long ago',
    `delete from c2c_items where id in (select i.id from c2c_configs c join c2c_items i on i.config_id = c.id
      where i.deleted_at < now() - make_interval(days => (c.retention ->> 'keepDays')::int) limit ${AT_ONCE})`,
  ],
  [
    'remove earlier contents of cloud items',
    `delete from c2c_versions where id in (
      select v.id from c2c_versions v join c2c_items i on i.org_id = v.org_id and i.id = v.item_id
      join c2c_configs c on c.id = i.config_id
      where v.superseded_at is not null and v.id <> i.version_id
        and (v.superseded_at < now() - make_interval(days => (c.retention ->> 'keepDays')::int)
          or (c.retention ->> 'keepVersions')::int <= (select count(*) from c2c_versions newer
            where newer.org_id = v.org_id and newer.item_id = v.item_id and newer.captured_at > v.captured_at))
      limit ${AT_ONCE})`,
  ],
  [
    'remove contents that no cloud item has',
    `delete from c2c_blobs where id in (select b.id from c2c_blobs b where b.used_at < ${UNUSED}
      and not exists (select from c2c_version_blobs v where v.org_id = b.org_id and v.blob_id = b.id)
      limit ${AT_ONCE})`,
  ],
  [
    'mark packs that hold nothing any more',
    `update c2c_packs set obsolete_at = now() where id in (select p.id from c2c_packs p
      where p.obsolete_at is null and p.created_at < ${UNUSED}
        and not exists (select from c2c_blobs b where b.org_id = p.org_id and b.pack_id = p.id) limit ${AT_ONCE})`,
  ],
];

interface Obsolete {
  id: string;
  orgId: string;
  name: string;
  repositoryId: string;
  bytes: string;
}

/** A day after nothing refers to them, so that a download that has begun ends. The row goes when the object is gone. */
async function removeObjects({ db, backupStore, log }: Parts, signal: AbortSignal): Promise<void> {
  const packs = await withSystem(db, 'find packs that can be removed', async (tx) => {
    const { rows } = await tx.raw<{ rows: Obsolete[] }>(
      `select p.id, p.org_id as "orgId", p.name, p.bytes, s.repository_id as "repositoryId"
      from c2c_packs p join c2c_stores s on s.org_id = p.org_id
      where p.obsolete_at < ${UNUSED} order by p.obsolete_at limit 10000`,
    );
    return rows;
  });
  for (const { id, orgId, name, repositoryId, bytes } of packs) {
    if (signal.aborted) return;
    try {
      await backupStore.storage.remove(repositoryId, { type: 'data', name, trashedAt: null });
      await withSystem(db, 'forget a pack that is gone', async (tx) => {
        const removed = await tx('c2c_packs').where('id', id).delete();
        if (removed === 0) return;
        await tx('c2c_stores').where('org_id', orgId).decrement('stored_bytes', Number(bytes));
      });
    } catch (error) {
      log.warn({ err: error, orgId, pack: name }, 'c2c.pack_not_removed');
    }
  }
}
