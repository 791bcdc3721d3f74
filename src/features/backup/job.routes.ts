import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { prepareRuns, runBackups } from './bulk-run.service.ts';
import { BackupJob, BackupsStarted, DeviceParams, JobQuery, RunBackup, RunBackups } from './job.schema.ts';
import { cancelJob, type JobParts, listJobs, prepareRun, readJob, runBackup } from './job.service.ts';

const about = ({
  id,
  orgId,
  deviceId,
  configId,
}: Pick<BackupJob, 'id' | 'orgId' | 'deviceId' | 'configId'>) => ({
  orgId,
  resourceId: id,
  details: { deviceId, configId },
});

export const jobRoutes = (parts: JobParts): RouteGroup => ({
  name: 'Backup jobs',
  description: 'Backups of devices, from when they are due until their end.',
  routes: [
    route({
      method: 'post',
      path: '/backup/jobs/run/:deviceId',
      summary: 'Back up a device now',
      description:
        'A device that is offline begins when it returns, until `expiresAt`. A configuration has at most one job of a device in flight.',
      access: everyScope('backup:execute'),
      params: DeviceParams,
      body: RunBackup,
      response: BackupJob,
      status: 201,
      idempotent: true,
      errors: ['conflict', 'capability_missing', 'engine_missing', 'server_engine_missing'],
      // Looks for restic on the server, so before the transaction.
      prepare: ({ ctx, params, body }) => prepareRun(ctx, params.deviceId, body, parts),
      handler: ({ ctx, params, body }) => runBackup(ctx, params.deviceId, body, parts),
      audit: { action: 'backup.job.run', resource: 'backup_job', note: about },
    }),
    route({
      method: 'post',
      path: '/backup/jobs/bulk',
      summary: 'Back up many devices now',
      description:
        'Each by the default configuration of its organization, else its only one. A device that cannot be backed up does not stop the others. One that is offline begins when it returns.',
      access: everyScope('backup:execute'),
      cost: 'expensive',
      body: RunBackups,
      response: BackupsStarted,
      idempotent: true,
      // Looks for restic on the server, so before the transaction.
      prepare: ({ ctx, body }) => prepareRuns(ctx, body, parts),
      handler: ({ ctx, body, prepared }) => runBackups(ctx, body, prepared, parts),
      audit: { action: 'backup.job.run', resource: 'backup_job', note: ({ jobs }) => jobs.map(about) },
    }),
    route({
      method: 'get',
      path: '/backup/jobs',
      summary: 'List backup jobs, newest first',
      access: everyScope('backup:read'),
      query: JobQuery,
      response: pageOf(BackupJob),
      handler: ({ ctx, query }) => listJobs(ctx, query, parts.hub),
    }),
    route({
      method: 'get',
      path: '/backup/jobs/:id',
      summary: 'Read a backup job',
      access: everyScope('backup:read'),
      params: IdParams,
      response: BackupJob,
      handler: ({ ctx, params }) => readJob(ctx, params.id, parts.hub),
    }),
    route({
      method: 'post',
      path: '/backup/jobs/:id/cancel',
      summary: 'Cancel a backup job',
      description:
        'A job that has not begun ends at once. A device that has begun stops, and then the job ends; what was sent is used by the next backup.',
      access: everyScope('backup:execute'),
      params: IdParams,
      response: BackupJob,
      errors: ['conflict'],
      handler: ({ ctx, params }) => cancelJob(ctx, params.id, parts),
      audit: { action: 'backup.job.cancel', resource: 'backup_job', note: about },
    }),
  ],
});
