import type { Tx } from '../../platform/db/transaction.ts';
import type { JobState } from '../../protocol/index.ts';

/** One kind of long work on dashboards. */
export interface WorkSource {
  kind: string;
  /** The permission that a user needs to see it: that of its routes. */
  permission: string;
  /**
   * A `select` with the columns of `WorkRow` below, and with `created_at` and `finished_at`. Changes of its rows are
   * announced by triggers (migrations/0013_backup.sql).
   */
  rows: string;
}

/** A column that the source does not have is null. */
export interface WorkRow {
  id: string;
  org_id: string;
  partner_id: string;
  device_id: string | null;
  command_id: string | null;
  state: JobState;
  phase: string | null;
  percent: number | null;
  /** A `bigint`, which the driver returns as text. */
  done: string | null;
  total: string | null;
  rate: string | null;
  eta_seconds: string | null;
  files_done: string | null;
  files_total: string | null;
  path: string | null;
  message: string | null;
  stalled_since: Date | null;
  updated_at: Date;
}

export async function rowsOf(
  tx: Tx,
  { rows: source }: WorkSource,
  conditions: string,
  values: unknown[],
): Promise<WorkRow[]> {
  const { rows } = await tx.raw<{ rows: WorkRow[] }>(
    `select w.*, (select o.partner_id from organizations o where o.id = w.org_id) as partner_id
    from (${source}) w ${conditions}`,
    values as never,
  );
  return rows;
}

/** The progress in a report that a device has sent. Its numbers were checked when it came. */
const progressOf = (column: string) => `
  ${column} ->> 'phase' as phase, (${column} ->> 'percent')::real as percent,
  trunc((${column} ->> 'done')::numeric)::bigint as done, trunc((${column} ->> 'total')::numeric)::bigint as total,
  trunc((${column} ->> 'rate')::numeric)::bigint as rate,
  trunc((${column} ->> 'etaSeconds')::numeric)::bigint as eta_seconds,
  (${column} ->> 'filesDone')::bigint as files_done, (${column} ->> 'filesTotal')::bigint as files_total,
  ${column} ->> 'path' as path`;

const BACKUP: WorkSource = {
  kind: 'backup',
  permission: 'backup:read',
  rows: `select w.id, w.org_id, w.device_id, w.command_id, w.status as state, w.phase, w.percent,
      w.done_bytes as done, w.total_bytes as total, w.rate, w.eta_seconds,
      w.done_files as files_done, w.total_files as files_total, w.current_path as path,
      w.error_message as message, w.stalled_since, w.created_at, w.updated_at, w.finished_at
    from backup_jobs w`,
};

const RESTORE: WorkSource = {
  kind: 'restore',
  permission: 'recovery:read',
  rows: `select w.id, w.org_id, w.device_id, w.command_id, w.status as state, ${progressOf('w.progress')},
      w.error_message as message, w.stalled_since, w.created_at, w.updated_at, w.finished_at
    from backup_restores w`,
};

/** Machines of snapshots. One that runs from its snapshot is work that has not ended. */
const VM_RESTORE: WorkSource = {
  kind: 'vm_restore',
  permission: 'recovery:read',
  rows: `select w.id, w.org_id, w.device_id, w.command_id,
      case w.status when 'working' then 'running' when 'active' then 'running' when 'discarded' then 'cancelled'
        else w.status end as state, ${progressOf('(case when w.is_operating then w.progress end)')},
      w.error_message as message, null::timestamptz as stalled_since, w.created_at, w.updated_at, w.finished_at
    from backup_vm_restores w`,
};

/** A test restore is done by a device, which reports how far it is. */
const VERIFICATION: WorkSource = {
  kind: 'verification',
  permission: 'backup:read',
  rows: `select w.id, w.org_id, w.device_id, w.command_id, w.status as state, ${progressOf('w.progress')},
      w.error_message as message, w.stalled_since, w.created_at, w.updated_at, w.finished_at
    from backup_verifications w`,
};

/** Syncs of vaults, whose progress counts snapshots. */
const VAULT_SYNC: WorkSource = {
  kind: 'vault_sync',
  permission: 'backup:read',
  rows: `select w.id, w.org_id, w.device_id, w.command_id, w.status as state, ${progressOf('w.progress')},
      w.error_message as message, w.stalled_since, w.created_at, w.updated_at, w.finished_at
    from backup_vault_syncs w`,
};

/** One for each key that is being rotated, by the id of the key. It counts repositories. */
const KEY_ROTATION: WorkSource = {
  kind: 'key_rotation',
  permission: 'recovery:read',
  rows: `select w.id, w.org_id, null::uuid as device_id, null::uuid as command_id,
      case w.status when 'rotating' then 'running' else 'completed' end as state, null as phase,
      case when r.total > 0 then trunc(100.0 * r.done / r.total, 1)::real end as percent, r.done, r.total,
      null::bigint as rate, null::bigint as eta_seconds, null::bigint as files_done, null::bigint as files_total,
      null as path, null as message, null::timestamptz as stalled_since, w.created_at, w.updated_at,
      case when w.status <> 'rotating' then w.updated_at end as finished_at
    from backup_encryption_keys w cross join lateral (
      select count(*) as total, count(*) filter (where r.key_version = w.version and not r.has_old_keys) as done
      from backup_repositories r
      where r.encryption_key_id = w.id and r.org_id = w.org_id and r.provider = 'server'
        and r.initialized_at is not null) r
    where w.version > 1`,
};

/** Bare-metal recoveries that have begun. A token that was never used is no work. */
const RECOVERY: WorkSource = {
  kind: 'recovery',
  permission: 'recovery:read',
  rows: `select w.id, w.org_id, w.device_id, null::uuid as command_id,
      case when w.status = 'authenticated' and w.result is null then 'running'
        when w.status = 'revoked' then 'cancelled' when w.result ->> 'status' = 'failed' then 'failed'
        else 'completed' end as state,
      w.progress ->> 'phase' as phase,
      case when (w.progress ->> 'total')::bigint > 0
        then trunc(100.0 * (w.progress ->> 'done')::bigint / (w.progress ->> 'total')::bigint, 1)::real end as percent,
      (w.progress ->> 'done')::bigint as done, (w.progress ->> 'total')::bigint as total,
      (w.progress ->> 'rate')::bigint as rate, (w.progress ->> 'etaSeconds')::bigint as eta_seconds,
      null::bigint as files_done, null::bigint as files_total, w.progress ->> 'disk' as path,
      w.result -> 'error' ->> 'message' as message, null::timestamptz as stalled_since, w.created_at, w.updated_at,
      case when w.finished_at is null and w.session_expires_at < now() then w.session_expires_at
        else w.finished_at end as finished_at
    from backup_recovery_tokens w where w.authenticated_at is not null`,
};

/** All kinds, as dashboards are shown them. A new kind is a row here, and triggers that announce its changes. */
export const WORK_SOURCES: readonly WorkSource[] = [
  BACKUP,
  RESTORE,
  VM_RESTORE,
  VERIFICATION,
  VAULT_SYNC,
  KEY_ROTATION,
  RECOVERY,
];
