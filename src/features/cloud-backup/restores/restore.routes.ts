import { everyScope } from '../../../platform/http/access.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { CloudJob } from '../jobs/job.schema.ts';
import { NewCloudRestore } from './restore.schema.ts';
import { createRestore } from './restore.service.ts';

export const cloudRestoreRoutes = ({ jobs }: { jobs: Jobs }): RouteGroup => ({
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
      handler: ({ ctx, body }) => createRestore(ctx, body, jobs),
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
