import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { WorkEngine } from '../work/index.ts';
import { CloudJob, CloudJobDetails, CloudJobQuery, NewCloudRestore } from './job.schema.ts';
import { cancelJob, listJobs, readJob, startRun, createRestore } from './job.service.ts';

export const cloudJobRoutes = ({ work }: { work: WorkEngine }): RouteGroup => ({
  name: 'Cloud backup jobs',
  description: 'Runs of cloud backups, and restores.',
  routes: [
    route({
      method: 'post',
      path: '/c2c/configs/:id/run',
      summary: 'Begin a cloud backup',
      description:
        'One run of a configuration at a time: if one has not ended, 409 with its id in `details.jobId`.',
      access: everyScope('backup:execute'),
      params: IdParams,
      response: CloudJob,
      status: 201,
      idempotent: true,
      errors: ['conflict'],
      handler: ({ ctx, params }) => startRun(ctx, params.id, work),
      audit: {
        action: 'c2c.run',
        resource: 'c2c_job',
        note: ({ id, orgId, configId }) => ({ orgId, resourceId: id, details: { configId } }),
      },
    }),
    route({
      method: 'get',
      path: '/c2c/jobs',
      summary: 'List cloud backup jobs, the newest first',
      access: everyScope('backup:read'),
      query: CloudJobQuery,
      response: pageOf(CloudJob),
      handler: ({ ctx, query }) => listJobs(ctx, query),
    }),
    route({
      method: 'get',
      path: '/c2c/jobs/:id',
      summary: 'Read a cloud backup job with its outcomes',
      access: everyScope('backup:read'),
      params: IdParams,
      response: CloudJobDetails,
      handler: ({ ctx, params }) => readJob(ctx, params.id),
    }),
    route({
      method: 'post',
      path: '/c2c/jobs/:id/cancel',
      summary: 'Cancel a cloud backup job',
      description: 'What was backed up or restored by then stays.',
      access: everyScope('backup:execute'),
      params: IdParams,
      response: CloudJob,
      errors: ['conflict'],
      handler: ({ ctx, params }) => cancelJob(ctx, params.id, work),
      audit: {
        action: 'c2c.job.cancel',
        resource: 'c2c_job',
        note: ({ id, orgId, type }) => ({ orgId, resourceId: id, details: { type } }),
      },
    }),
  ],
});

export const cloudRestoreRoutes = ({ work }: { work: WorkEngine }): RouteGroup => ({
  name: 'Cloud restores',
  description: 'Cloud backup items that come back to a mailbox or a drive.',
  routes: [
    route({
      method: 'post',
      path: '/c2c/items/restore',
      summary: 'Restore cloud backup items',
      description:
        'To the mailbox or drive that they come from, or to another one. A restore that is repeated makes nothing twice. Messages come back as drafts, and events without their attendees, who would be invited again.',
      access: everyScope('recovery:execute'),
      bodyLimit: 100_000,
      body: NewCloudRestore,
      response: CloudJob,
      status: 201,
      idempotent: true,
      errors: ['conflict'],
      handler: ({ ctx, body }) => createRestore(ctx, body, work),
      audit: {
        action: 'c2c.restore',
        resource: 'c2c_job',
        note: ({ id, orgId, configId, target }, { body }) => ({
          orgId,
          resourceId: id,
          details: { configId, items: body.itemIds.length, target },
        }),
      },
    }),
  ],
});
