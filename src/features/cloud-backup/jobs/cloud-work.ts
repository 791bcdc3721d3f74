import type { WorkSource } from '../../backup/index.ts';

/** Runs and restores on dashboards. They count items. */
export const CLOUD_WORK: WorkSource = {
  kind: 'cloud_backup',
  permission: 'backup:read',
  rows: `select w.id, w.org_id, null::uuid as device_id, null::uuid as command_id, w.status as state, w.phase,
      case when w.parts_total > 0 then trunc(100.0 * least(w.parts_done, w.parts_total) / w.parts_total, 1)::real end as percent,
      w.items_processed as done, null::bigint as total, null::bigint as rate, null::bigint as eta_seconds,
      null::bigint as files_done, null::bigint as files_total, null as path, w.error_message as message,
      null::timestamptz as stalled_since, w.created_at, w.updated_at, w.finished_at
    from c2c_jobs w`,
};
