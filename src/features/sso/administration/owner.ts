import type { Caller, Context } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import { EVERYTHING, exceeds } from '../../roles/index.ts';
import { permissionsOfMembers } from '../providers/provider.queries.ts';
import { type Owned, SsoProvider } from '../providers/provider.model.ts';
import type { NewProvider } from './provider.schema.ts';

/** Returns the owner of a new provider. Throws if the caller may not create providers of this owner. */
export async function ownerOfNew(
  ctx: Context,
  { ownerScope, orgId }: Pick<NewProvider, 'ownerScope' | 'orgId'>,
): Promise<Owned> {
  const { caller } = ctx;
  const owned =
    ownerScope === 'partner'
      ? { orgId: null, partnerId: caller.partnerId }
      : { orgId: await organizationOfNew(ctx, orgId), partnerId: null };
  await assertMayConfigure(ctx, owned);
  return owned;
}

async function organizationOfNew(ctx: Context, orgId: string | undefined): Promise<string> {
  const { caller } = ctx;
  const wanted = orgId ?? caller.orgId;
  if (wanted === null) {
    throw invalid('body.orgId', 'is required', `orgId is required for ${caller.scope} scope`);
  }
  await assertOrganizationAccess(ctx, wanted);
  return wanted;
}

/**
 * Throws unless the caller has every right that a sign-in with a provider of this owner can give: whoever decides how
 * people sign in can sign in as any of them.
 */
export async function assertMayConfigure({ tx, caller }: Context, owned: Owned): Promise<void> {
  assertActsForOwner(caller, owned);
  const given = owned.orgId === null ? [EVERYTHING] : await permissionsOfMembers(tx, owned.orgId);
  const beyond = exceeds(caller.permissions, given);
  if (beyond.length === 0) return;
  const missing = beyond.includes(EVERYTHING) ? [EVERYTHING] : beyond;
  const [whose, admin] =
    owned.orgId === null
      ? ['a partner', 'Partner Admin']
      : ['this organization', 'administrator of the organization or Partner Admin'];
  throw new AppError(
    'forbidden',
    `Whoever configures an identity provider of ${whose} decides who signs in as its users, so it needs every permission that these users have. You do not have: ${missing.join(', ')}. Ask a ${admin} to make this change.`,
    { details: { missingPermissions: missing } },
  );
}

/**
 * A partner's provider signs in its technicians, who may reach all its organizations, so the caller must reach all of
 * them too.
 */
function assertActsForOwner({ scope, partnerId, orgAccess }: Caller, owned: Owned): void {
  if (owned.orgId !== null) return;
  if (scope !== 'partner' || partnerId !== owned.partnerId || orgAccess !== 'all') {
    throw new AppError(
      'forbidden',
      'Only users of a partner who have access to all its organizations can change the identity providers of the partner.',
    );
  }
}

/** Limited, because each active provider is checked regularly. */
const MAX_OF_OWNER = 50;

/** Throws if the owner has the maximum number of providers. The lock makes other creations for this owner wait. */
export async function assertRoom({ tx }: Context, { orgId, partnerId }: Owned): Promise<void> {
  const lock = `identity providers of ${partnerId ?? orgId ?? ''}`;
  await tx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [lock]);
  const owned = orgId === null ? { partner_id: partnerId } : { org_id: orgId };
  if ((await SsoProvider.query(tx).where(owned).resultSize()) >= MAX_OF_OWNER) {
    throw new AppError(
      'limit_reached',
      `An organization or a partner can have at most ${MAX_OF_OWNER} providers. Delete some first.`,
    );
  }
}
