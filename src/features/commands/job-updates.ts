import { clock } from '../../clock.ts';
import type { JobChange } from '../../hub/ports.ts';
import type { JobUpdate } from '../../protocol/index.ts';
import type { Command } from './command.model.ts';

/** What a job update is made from: a `Command`, or the columns below. */
export type JobRow = Pick<
  Command,
  'id' | 'orgId' | 'deviceId' | 'type' | 'status' | 'progress' | 'error' | 'partnerId'
> & { exit?: { exitCode: number | null } | null };

/** The columns of a `JobRow`, of rows of `commands c`. */
export const JOB_COLUMNS = `c.id, c.org_id as "orgId", c.device_id as "deviceId", c.type, c.status, c.progress, c.error,
  case when c.type = 'script.run' and c.status = 'succeeded'
    then jsonb_build_object('exitCode', c.output -> 'exitCode') end as exit,
  (select o.partner_id from organizations o where o.id = c.org_id) as "partnerId"`;

/**
 * @param at  the state is not older: of an answer, when it was asked for, before it was read; of a change, any time after
 * its commit. So a dashboard that gets both knows which one is newer.
 */
export function toJobUpdate(row: JobRow, at: Date): JobUpdate {
  const { id, orgId, deviceId, type, status, progress, error, exit } = row;
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
    ...exit,
    at: at.toISOString(),
  };
}

/** Of a row as it has been committed. */
export const toJobChange = (row: JobRow): JobChange => ({
  update: toJobUpdate(row, clock.date()),
  partnerId: row.partnerId,
});
