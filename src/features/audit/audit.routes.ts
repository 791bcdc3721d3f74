import { z } from 'zod';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { PublicKey } from './checkpoint.ts';
import { exportRoutes } from './export.routes.ts';
import { readingRoutes } from './reading.routes.ts';
import { retentionRoutes } from './retention.routes.ts';
import type { RetentionMeans } from './retention.service.ts';
import { publicPart, signingKeyRows } from './signing-keys.ts';

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
      response: z.object({ data: z.array(PublicKey) }),
      handler: async ({ ctx }) => {
        const rows = await ctx.withSystem('show the public keys of the audit trail', signingKeyRows);
        return { data: rows.map(publicPart) };
      },
    }),
    ...readingRoutes,
    ...exportRoutes,
    ...retentionRoutes(parts),
  ],
});
