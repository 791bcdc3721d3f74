import { type Context, assertActsForWholePartner } from '../../platform/context.ts';
import { invalid } from '../../platform/errors.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { type Owner, partnerOf } from './notification.queries.ts';

/**
 * The owner that a request names, checked.
 * @param act  what a person of the partner is refused without access to all organizations
 */
export async function ownerOf(ctx: Context, orgId: string | undefined, act: string): Promise<Owner> {
  const { caller } = ctx;
  const own = orgId ?? caller.orgId;
  if (own !== null) {
    await assertOrganizationAccess(ctx, own);
    await assertManageable(ctx, own);
    return { partnerId: await partnerOf(ctx.tx, own), orgId: own };
  }
  if (caller.partnerId === null) throw invalid('body.orgId', 'is required in system scope');
  assertActsForWholePartner(caller, act);
  return { partnerId: caller.partnerId, orgId: null };
}
