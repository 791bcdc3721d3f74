import { everyScope } from '../../../platform/http/access.ts';
import { auditSubject } from '../../../platform/http/audit.ts';
import { pageOf } from '../../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { NewSlaConfig, SlaConfig, SlaConfigQuery, SlaEvent, SlaEventQuery } from './sla.schema.ts';
import { createSlaConfig, listSlaConfigs, listSlaEvents } from './sla.service.ts';

export const slaRoutes: RouteGroup = {
  name: 'Backup SLAs',
  description: 'What is expected of backups, and when it was not met.',
  routes: [
    route({
      method: 'get',
      path: '/backup/sla/configs',
      summary: 'List SLAs by name',
      access: everyScope('backup:read'),
      query: SlaConfigQuery,
      response: pageOf(SlaConfig),
      handler: ({ ctx, query }) => listSlaConfigs(ctx, query),
    }),
    route({
      method: 'post',
      path: '/backup/sla/configs',
      summary: 'Create an SLA',
      access: everyScope('backup:write'),
      body: NewSlaConfig,
      response: SlaConfig,
      status: 201,
      errors: ['conflict', 'limit_reached'],
      handler: ({ ctx, body }) => createSlaConfig(ctx, body),
      audit: { action: 'backup.sla.create', resource: 'backup_sla_config', note: auditSubject },
    }),
    route({
      method: 'get',
      path: '/backup/sla/events',
      summary: 'List breaches of SLAs, newest first',
      access: everyScope('backup:read'),
      query: SlaEventQuery,
      response: pageOf(SlaEvent),
      handler: ({ ctx, query }) => listSlaEvents(ctx, query),
    }),
  ],
};
