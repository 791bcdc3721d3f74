import type { Tx } from '../../platform/db/transaction.ts';
import type { BackupRepository } from '../backup-store/index.ts';
import type { BackupVerification } from './protection.model.ts';
import { listedPaths } from './snapshot.model.ts';

interface WantedSnapshot {
  deviceId: string;
  kind: 'files' | 'machine';
  configId: string | null;
  /**
   * For a host of KVM: the id or the name of one of its guests. Null: the machine of the device itself, or its only
   * guest.
   */
  machine: string | null;
}

export interface FoundSnapshot {
  id: string;
  configId: string | null;
  paths: string[];
  /** The snapshot has more paths than are listed. */
  pathsAreCut?: true;
  /** When the data was read: by the clock of the device, and never later than it arrived. */
  takenAt: Date;
  /**
   * For a snapshot of guests: the guests that match, at most `NAMED_MACHINES`. Null: the snapshot is of the device
   * itself.
   */
  machines: { id: string; name: string }[] | null;
}

/** How many machines of a snapshot are listed when one has to be chosen. */
const NAMED_MACHINES = 20;

const IS_MEANT = `lower(w.machine) in (lower(m ->> 'id'), lower(m ->> 'name'))`;

/**
 * The newest snapshot for each that lies in the store of this server; `undefined` if there is none. If no guest is named,
 * the machine of the device itself comes first, however old it is.
 */
export async function newestSnapshots(
  tx: Tx,
  orgId: string,
  wanted: readonly WantedSnapshot[],
): Promise<(FoundSnapshot | undefined)[]> {
  const { rows } = await tx.raw<{ rows: (FoundSnapshot & { position: number })[] }>(
    `select w.position::int - 1 as position, s.id, s.config_id as "configId", s.paths, s.taken_at as "takenAt",
      case when s.details ->> 'kind' = 'machines' then (
        select jsonb_agg(g) from (
          select m ->> 'id' as id, m ->> 'name' as name from jsonb_array_elements(s.details -> 'machines') m
          where w.machine is null or ${IS_MEANT} limit ${NAMED_MACHINES}) g) end as machines
    from unnest(?::uuid[], ?::text[], ?::uuid[], ?::text[]) with ordinality
      as w (device_id, kind, config_id, machine, position)
    cross join lateral (
      select s.id, s.config_id, s.paths, s.details, least(s.taken_at, s.received_at) as taken_at
      from backup_snapshots s join backup_repositories r on r.id = s.repository_id and r.org_id = s.org_id
      where s.org_id = ? and s.device_id = w.device_id and s.removed_at is null and s.copy_of is null
        and r.provider = 'server' and (w.config_id is null or s.config_id = w.config_id)
        and case w.kind when 'files' then s.backup_type = 'file'
          else s.backup_type = 'system_image' and case s.details ->> 'kind'
            when 'image' then w.machine is null and coalesce(s.details ->> 'source', 'disk') = 'disk'
            when 'machines' then s.details ->> 'hypervisor' = 'kvm' and (w.machine is null or exists (
              select from jsonb_array_elements(s.details -> 'machines') m where ${IS_MEANT}))
            else false end end
      order by w.kind = 'machine' and s.details ->> 'kind' = 'image' desc, s.received_at desc, s.id desc limit 1) s`,
    [
      wanted.map(({ deviceId }) => deviceId),
      wanted.map(({ kind }) => kind),
      wanted.map(({ configId }) => configId),
      wanted.map(({ machine }) => machine),
      orgId,
    ] as never,
  );
  const found = new Map(
    rows.map(({ position, ...snapshot }) => [position, { ...snapshot, ...listedPaths(snapshot.paths) }]),
  );
  return wanted.map((_, position) => found.get(position));
}

// Reconciliation: rows of snapshots against the objects in the store.

/** `removed_because` of a snapshot that was removed in another way than by its row. */
const NOT_IN_REPOSITORY = 'no longer in the repository';

const RETENTION = 'retention';

/** The object `o` is in its repository now. */
const IS_LIVE = 'o.trashed_at is null and o.lost_at is null';

