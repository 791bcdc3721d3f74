import type { WorkSource } from '../../backup/index.ts';

/** Executions on dashboards. They count devices. */
export const RECOVERY_WORK: WorkSource = {
  kind: 'dr',
  permission: 'recovery:read',
  rows: `select w.id, w.org_id, null::uuid as device_id, null::uuid as command_id,
      case w.status when 'aborted' then 'cancelled' else w.status end as state, w.phase,
      case when w.steps_total > 0 then trunc(100.0 * w.steps_done / w.steps_total, 1)::real end as percent,
      w.steps_done::bigint as done, w.steps_total::bigint as total, null::bigint as rate,
      null::bigint as eta_seconds, null::bigint as files_done, null::bigint as files_total, null as path,
      w.halt_reason as message, null::timestamptz as stalled_since, w.created_at, w.updated_at, w.finished_at
    from dr_executions w`,
};
