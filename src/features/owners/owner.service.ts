import { assertActsForWholePartner, type Context } from '../../platform/context.ts';
import { invalid } from '../../platform/errors.ts';
import { assertManageable, assertOrganizationAccess, readOrganization } from '../organizations/index.ts';
import type { Owner } from './owner.queries.ts';
import type { TenantScope } from '../../platform/db/tenant-scope.ts';

/**
 * The owner of what a request creates: the organization that it names, that of the caller, or the partner of the caller.
 * @param act  what people are told that they may not do for the whole partner, such as "create webhooks of the partner"
 */
export async function ownerOf(ctx: Context, orgId: string | undefined, act: string): Promise<Owner> {
  const { caller } = ctx;
  const own = orgId ?? caller.orgId;
  if (own !== null) {
    await assertOrganizationAccess(ctx, own);
    await assertManageable(ctx, own);
    const { partnerId } = await readOrganization(ctx, own);
    return { partnerId, orgId: own };
  }
  if (caller.partnerId === null) throw invalid('body.orgId', 'is required in system scope');
  assertActsForWholePartner(caller, act);
  return { partnerId: caller.partnerId, orgId: null };
}

/** Whether a caller reaches an organization, or, without one, the whole of a partner. */
export function reachesOwner({ scope, partnerId, orgAccess, orgIds }: TenantScope, owner: Owner): boolean {
  if (scope === 'system') return true;
  if (orgAccess === 'all') return partnerId === owner.partnerId;
  return owner.orgId !== null && orgIds.includes(owner.orgId);
}
