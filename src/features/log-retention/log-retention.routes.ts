import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  DEFAULT_DIAGNOSTIC_DAYS,
  DEFAULT_EVENT_DAYS,
  LogRetention,
  LogRetentionChange,
} from './log-retention.schema.ts';
import { changeLogRetention, readLogRetention } from './log-retention.service.ts';

/** The answer, which drops what only the audit note needs. */
const LogRetentionAnswer = LogRetention.strip().meta({ id: 'LogRetention' });

export const logRetentionRoutes: RouteGroup = {
  name: 'Log retention',
  description: `For how long an organization’s logs, ended commands and resolved alerts are kept. What is older is removed once a day; events that are kept for ${DEFAULT_EVENT_DAYS} days and lines that are kept for ${DEFAULT_DIAGNOSTIC_DAYS}, as they are unless set otherwise, end by whole weeks, at most a week later. Also what happens when the stored logs reach their budget.`,
  routes: [
    route({
      method: 'get',
      path: '/orgs/organizations/:id/log-retention',
      summary: 'Read the retention of logs, commands and alerts',
      access: everyScope('devices:read'),
      params: IdParams,
      response: LogRetentionAnswer,
      handler: ({ ctx, params }) => readLogRetention(ctx, params.id),
    }),
    route({
      method: 'put',
      path: '/orgs/organizations/:id/log-retention',
      summary: 'Change the retention of logs, commands and alerts',
      access: { scopes: ['partner', 'system'], permission: 'organizations:write' },
      params: IdParams,
      body: LogRetentionChange,
      response: LogRetentionAnswer,
      handler: ({ ctx, params, body }) => changeLogRetention(ctx, params.id, body),
      audit: {
        action: 'organization.log_retention.update',
        resource: 'organization',
        note: ({ name }, { params }) => ({ orgId: params.id, resourceId: params.id, resourceName: name }),
      },
    }),
  ],
};
