import { VAULT_SYNC_SNAPSHOTS_MAX } from '../../../protocol/index.ts';

/** SQL about how far vaults (`v`, of backup_vaults) are behind the repositories that they copy. */

/** When the newest snapshot of which a vault has a copy was received by the first repository. */
const NEWEST_COPIED = `(select max(o.received_at) from backup_snapshots c join backup_snapshots o on o.id = c.copy_of
  where c.repository_id = v.repository_id and c.removed_at is null)`;

/** A row with `snapshots`, those that are newer than the newest copy, and `since`, when the oldest of them came. */
export const LAG = `lateral (
  select count(*)::integer as snapshots, min(s.received_at) as since from backup_snapshots s
  where s.repository_id = v.source_repository_id and s.removed_at is null
    and s.received_at > coalesce(${NEWEST_COPIED}, '-infinity')) lag`;

/** Whether an alert is due. */
export const LAGS_TOO_LONG = `(v.is_active and lag.snapshots > 0
  and lag.since < now() - make_interval(hours => v.max_lag_hours))`;

/** The newest snapshots of the first repository. */
const NEWEST = `
  select s.received_at, s.backup_type, s.details from backup_snapshots s
  where s.repository_id = v.source_repository_id and s.removed_at is null
  order by s.received_at desc, s.id desc limit v.retention_count`;

/**
 * Since when the vault has to have every snapshot. A log or differential backup of a database is worth nothing without the
 * full backup before it, and without everything between the two.
 */
const WANTED_SINCE = `(
  select min(coalesce((
    select max(f.received_at) from backup_snapshots f
    where n.backup_type = 'database' and f.repository_id = v.source_repository_id and f.removed_at is null
      and f.backup_type = 'database' and f.received_at <= n.received_at and f.details ->> 'backupType' = 'full'
      and f.details ->> 'engine' = n.details ->> 'engine' and f.details ->> 'instance' = n.details ->> 'instance'
  ), n.received_at)) from (${NEWEST}) n)`;

const HAS_COPY = `exists (select from backup_snapshots c
  where c.copy_of = s.id and c.repository_id = v.repository_id and c.removed_at is null)`;

const ALL_WANTED = `backup_snapshots s
  where s.repository_id = v.source_repository_id and s.removed_at is null and s.received_at >= ${WANTED_SINCE}`;

/**
 * The snapshots of the first repository that a vault has to have, as many as one sync takes. Those without a copy come
 * first: of databases the oldest, which the others need, and otherwise the newest.
 */
export const WANTED = `
  select s.engine_id from ${ALL_WANTED}
  order by ${HAS_COPY}, case when s.backup_type = 'database' then s.received_at end, s.received_at desc, s.id desc
  limit ${VAULT_SYNC_SNAPSHOTS_MAX}`;

/** Whether one of them has no copy. */
export const IS_BEHIND = `exists (select from ${ALL_WANTED} and not ${HAS_COPY})`;
