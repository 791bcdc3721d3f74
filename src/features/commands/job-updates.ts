import type { JobChange } from '../../hub/ports.ts';
import type { CommandProgress, CommandStatus, JobUpdate } from '../../protocol/index.ts';

export const PARTNER_ID = `(select o.partner_id from organizations o where o.id = c.org_id) as partner_id`;

/** What is read of a row of `commands c` to tell it as a job. */
export const JOB_COLUMNS = `c.id, c.org_id, c.device_id, c.type, c.status, c.progress, c.error, ${PARTNER_ID}`;

export interface JobRow {
  id: string;
  org_id: string;
  device_id: string;
  type: string;
  status: CommandStatus;
  progress: Omit<CommandProgress, 'id' | 'seq'> | null;
  error: { code: string; message: string } | null;
  partner_id: string;
}

export function toJobUpdate(row: JobRow): JobUpdate {
  const message = row.error?.message ?? row.progress?.message;
  return {
    ...row.progress,
    id: row.id,
    kind: row.type,
    orgId: row.org_id,
    deviceId: row.device_id,
    state: row.status,
    phase: row.status === 'running' ? (row.progress?.phase ?? row.status) : row.status,
    ...(message === undefined ? {} : { message }),
    at: new Date().toISOString(),
  };
}

export const toJobChange = (row: JobRow): JobChange => ({
  update: toJobUpdate(row),
  partnerId: row.partner_id,
});
