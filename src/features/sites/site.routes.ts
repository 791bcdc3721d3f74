import { z } from 'zod';
import { everyScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { NewSite, Site, SitePatch, SiteQuery } from './site.schema.ts';
import { createSite, deleteSite, listSites, readSite, updateSite } from './site.service.ts';

export const siteRoutes: RouteGroup = {
  name: 'Sites',
  description: 'Locations of an organization.',
  routes: [
    route({
      method: 'get',
      path: '/orgs/sites',
      summary: 'List sites of one or of all accessible organizations',
      access: everyScope('sites:read'),
      query: SiteQuery,
      response: pageOf(Site),
      handler: ({ ctx, query }) => listSites(ctx, query),
    }),
    route({
      method: 'post',
      path: '/orgs/sites',
      summary: 'Create a site',
      access: everyScope('sites:write'),
      body: NewSite,
      response: Site,
      status: 201,
      handler: ({ ctx, body }) => createSite(ctx, body),
      audit: { action: 'site.create', resource: 'site', note: auditSubject },
    }),
    route({
      method: 'get',
      path: '/orgs/sites/:id',
      summary: 'Read a site',
      access: everyScope('sites:read'),
      params: IdParams,
      response: Site,
      handler: ({ ctx, params }) => readSite(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/orgs/sites/:id',
      summary: 'Change a site',
      access: everyScope('sites:write'),
      params: IdParams,
      body: SitePatch,
      response: Site,
      handler: ({ ctx, params, body }) => updateSite(ctx, params.id, body),
      audit: {
        action: 'site.update',
        resource: 'site',
        note: (site) => ({ ...auditSubject(site), details: { changedFields: site.changedFields } }),
      },
    }),
    route({
      method: 'delete',
      path: '/orgs/sites/:id',
      summary: 'Delete a site for good',
      access: everyScope('sites:delete'),
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['conflict'],
      handler: ({ ctx, params }) => deleteSite(ctx, params.id),
      audit: { action: 'site.delete', resource: 'site', note: ({ site }) => auditSubject(site) },
    }),
  ],
};
