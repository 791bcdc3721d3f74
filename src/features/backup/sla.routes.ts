import { z } from 'zod';
import { auditSubject } from '../../platform/http/audit.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  NewSlaConfig,
  SlaConfig,
  SlaConfigPatch,
  SlaConfigQuery,
  SlaEvent,
  SlaEventQuery,
} from './sla.schema.ts';
import {
  createSlaConfig,
  deleteSlaConfig,
  listSlaConfigs,
  listSlaEvents,
  updateSlaConfig,
} from './sla.service.ts';

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
      method: 'patch',
      path: '/backup/sla/configs/:id',
      summary: 'Change an SLA',
      description: 'Each field replaces the stored one as a whole. Breaches follow within some minutes.',
      access: everyScope('backup:write'),
      params: IdParams,
      body: SlaConfigPatch,
      response: SlaConfig,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => updateSlaConfig(ctx, params.id, body),
      audit: {
        action: 'backup.sla.update',
        resource: 'backup_sla_config',
        note: (config) => ({ ...auditSubject(config), details: { changedFields: config.changedFields } }),
      },
    }),
    route({
      method: 'delete',
      path: '/backup/sla/configs/:id',
      summary: 'Delete an SLA',
      description: 'Its breaches are deleted with it. An SLA that is not active keeps them.',
      access: everyScope('backup:delete'),
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      handler: ({ ctx, params }) => deleteSlaConfig(ctx, params.id),
      audit: {
        action: 'backup.sla.delete',
        resource: 'backup_sla_config',
        note: ({ config }) => auditSubject(config),
      },
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
