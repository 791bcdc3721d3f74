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

/** The snapshots of the first repository that a vault has to have, newest first. */
export const WANTED = `
  select s.id, s.engine_id from backup_snapshots s
  where s.repository_id = v.source_repository_id and s.removed_at is null
  order by s.received_at desc, s.id desc limit v.retention_count`;

/** Whether one of them has no copy. */
export const IS_BEHIND = `exists (select from (${WANTED}) w where not exists (
  select from backup_snapshots c where c.copy_of = w.id and c.repository_id = v.repository_id and c.removed_at is null))`;
