import { raw } from 'objection';
import { clock } from '../../../clock.ts';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { BackupJob } from './job.model.ts';
import type { WaitingFor } from './job.schema.ts';

/** Backup jobs as answers show them. */

export const visibleJobs = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  BackupJob.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_jobs.org_id'))
    .select('backup_jobs.*', raw(IS_CONNECTED), raw(SNAPSHOT));

const IS_CONNECTED = `(select p.state = 'connected' from device_presence p
  where p.org_id = backup_jobs.org_id and p.device_id = backup_jobs.device_id) as is_connected`;
const SNAPSHOT = `(select s.id from backup_snapshots s
  where s.org_id = backup_jobs.org_id and s.job_id = backup_jobs.id order by s.id limit 1) as snapshot_id`;

export function toAnswer(job: BackupJob, hub: Pick<DeviceHub, 'live'>, now = clock.date()) {
  const { phase, percent, doneBytes, totalBytes, doneFiles, totalFiles, currentPath, lastProgressAt } = job;
  const { rate, etaSeconds, stalledSince } = job;
  const { errorCode, errorMessage, unreadableCount, unreadable, leftOut, ...rest } = job;
  return {
    ...rest,
    waitingFor: waitingFor(job, hub, now),
    progress: {
      phase,
      percent,
      doneBytes,
      totalBytes,
      doneFiles,
      totalFiles,
      rate,
      etaSeconds,
      currentPath,
      at: lastProgressAt,
      stalledSince,
    },
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' },
    unreadable: { count: unreadableCount, paths: unreadable },
    leftOut: leftOut ?? { count: 0, paths: [] },
  };
}

function waitingFor(
  { status, deviceId, dueAt, commandId, isConnected }: BackupJob,
  hub: Pick<DeviceHub, 'live'>,
  now: Date,
): WaitingFor | null {
  if (status !== 'pending') return null;
  if (!(hub.live(deviceId)?.isConnected ?? isConnected ?? false)) return 'device';
  if (commandId !== null) return null;
  return dueAt > now ? 'due_time' : 'turn';
}
