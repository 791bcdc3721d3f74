import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withTenant } from '../../platform/db/transaction.ts';
import { organizationScope } from '../groups/index.ts';

export const REMOVED_AT_ONCE = 1000;
/** A run may refer to content that was stored long before. */
const UNUSED = `now() - interval '1 day'`;

export const CLEAN_UP_STEPS: readonly (readonly [string, string])[] = [
  [
    'remove the items of cloud configurations that were deleted',
    `delete from c2c_items where id in (select i.id from c2c_items i join c2c_configs c on c.id = i.config_id
      where c.removing_since is not null limit ${REMOVED_AT_ONCE})`,
  ],
  [
    'remove cloud configurations that were deleted',
    `delete from c2c_configs where id in (select c.id from c2c_configs c where c.removing_since is not null
      and not exists (select from c2c_items i where i.config_id = c.id)
      and not exists (select from c2c_jobs j where j.config_id = c.id and j.finished_at is null) limit ${REMOVED_AT_ONCE})`,
  ],
  [
    'remove cloud items that were deleted long ago',
    `delete from c2c_items where id in (select i.id from c2c_configs c join c2c_items i on i.config_id = c.id
      where i.deleted_at < now() - make_interval(days => (c.retention ->> 'keepDays')::int) limit ${REMOVED_AT_ONCE})`,
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
      limit ${REMOVED_AT_ONCE})`,
  ],
  [
    'remove contents that no cloud item has',
    `delete from c2c_blobs where id in (select b.id from c2c_blobs b where b.used_at < ${UNUSED}
      and not exists (select from c2c_version_blobs v where v.org_id = b.org_id and v.blob_id = b.id)
      limit ${REMOVED_AT_ONCE})`,
  ],
  [
    'mark packs that hold nothing any more',
    `update c2c_packs set obsolete_at = now() where id in (select p.id from c2c_packs p
      where p.obsolete_at is null and p.created_at < ${UNUSED}
        and not exists (select from c2c_blobs b where b.org_id = p.org_id and b.pack_id = p.id) limit ${REMOVED_AT_ONCE})`,
  ],
];

interface Obsolete {
  id: string;
  orgId: string;
  name: string;
  repositoryId: string;
  bytes: string;
}

/** Fills the search texts of the next items. Items that a run has locked are filled by its update, or by the next round. */
export async function fillTexts(tx: Tx, limit: number): Promise<number> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `update c2c_items i set search_text = c2c_search_text(i.name, i.metadata)
    where i.id in (select id from c2c_items where search_text is null order by id limit ?
      for no key update skip locked)`,
    [limit],
  );
  return rowCount;
}

/** @returns  how many rows the step has removed or marked */
export async function runStep(tx: Tx, statement: string): Promise<number> {
  return (await tx.raw<{ rowCount: number }>(statement)).rowCount;
}

/** Packs that have been unused for a day. */
export async function obsoletePacks(tx: Tx): Promise<Obsolete[]> {
  const { rows } = await tx.raw<{ rows: Obsolete[] }>(
    `select p.id, p.org_id as "orgId", p.name, p.bytes, s.repository_id as "repositoryId"
    from c2c_packs p join c2c_stores s on s.org_id = p.org_id
    where p.obsolete_at < ${UNUSED} order by p.obsolete_at limit 10000`,
  );
  return rows;
}

export interface PartRow {
  sha256: Buffer;
  bytes: number;
  offset: string;
  pack_id: string;
  name: string;
  key_id: string;
  key_version: number;
}

export const PARTS_AT_ONCE = 64;

export const partsOf = (
  db: Db,
  { orgId, versionId, position }: { orgId: string; versionId: string; position: number },
): Promise<PartRow[]> =>
  withTenant(db, organizationScope(orgId), async (tx) => {
    const { rows } = await tx.raw<{ rows: PartRow[] }>(
      `select b.sha256, b.bytes, b.pack_offset as offset, p.id as pack_id, p.name,
        p.encryption_key_id as key_id, p.key_version
      from c2c_version_blobs v join c2c_blobs b on b.org_id = v.org_id and b.id = v.blob_id
      join c2c_packs p on p.org_id = b.org_id and p.id = b.pack_id
      where v.org_id = ? and v.version_id = ? and v.position >= ? order by v.position limit ${PARTS_AT_ONCE}`,
      [orgId, versionId, position],
    );
    return rows;
  });
