import type { JobState, JobUpdate } from '../../../protocol/index.ts';

/** One kind of long work on dashboards. */
export interface WorkSource {
  kind: string;
  /** What a user has to hold to see it: that of its routes. */
  permission: string;
  /**
   * A `select` with the columns of `WorkRow` below, and with `created_at` and `finished_at`. Changes of its rows are
   * announced by triggers (migration 0093).
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
  /** Of a `bigint`, which the driver answers as text. */
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

export function toWorkUpdate(kind: string, row: WorkRow): JobUpdate {
  const { id, org_id: orgId, device_id: deviceId, command_id: commandId, state, phase, percent } = row;
  const amounts = {
    done: row.done,
    total: row.total,
    rate: row.rate,
    etaSeconds: row.eta_seconds,
    filesDone: row.files_done,
    filesTotal: row.files_total,
  };
  return {
    id,
    kind,
    orgId,
    ...(deviceId === null ? {} : { deviceId }),
    ...(commandId === null ? {} : { commandId }),
    state,
    phase: state === 'running' ? (phase ?? state) : state,
    percent,
    ...numbers(amounts),
    ...(row.path === null ? {} : { path: row.path }),
    ...(row.message === null ? {} : { message: row.message }),
    ...(row.stalled_since === null ? {} : { stalledSince: row.stalled_since.toISOString() }),
    at: row.updated_at.toISOString(),
  };
}

const numbers = (amounts: Record<string, string | null>) =>
  Object.fromEntries(
    Object.entries(amounts).flatMap(([name, amount]) => (amount === null ? [] : [[name, Number(amount)]])),
  );
