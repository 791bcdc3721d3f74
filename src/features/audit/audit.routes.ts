import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { clientLimit } from '../../platform/http/address-limits.ts';
import { pageOf, PageQuery } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { PublicKey } from './chain/checkpoint.ts';
import { exportRoutes } from './export/export.routes.ts';
import { readingRoutes } from './reading/reading.routes.ts';
import { retentionRoutes } from './retention/retention.routes.ts';
import type { RetentionMeans } from './retention/retention.service.ts';
import { publicPart, signingKeyRows } from './storage/signing-keys.ts';
import { verifyRoutes } from './verification/verify.routes.ts';
import type { VerifyChain } from './verification/verify.service.ts';

/** Of the public keys, for one network. */
const KEYS = { points: 120, seconds: 60 };
export const auditKeysLimit = (limits: RateLimits) => clientLimit(limits, 'audit-keys', KEYS);
type AuditKeysLimit = ReturnType<typeof auditKeysLimit>;

export const auditRoutes = (
  parts: RetentionMeans & { verifyChain: VerifyChain; auditKeysLimit: AuditKeysLimit },
): RouteGroup => ({
  name: 'Audit trail',
  description: 'A tamper-evident record of who did what.',
  routes: [
    route({
      method: 'get',
      path: '/audit-keys',
      summary: 'Public keys of the audit trail',
      description:
        'These keys sign the heads of all audit chains. Keep a copy for `muster audit verify --keys`.',
      access: 'public',
      before: parts.auditKeysLimit,
      errors: ['rate_limited'],
      query: PageQuery,
      response: pageOf(PublicKey),
      handler: async ({ ctx, query: { page, limit } }) => {
        const rows = await ctx.withSystem('show the public keys of the audit trail', signingKeyRows);
        // Keys are rotated rarely, so paging in memory is cheap.
        const data = rows.slice((page - 1) * limit, page * limit).map(publicPart);
        return { data, pagination: { page, limit, total: rows.length } };
      },
    }),
    ...readingRoutes,
    ...exportRoutes,
    ...verifyRoutes(parts),
    ...retentionRoutes(parts),
  ],
});
