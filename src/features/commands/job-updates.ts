import type { JobChange } from '../../hub/ports.ts';
import type { JobUpdate } from '../../protocol/index.ts';
import type { Command } from './command.model.ts';

/** What a job update is made from: a `Command`, or the columns below. */
export type JobRow = Pick<
  Command,
  'id' | 'orgId' | 'deviceId' | 'type' | 'status' | 'progress' | 'error' | 'partnerId'
>;

/** The columns of a `JobRow`, of rows of `commands c`. */
export const JOB_COLUMNS = `c.id, c.org_id as "orgId", c.device_id as "deviceId", c.type, c.status, c.progress, c.error,
  (select o.partner_id from organizations o where o.id = c.org_id) as "partnerId"`;

export function toJobUpdate({ id, orgId, deviceId, type, status, progress, error }: JobRow): JobUpdate {
  const message = error?.message ?? progress?.message;
  return {
    ...progress,
    id,
    kind: type,
    orgId,
    deviceId,
    state: status,
    phase: status === 'running' ? (progress?.phase ?? status) : status,
    ...(message === undefined ? {} : { message }),
    at: new Date().toISOString(),
  };
}

export const toJobChange = (row: JobRow): JobChange => ({
  update: toJobUpdate(row),
  partnerId: row.partnerId,
});
