import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';

/** Compares rows of snapshots with the objects in the store: what was removed, what came back, what nobody recorded. */

/** `removed_because` of a snapshot that somebody has removed in another way than by its row. */
export const NOT_IN_REPOSITORY = 'no longer in the repository';
const RETENTION = 'retention';

/** The object `o` is in its repository now. */
const IS_LIVE = 'o.trashed_at is null and o.lost_at is null';

/**
 * Of these repositories, those that can be judged. Where even the configuration or all keys are missing, the folder of the
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

/** Keeps the trash of repositories in which somebody has removed what must not go. */
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
  /** Nobody can have written it who knows the credentials of a device only. */
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

export async function markUnreadable(tx: Tx, repositoryId: string, names: readonly string[]): Promise<void> {
  await tx('backup_objects')
    .where({ repository_id: repositoryId, type: 'snapshots' })
    .whereIn('name', names)
    .update({ unreadable_at: clock.date() });
}
