import { pageOf, PageQuery } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { PublicKey } from './chain/checkpoint.ts';
import { exportRoutes } from './export/export.routes.ts';
import { readingRoutes } from './reading/reading.routes.ts';
import { retentionRoutes } from './retention/retention.routes.ts';
import type { RetentionMeans } from './retention/retention.service.ts';
import { publicPart, signingKeyRows } from './storage/signing-keys.ts';

export const auditRoutes = (parts: RetentionMeans): RouteGroup => ({
  name: 'Audit trail',
  description: 'The record of who did what, and the means to verify it.',
  routes: [
    route({
      method: 'get',
      path: '/audit-keys',
      summary: 'Public keys of the audit trail',
      description:
        'The heads of all chains of audit entries are signed with these. Keep a copy: `muster audit verify --keys` checks against it.',
      access: 'public',
      query: PageQuery,
      response: pageOf(PublicKey),
      handler: async ({ ctx, query: { page, limit } }) => {
        const rows = await ctx.withSystem('show the public keys of the audit trail', signingKeyRows);
        // A key is made once in years: they are few.
        const data = rows.slice((page - 1) * limit, page * limit).map(publicPart);
        return { data, pagination: { page, limit, total: rows.length } };
      },
    }),
    ...readingRoutes,
    ...exportRoutes,
    ...retentionRoutes(parts),
  ],
});
