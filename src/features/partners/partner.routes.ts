import { z } from 'zod';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { PageQuery, pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { NewPartner, OwnPartnerPatch, Partner, PartnerPatch } from './partner.schema.ts';
import {
  type SettingChecks,
  createPartner,
  deletePartner,
  listPartners,
  readOwnPartner,
  readPartner,
  updateOwnPartner,
  updatePartner,
} from './partner.service.ts';

const SYSTEM = { scopes: ['system'] } as const;
const about = ({ id, name }: { id: string; name: string }) => auditSubject({ id, name, partnerId: id });
const SETTINGS =
  'Settings are merged: only the keys that are sent are overwritten, and `null` removes one. The IP allowlist governs the partner’s own users and API keys, not the users of its customers.';

export const partnerRoutes = (checks: SettingChecks): RouteGroup => ({
  name: 'Partners',
  description: 'Service providers and their settings.',
  routes: [
    route({
      method: 'get',
      path: '/orgs/partners/me',
      summary: 'Read the caller’s partner',
      access: { scopes: ['partner'] },
      response: Partner,
      handler: ({ ctx }) => readOwnPartner(ctx),
    }),
    route({
      method: 'patch',
      path: '/orgs/partners/me',
      summary: 'Change the name, billing address or settings of the caller’s partner',
      description: SETTINGS,
      access: { scopes: ['partner'], permission: 'organizations:write' },
      body: OwnPartnerPatch,
      response: Partner,
      handler: ({ ctx, body }) => updateOwnPartner(ctx, body, checks),
      audit: {
        action: 'partner.settings.update',
        resource: 'partner',
        note: ({ changedFields, ...partner }) => ({ ...about(partner), details: { changedFields } }),
      },
    }),
    route({
      method: 'get',
      path: '/orgs/partners',
      summary: 'List partners',
      access: SYSTEM,
      query: PageQuery,
      response: pageOf(Partner),
      handler: ({ ctx, query }) => listPartners(ctx, query),
    }),
    route({
      method: 'post',
      path: '/orgs/partners',
      summary: 'Create a partner',
      access: SYSTEM,
      body: NewPartner,
      response: Partner,
      status: 201,
      errors: ['conflict'],
      handler: ({ ctx, body }) => createPartner(ctx, body, checks),
      audit: {
        action: 'partner.create',
        resource: 'partner',
        note: about,
      },
    }),
    route({
      method: 'get',
      path: '/orgs/partners/:id',
      summary: 'Read a partner',
      access: SYSTEM,
      params: IdParams,
      response: Partner,
      handler: ({ ctx, params }) => readPartner(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/orgs/partners/:id',
      summary: 'Change a partner',
      description: SETTINGS,
      access: SYSTEM,
      params: IdParams,
      body: PartnerPatch,
      response: Partner,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => updatePartner(ctx, params.id, body, checks),
      audit: {
        action: 'partner.update',
        resource: 'partner',
        note: ({ changedFields, ...partner }) => ({ ...about(partner), details: { changedFields } }),
      },
    }),
    route({
      method: 'delete',
      path: '/orgs/partners/:id',
      summary: 'Delete a partner (soft)',
      access: SYSTEM,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      handler: ({ ctx, params }) => deletePartner(ctx, params.id),
      audit: {
        action: 'partner.delete',
        resource: 'partner',
        note: ({ partner }) => about(partner),
      },
    }),
  ],
});
