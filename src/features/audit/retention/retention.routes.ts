import { IdParams } from '../../../platform/http/fields.ts';
import { route, type AnyRoute } from '../../../platform/http/route.ts';
import { Retention, RetentionChange } from './retention.schema.ts';
import { changeRetention, readRetention, type RetentionMeans } from './retention.service.ts';

/** Drops the name, which only the audit entry needs. */
const RetentionAnswer = Retention.strip().meta({ id: 'AuditRetention' });

export const retentionRoutes = (means: RetentionMeans): AnyRoute[] => [
  route({
    method: 'get',
    path: '/orgs/organizations/:id/audit-retention',
    summary: 'Read the audit retention policy',
    access: { scopes: ['organization', 'partner', 'system'], permission: 'audit:read' },
    params: IdParams,
    response: RetentionAnswer,
    handler: ({ ctx, params }) => readRetention(ctx, params.id, means),
  }),
  route({
    method: 'put',
    path: '/orgs/organizations/:id/audit-retention',
    summary: 'Change the audit retention policy',
    description:
      'Expired entries are removed once a day, oldest first and without gaps, so that the integrity of the remaining entries can still be proven.',
    access: { scopes: ['partner', 'system'], permission: 'organizations:write' },
    params: IdParams,
    body: RetentionChange,
    response: RetentionAnswer,
    handler: ({ ctx, params, body }) => changeRetention(ctx, params.id, body, means),
    audit: {
      action: 'organization.audit_retention.update',
      resource: 'organization',
      note: ({ name }, { params }) => ({ orgId: params.id, resourceId: params.id, resourceName: name }),
    },
  }),
];
