import { clock } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Statement } from '../../platform/db/statement.ts';
import { type Tx, withSystem, withSystemStatement } from '../../platform/db/transaction.ts';
import { VAULT_SYNC_SNAPSHOTS_MAX } from '../../protocol/index.ts';
import type { Folder, ObjectName, ObjectType, StoreAccess } from './store-protocol.ts';

/**
 * The table of objects. What it does not list does not exist for restic, so a file whose upload broke off between the two
 * is invisible until it is uploaded again or found by the reconciliation.
 */

/** The least that an object takes on a disk. Without it, millions of empty objects would fit into any quota. */
const LEAST_BYTES = 4096;
export const bytesTaken = (size: number): number => Math.max(size, LEAST_BYTES);
const TAKEN = (size: string) => `greatest(${size}, ${LEAST_BYTES})`;

/** Several tenants are of one store, and a credential names none of them. */
async function run<Row extends object>(
  db: Db,
  statement: Statement,
  values: readonly unknown[],
): Promise<Row[]> {
  const isKept = () => true;
  return (
    (await withSystemStatement<Row>(
      db,
      'keep the objects of the backup store',
      { ...statement, values },
      isKept,
    )) ?? []
  );
}

const IS_LIVE = 'c.ended_at is null and c.expires_at > now()';
const PAGE = 2000;
/** restic keeps one lock for each of its processes, and has two for a moment while it renews it. */
const LOCKS_MAX = 16;
/** A sync of a vault copies fewer; a snapshot whose upload failed half-way may be copied twice. */
const COPIES_MAX = 2 * VAULT_SYNC_SNAPSHOTS_MAX;

// An object that is both trashed and lost is being purged.
const RECORD = `
  with access as (
    select r.id, c.id as credential_id, c.job_id from backup_repositories r
    join backup_store_credentials c on c.repository_id = r.id
    where c.id = :credentialId and ${IS_LIVE} and (c.role = 'server' or coalesce(r.pruning_until <= now(), true))
      and (:type <> 'locks' or (select count(*) from backup_objects l
        where l.type = 'locks' and l.credential_id = c.id) < ${LOCKS_MAX})
      and (:type <> 'snapshots' or c.role <> 'vault' or (select count(*) from backup_objects s
        where s.repository_id = r.id and s.type = 'snapshots' and s.credential_id = c.id) < ${COPIES_MAX})),
  stored as (
    insert into backup_objects as o (repository_id, type, name, size, credential_id, job_id)
    select id, :type, :name, :size, credential_id, job_id from access
    on conflict (repository_id, type, name) do update set trashed_at = null, lost_at = null,
      credential_id = coalesce(o.credential_id, excluded.credential_id), job_id = coalesce(o.job_id, excluded.job_id)
    where o.trashed_at is null or o.lost_at is null
    returning o.repository_id, xmax = 0 as is_new),
  counted as (
    update backup_repositories r set stored_bytes = stored_bytes + ${TAKEN(':size')}
    from stored where r.id = stored.repository_id and stored.is_new)
  select is_new from stored`;

/** Records that the object is stored. Returns false if the credential may not write any more. */
export async function recordObject(
  db: Db,
  { repositoryId, credentialId }: Pick<StoreAccess, 'repositoryId' | 'credentialId'>,
  { type, name, size }: ObjectName & { size: number },
): Promise<boolean> {
  return withSystem(db, 'keep the objects of the backup store', async (tx) => {
    // A prune that is just beginning sees this object, or the next statement sees the prune.
    await tx.raw('select from backup_repositories where id = ? for no key update', [repositoryId]);
    const { rows } = await tx.raw<{ rows: object[] }>(RECORD, { credentialId, type, name, size });
    return rows.length > 0;
  });
}

const CLAIM: Statement = {
  name: 'backup-store-claim-snapshot',
  text: `update backup_store_credentials set snapshot_name = $2
    where id = $1 and (snapshot_name is null or snapshot_name = $2) returning id`,
};

/** Makes this the one snapshot of a credential. Returns false if it has another one. */
export async function claimSnapshot(db: Db, credentialId: string, name: string): Promise<boolean> {
  const rows = await run(db, CLAIM, [credentialId, name]);
  return rows.length > 0;
}

export interface ListedObject {
  name: string;
  size: number;
}

