import { z } from 'zod';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { CheckPins } from '../partners/index.ts';
import {
  NewOrganization,
  Organization,
  OrganizationOrder,
  OrganizationPatch,
  OrganizationQuery,
} from './organization.schema.ts';
import { listAllOrganizations, listOrganizations } from './organization.queries.ts';
import {
  createOrganization,
  deleteOrganization,
  orderOrganizations,
  readOrganization,
  updateOrganization,
} from './organization.service.ts';

const SCOPES = ['partner', 'system'] as const;
const about = ({ id, name }: { id: string; name: string }) => auditSubject({ id, name, orgId: id });

export const organizationRoutes = ({ checkPins }: { checkPins: CheckPins }): RouteGroup => ({
  name: 'Organizations',
  description: 'Customers of a partner.',
  routes: [
    route({
      method: 'get',
      path: '/orgs/',
      summary: 'List all accessible organizations, by name or in the chosen order',
      access: { scopes: ['organization', 'partner', 'system'] },
      response: z.object({ data: z.array(Organization) }),
      handler: ({ ctx }) => listAllOrganizations(ctx),
    }),
    route({
      method: 'get',
      path: '/orgs/organizations',
      summary: 'List organizations',
      access: { scopes: SCOPES },
      query: OrganizationQuery,
      response: pageOf(Organization),
      handler: ({ ctx, query }) => listOrganizations(ctx, query),
    }),
    route({
      method: 'post',
      path: '/orgs/organizations',
      summary: 'Create an organization',
      access: { scopes: SCOPES, permission: 'organizations:write' },
      body: NewOrganization,
      response: Organization,
      status: 201,
      errors: ['conflict', 'limit_reached', 'not_found'],
      handler: ({ ctx, body }) => createOrganization(ctx, body, checkPins),
      audit: {
        action: 'organization.create',
        resource: 'organization',
        note: ({ id, name, partnerId, status, type }) => ({
          ...auditSubject({ id, name, orgId: id, partnerId }),
          details: { partnerId, status, type },
        }),
      },
    }),
    route({
      method: 'patch',
      path: '/orgs/organizations/order',
      summary: 'Choose the order in which organizations are listed',
      description:
        'Unknown ids are dropped. Organizations that are left out are appended in the order of their registration.',
      access: { scopes: ['partner'], permission: 'organizations:write' },
      body: OrganizationOrder,
      response: OrganizationOrder,
      handler: ({ ctx, body }) => orderOrganizations(ctx, body.organizationOrder),
      audit: {
        action: 'partner.settings.update',
        resource: 'partner',
        note: ({ partnerId }) => ({
          ...(partnerId === null ? {} : { resourceId: partnerId }),
          details: { changedFields: ['settings.organizationOrder'] },
        }),
      },
    }),
    route({
      method: 'get',
      path: '/orgs/organizations/:id',
      summary: 'Read an organization',
      access: { scopes: SCOPES },
      params: IdParams,
      response: Organization,
      handler: ({ ctx, params }) => readOrganization(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/orgs/organizations/:id',
      summary: 'Change an organization',
      access: { scopes: SCOPES, permission: 'organizations:write' },
      params: IdParams,
      body: OrganizationPatch,
      response: Organization,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => updateOrganization(ctx, params.id, body, checkPins),
      audit: {
        action: 'organization.update',
        resource: 'organization',
        note: ({ changedFields, ...organization }) => ({
          ...about(organization),
          details: { changedFields },
        }),
      },
    }),
    route({
      method: 'delete',
      path: '/orgs/organizations/:id',
      summary: 'Delete an organization (soft)',
      access: { scopes: SCOPES, permission: 'organizations:delete' },
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      handler: ({ ctx, params }) => deleteOrganization(ctx, params.id),
      audit: {
        action: 'organization.delete',
        resource: 'organization',
        note: ({ organization }) => about(organization),
      },
    }),
  ],
});
