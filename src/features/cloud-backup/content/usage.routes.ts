import { z } from 'zod';
import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { everyScope } from '../../../platform/http/access.ts';
import { Id } from '../../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';

const UsageQuery = z.object({ orgId: Id.optional() });

export const cloudUsageRoutes: RouteGroup = {
  name: 'Cloud backup usage',
  description: 'What cloud backups take in the backup store.',
  routes: [
    route({
      method: 'get',
      path: '/c2c/usage',
      summary: 'Read what cloud backups take in the backup store',
      access: everyScope('backup:read'),
      query: UsageQuery,
      response: z.object({
        storedBytes: z
          .number()
          .int()
          .nonnegative()
          .describe('Encrypted, with earlier contents. A content that several items have counts once.'),
      }),
      handler: ({ ctx, query }) => readUsage(ctx, query.orgId),
    }),
  ],
};

async function readUsage(ctx: Context, orgId: string | undefined): Promise<{ storedBytes: number }> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const [sum] = await ctx
    .tx('c2c_stores')
    .whereRaw(inTenant(ctx.caller, 'c2c_stores.org_id'))
    .where(omitUndefined({ org_id: orgId }))
    .sum<{ bytes: string | null }[]>({ bytes: 'stored_bytes' });
  return { storedBytes: Number(sum?.bytes ?? 0) };
}