// Locks count while their job does. A reader sees only those of the server: a device could otherwise keep everybody
// from restoring with a lock that it never removes.
const LIST: Statement = {
  name: 'backup-store-list',
  text: `select o.name, o.size from backup_objects o
    where o.repository_id = $1 and o.type = $2 and o.name > $3 and o.lost_at is null
      and case when $4::timestamptz is null then o.trashed_at is null
        else o.arrived_at <= $4 and (o.trashed_at is null or o.trashed_at > $4) end
      and (o.type <> 'locks' or exists (select from backup_store_credentials c where c.id = o.credential_id
        and ${IS_LIVE} and ($5 <> 'reader' or c.role = 'server')))
    order by o.name limit ${PAGE}`,
};

/** In the order of their names, some at a time: a repository can have a hundred thousand packs. */
export async function* listObjects(
  db: Db,
  { repositoryId, asOf, role }: Pick<StoreAccess, 'repositoryId' | 'asOf' | 'role'>,
  type: Folder,
): AsyncGenerator<ListedObject[]> {
  for (let after = ''; ; ) {
    const rows = await run<{ name: string; size: string }>(db, LIST, [repositoryId, type, after, asOf, role]);
    if (rows.length === 0) return;
    yield rows.map(({ name, size }) => ({ name, size: Number(size) }));
    after = rows.at(-1)?.name ?? '';
    if (rows.length < PAGE) return;
  }
}

const TRASH: Statement = {
  name: 'backup-store-trash',
  text: `update backup_objects set trashed_at = now()
    where repository_id = $1 and type = $2 and name = $3 and trashed_at is null returning trashed_at`,
};

/** Marks an object as deleted. Returns the time of its deletion, or `undefined` if there is no such object. */
export async function trashObject(
  db: Db,
  repositoryId: string,
  { type, name }: ObjectName,
): Promise<Date | undefined> {
  const rows = await run<{ trashed_at: Date }>(db, TRASH, [repositoryId, type, name]);
  return rows[0]?.trashed_at;
}

const IS_TRASHED: Statement = {
  name: 'backup-store-is-trashed',
  text: `select from backup_objects
    where repository_id = $1 and type = $2 and name = $3 and trashed_at is not null`,
};

export async function isTrashed(db: Db, repositoryId: string, { type, name }: ObjectName): Promise<boolean> {
  const rows = await run(db, IS_TRASHED, [repositoryId, type, name]);
  return rows.length > 0;
}

const FORGET: Statement = {
  name: 'backup-store-forget',
  text: `with removed as (
      delete from backup_objects where repository_id = $1 and type = $2 and name = any($3::text[]) returning size)
    update backup_repositories set stored_bytes =
      greatest(0, stored_bytes - (select coalesce(sum(${TAKEN('size')}), 0) from removed)::bigint)
    where id = $1 returning id`,
};

/** Removes the record of objects that are gone for good. */
export async function forgetObjects(
  db: Db,
  repositoryId: string,
  type: string,
  names: readonly string[],
): Promise<void> {
  await run(db, FORGET, [repositoryId, type, names]);
}

const FIND: Statement = {
  name: 'backup-store-find',
  text: `select size, trashed_at from backup_objects
    where repository_id = $1 and type = $2 and name = $3 and lost_at is null`,
};

/** An object that the store still has, be it in the trash. */
export async function findObject(
  db: Db,
  repositoryId: string,
  { type, name }: ObjectName,
): Promise<{ size: number; trashedAt: Date | null } | undefined> {
  const [row] = await run<{ size: string; trashed_at: Date | null }>(db, FIND, [repositoryId, type, name]);
  return row === undefined ? undefined : { size: Number(row.size), trashedAt: row.trashed_at };
}

const INDEX_STATE: Statement = {
  name: 'backup-store-index-state',
  text: `select md5(coalesce(string_agg(type || name, '' order by type, name), '')) as state from backup_objects
    where repository_id = $1 and type in ('index', 'keys') and lost_at is null
      and case when $2::timestamptz is null then trashed_at is null
        else arrived_at <= $2 and (trashed_at is null or trashed_at > $2) end`,
};

/** The same text for as long as the same keys and files of the index are there. */
export async function indexState(db: Db, repositoryId: string, asOf: Date | null): Promise<string> {
  const [row] = await run<{ state: string }>(db, INDEX_STATE, [repositoryId, asOf]);
  return row?.state ?? '';
}

