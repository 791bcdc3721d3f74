import type { Context } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { invalid } from '../../../platform/errors.ts';
import { Organization } from '../../organizations/index.ts';
import {
  assertHolds,
  findRoleToAssign,
  isRoleFor,
  Role,
  type RoleTenant,
  stillHolds,
} from '../../roles/index.ts';
import type { Owned, SsoProvider } from './provider.model.ts';

/**
 * Throws unless the default role (SPEC 4.8) is a role for members of the owner, and the caller has all its permissions.
 */
export async function assertDefaultRole(ctx: Context, owned: Owned, roleId: string): Promise<void> {
  const [role, tenant] = [await findRoleToAssign(ctx, roleId), await ownerOf(ctx.tx, owned)];
  if (role === undefined || tenant === undefined || !isRoleFor(tenant, role)) {
    const rule = `must be a role for users of this ${owned.orgId === null ? 'partner' : 'organization'}`;
    throw invalid('body.defaultRoleId', rule);
  }
  assertHolds(ctx.caller, role.permissions);
}

/**
 * Whether a new account may get the provider's default role now: the role is still one for members of the owner, and
 * the person who configured it is still active, can still access the owner and still has all permissions of the role.
 * Locks the role until the transaction ends. Needs a transaction across tenants.
 */
export async function defaultRoleStands(
  tx: Tx,
  provider: Pick<SsoProvider, 'orgId' | 'partnerId' | 'defaultRoleId' | 'defaultRoleConfiguredBy'>,
): Promise<boolean> {
  const { defaultRoleId, defaultRoleConfiguredBy } = provider;
  if (defaultRoleId === null) return false;
  const tenant = await ownerOf(tx, provider);
  const role = await Role.query(tx).findById(defaultRoleId).forShare();
  if (tenant === undefined || role === undefined || !isRoleFor(tenant, role)) return false;
  const { partnerId, orgId } = tenant;
  const orgIds = orgId === null ? ('all' as const) : [orgId];
  return stillHolds(tx, defaultRoleConfiguredBy, { partnerId, orgIds }, role.permissions);
}

/** Undefined if the organization is deleted. */
async function ownerOf(tx: Tx, { orgId, partnerId }: Owned): Promise<RoleTenant | undefined> {
  if (orgId === null) return { scope: 'partner', partnerId, orgId };
  const organization = await Organization.query(tx).findById(orgId).whereNull('deleted_at');
  return organization && { scope: 'organization', partnerId: organization.partnerId, orgId };
}