/**
 * Of these repositories, those that can be judged. If even the configuration or all keys are missing, the folder of the
 * store is not what it should be, and nothing is concluded from it. What is in a vault is compared with each of its syncs.
 */
export async function judgeable(tx: Tx, repositoryIds: string[]): Promise<string[]> {
  const live = (type: string) =>
    `exists (select from backup_objects o where o.repository_id = r.id and o.type = '${type}' and ${IS_LIVE})`;
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select r.id from backup_repositories r
    where r.id = any(?::uuid[]) and r.provider = 'server' and not r.is_vault and ${live('config')} and ${live('keys')}`,
    [repositoryIds],
  );
  return rows.map(({ id }) => id);
}

/** Marks those that are in their repositories no more, as of when they were removed. */
export async function markGone(tx: Tx, repositoryIds: string[]): Promise<number> {
  const { rows } = await tx.raw<{ rows: object[] }>(
    `update backup_snapshots s set updated_at = now(), removed_because = ?,
      removed_at = greatest(s.received_at, coalesce(gone.trashed_at, gone.lost_at, now()))
    from (
      select k.id, o.trashed_at, o.lost_at from backup_snapshots k
      left join backup_objects o
        on o.repository_id = k.repository_id and o.type = 'snapshots' and o.name = k.engine_id::text
      where k.repository_id = any(?::uuid[]) and k.removed_at is null and not coalesce(${IS_LIVE}, false)
    ) gone
    where s.id = gone.id and s.removed_at is null returning s.id`,
    [NOT_IN_REPOSITORY, repositoryIds],
  );
  return rows.length;
}

/**
 * Shows those again that came back. What retention has removed stays removed, or a device that has kept its old snapshots
 * could send them again: it is pruned once more.
 */
export async function unmarkReturned(tx: Tx, repositoryIds: string[]): Promise<number> {
  const returned = `from backup_objects o where o.repository_id = s.repository_id and o.type = 'snapshots'
    and o.name = s.engine_id::text and ${IS_LIVE}`;
  const { rows } = await tx.raw<{ rows: object[] }>(
    `update backup_snapshots s set removed_at = null, removed_because = null, updated_at = now()
    where s.repository_id = any(?::uuid[]) and s.removed_at is not null
      and s.removed_because is distinct from '${RETENTION}' and exists (select ${returned}) returning s.id`,
    [repositoryIds],
  );
  await tx.raw(
    `update backup_repositories r set prune_due_since = again.since, updated_at = now()
    from (
      select s.repository_id, min(s.removed_at) as since from backup_snapshots s
      where s.repository_id = any(?::uuid[]) and s.removed_because = '${RETENTION}' and exists (select ${returned})
      group by s.repository_id
    ) again
    where r.id = again.repository_id and r.prune_due_since is null`,
    [repositoryIds],
  );
  return rows.length;
}

/** Keeps the trash of repositories from which something was removed that must stay. */
export async function holdTrashOfHeld(tx: Tx, repositoryIds: string[]): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `update backup_repositories r set trash_held_at = now(), updated_at = now()
    where r.id = any(?::uuid[]) and r.trash_held_at is null and exists (
      select from backup_snapshots s join backup_objects o
        on o.repository_id = s.repository_id and o.type = 'snapshots' and o.name = s.engine_id::text
      where s.repository_id = r.id and s.removed_at is not null and o.trashed_at is not null
        and (s.legal_hold or s.in_use or s.immutable_until > now()))
    returning r.id`,
    [repositoryIds],
  );
  return rows.map(({ id }) => id);
}

export interface UnknownSnapshot {
  repositoryId: string;
  name: string;
  arrivedAt: Date;
  /** Cannot have been written with the credentials of a device alone. */
  isByHand: boolean;
}

/** So many of one repository at a time, so that none keeps the others waiting. */
const OF_REPOSITORY = 50;

/** Snapshots in repositories without a row. Those of a job that may still be running get theirs with its end. */
export async function findUnknown(
  tx: Tx,
  repositoryIds: string[],
  limit: number,
): Promise<UnknownSnapshot[]> {
  const { rows } = await tx.raw<{ rows: UnknownSnapshot[] }>(
    `select u.repository_id as "repositoryId", u.name, u.arrived_at as "arrivedAt", u.is_by_hand as "isByHand"
    from (
      select o.repository_id, o.name, o.arrived_at, coalesce(c.role = 'server', o.credential_id is null) as is_by_hand,
        row_number() over (partition by o.repository_id order by o.arrived_at, o.name) as place
      from backup_objects o left join backup_store_credentials c on c.id = o.credential_id
      where o.repository_id = any(?::uuid[]) and o.type = 'snapshots' and ${IS_LIVE}
        and (o.unreadable_at is null or o.unreadable_at < now() - interval '1 day')
        and not coalesce(c.ended_at is null and c.expires_at > now(), false)
        and not exists (
          select from backup_snapshots s where s.repository_id = o.repository_id and s.engine_id = o.name::char(64))
    ) u
    where u.place <= ${OF_REPOSITORY} order by u.place, u.repository_id limit ?`,
    [repositoryIds, limit],
  );
  return rows;
}

/** Packs that have arrived since the newest index. It may name them nevertheless: then restic finds nothing to do. */
const UNINDEXED = `
  select o.name from backup_objects o
  where o.repository_id = ? and o.type = 'data' and o.trashed_at is null and o.lost_at is null
    and o.arrived_at > coalesce((
      select max(i.arrived_at) from backup_objects i
      where i.repository_id = o.repository_id and i.type = 'index' and i.trashed_at is null), '-infinity')
  limit 1`;

/** Whether packs arrived since the newest index. */
export async function hasUnindexedPacks(tx: Tx, repositoryId: string): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: unknown[] }>(UNINDEXED, [repositoryId]);
  return rows.length > 0;
}

/** A page of the repositories in the store that can have something to remove, in the order of their ids. */
export async function repositoriesToRetain(
  tx: Tx,
  { after, limit }: { after: string; limit: number },
): Promise<{ id: string; partnerId: string }[]> {
  const { rows } = await tx.raw<{ rows: { id: string; partnerId: string }[] }>(
    `select r.id, o.partner_id as "partnerId" from backup_repositories r join organizations o on o.id = r.org_id
    where r.id > ? and r.provider = 'server' and r.initialized_at is not null
      and (r.prune_due_since is not null or (
        select count(*) from backup_snapshots s where s.repository_id = r.id and s.removed_at is null) > 1)
    order by r.id limit ${limit}`,
    [after],
  );
  return rows;
}

export async function timeZoneOf(tx: Tx, deviceId: string): Promise<string> {
  const { rows } = await tx.raw<{ rows: { timezone: string }[] }>(
    'select s.timezone from devices d join sites s on s.id = d.site_id where d.id = ?',
    [deviceId],
  );
  return rows[0]?.timezone ?? 'UTC';
}

const SWEPT_AT_ONCE = 500;

type DueRow = Pick<BackupRepository, 'id' | 'orgId' | 'deviceId' | 'configId'> &
  Pick<BackupVerification, 'verificationType'>;

/** The verifications that are due now. */
export async function dueVerifications(tx: Tx): Promise<DueRow[]> {
  const { rows } = await tx.raw<{ rows: DueRow[] }>(
    `select r.id, r.org_id as "orgId", r.device_id as "deviceId", r.config_id as "configId",
        due.type as "verificationType"
      from backup_repositories r
      cross join lateral (
        select 'integrity' as type, case when r.trash_held_at is null then interval '7 days' else interval '1 day' end as every
        union all
        select 'test_restore', interval '30 days' where exists (
          select from device_presence p where p.device_id = r.device_id and p.state = 'connected')) due
      where r.provider = 'server' and r.initialized_at is not null
        and exists (select from backup_snapshots s where s.repository_id = r.id and s.removed_at is null)
        and not exists (select from backup_verifications v where v.repository_id = r.id
          and v.verification_type = due.type and v.created_at > now() - due.every)
      order by r.id limit ${SWEPT_AT_ONCE}`,
  );
  return rows;
}