/** The one snapshot that a device has written with a credential, and when it arrived. */
export async function snapshotWrittenWith(
  tx: Tx,
  { repositoryId, credentialId }: { repositoryId: string; credentialId: string },
): Promise<{ name: string; arrivedAt: Date } | undefined> {
  return tx('backup_objects')
    .where({ repository_id: repositoryId, type: 'snapshots', credential_id: credentialId })
    .whereNull('lost_at')
    .first<{ name: string; arrivedAt: Date } | undefined>({ name: 'name', arrivedAt: 'arrived_at' });
}

/** The bytes of the packs that were written with a credential. */
export async function bytesWrittenWith(
  tx: Tx,
  { repositoryId, credentialId }: { repositoryId: string; credentialId: string },
): Promise<string> {
  const [row] = await tx('backup_objects')
    .where({ repository_id: repositoryId, type: 'data', credential_id: credentialId })
    .sum<{ bytes: string | null }[]>({ bytes: 'size' });
  return row?.bytes ?? '0';
}

export interface Trashed {
  repositoryId: string;
  type: ObjectType;
  name: string;
  trashedAt: Date;
}

/** Marks the oldest objects in the trash as lost, and their repositories as purged up to then. */
export async function beginPurge(
  tx: Tx,
  { days, limit }: { days: number; limit: number },
): Promise<Trashed[]> {
  const { rows } = await tx.raw<{ rows: Trashed[] }>(
    `with batch as (
        select o.repository_id, o.type, o.name, o.trashed_at from backup_objects o
        join backup_repositories r on r.id = o.repository_id
        where o.trashed_at < now() - make_interval(days => ?) and r.trash_held_at is null
          -- What could not be removed a moment ago is tried again later, and does not hold up the rest.
          and (o.lost_at is null or o.lost_at < now() - interval '1 hour')
        order by o.trashed_at limit ${limit} for update of o skip locked),
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
}

/** Locks whose credential has ended. */
export const endedLocks = (tx: Tx, limit: number): Promise<{ repositoryId: string; name: string }[]> =>
  tx('backup_objects as o')
    .leftJoin('backup_store_credentials as c', 'c.id', 'o.credential_id')
    .where('o.type', 'locks')
    .whereRaw('(c.id is null or c.ended_at is not null or c.expires_at <= now())')
    .limit(limit)
    .select<{ repositoryId: string; name: string }[]>('o.repository_id as repositoryId', 'o.name');

/** Locked, so that no prune begins before the credential is recorded. */
export async function shareRepository(
  tx: Tx,
  id: string,
): Promise<{ orgId: string; isPruned: boolean; purgedThrough: Date | null } | undefined> {
  const { rows } = await tx.raw<{ rows: { orgId: string; isPruned: boolean; purgedThrough: Date | null }[] }>(
    `select org_id as "orgId", coalesce(pruning_until > now(), false) as "isPruned", purged_through as "purgedThrough"
    from backup_repositories where id = ? for share`,
    [id],
  );
  return rows[0];
}

/** Whether a device has a credential with which it writes to a repository. */
export async function isWritten(tx: Tx, repositoryId: string): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: object[] }>(
    `select from backup_store_credentials
    where repository_id = ? and role in ('device', 'vault') and ended_at is null and expires_at > now() limit 1`,
    [repositoryId],
  );
  return rows.length > 0;
}

/** For so long the device is away, and nothing has arrived in the store. */
const ABANDONED_AFTER = `interval '1 hour'`;

/** Ends the credentials of devices that went away while they wrote to a repository. */
export async function endAbandoned(tx: Tx, repositoryId: string): Promise<void> {
  await tx.raw(
    `update backup_store_credentials c set ended_at = now()
    from backup_repositories r
    where c.repository_id = ? and r.id = c.repository_id and c.role in ('device', 'vault') and c.ended_at is null
      and c.created_at < now() - ${ABANDONED_AFTER}
      and not exists (select from device_presence p where p.device_id = r.device_id
        and (p.state = 'connected' or p.since > now() - ${ABANDONED_AFTER}))
      and not exists (select from backup_objects o where o.repository_id = c.repository_id
        and o.credential_id = c.id and o.arrived_at > now() - ${ABANDONED_AFTER})`,
    [repositoryId],
  );
}

export async function markUnreadable(tx: Tx, repositoryId: string, names: readonly string[]): Promise<void> {
  await tx('backup_objects')
    .where({ repository_id: repositoryId, type: 'snapshots' })
    .whereIn('name', names)
    .update({ unreadable_at: clock.date() });
}
