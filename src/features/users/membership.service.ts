import { lockByName } from '../../platform/db/transaction.ts';
import type { Context } from '../../platform/context.ts';
import type { Scope } from '../../platform/db/tenant-scope.ts';
import { AppError } from '../../platform/errors.ts';
import { assertOrganizationAccess, Organization } from '../organizations/index.ts';
import { assertHolds, EVERYTHING, findRoleToAssign, isRoleFor, type Role } from '../roles/index.ts';
import { Invitation, OrganizationMembership, PartnerMembership, SystemMembership } from './user.model.ts';
import type { Grant, Tenant, Member } from './user.queries.ts';

export interface WantedGrant {
  roleId: string;
  orgAccess?: Grant['orgAccess'] | undefined;
  orgIds?: string[] | undefined;
}

/** Checks that the caller may give this grant in the tenant. Organization access that is left out stays as it is. */
export async function grantFor(
  ctx: Context,
  tenant: Tenant,
  wanted: WantedGrant,
  now: Grant,
): Promise<Grant> {
  const role = await roleFor(ctx, tenant, wanted.roleId);
  assertHolds(ctx.caller, role.permissions);
  if (tenant.scope !== 'partner') {
    if (wanted.orgAccess !== undefined || wanted.orgIds !== undefined) {
      throw fault('orgAccess', 'is only for users of a partner');
    }
    return { roleId: role.id, orgAccess: 'none', orgIds: [] };
  }
  const orgAccess = wanted.orgAccess ?? now.orgAccess;
  if (orgAccess !== 'selected' && wanted.orgIds !== undefined && wanted.orgIds.length > 0) {
    throw fault('orgIds', 'requires orgAccess selected');
  }
  const orgIds = orgAccess === 'selected' ? [...new Set(wanted.orgIds ?? now.orgIds)] : [];
  // Kept organizations were checked with the member, and may have been deleted since.
  const added = orgIds.filter((id) => !now.orgIds.includes(id));
  await assertReaches(ctx, { orgAccess, orgIds: added });
  return { roleId: role.id, orgAccess, orgIds };
}

/** Throws 403 unless the caller can access every organization of the grant. */
async function assertReaches(ctx: Context, { orgAccess, orgIds }: Pick<Grant, 'orgAccess' | 'orgIds'>) {
  if (ctx.caller.scope === 'system') return;
  if (orgAccess === 'all' && ctx.caller.orgAccess !== 'all') {
    throw new AppError(
      'forbidden',
      'You cannot give access to organizations that you cannot access yourself.',
    );
  }
  await assertOrganizationAccess(ctx, ...orgIds);
}

/** Throws 403 if a member has permissions or organizations that the caller does not have. */
export async function assertMayChange(ctx: Context, member: Member): Promise<void> {
  assertHolds(ctx.caller, member.permissions);
  if (ctx.caller.scope === 'partner' && member.scope === 'partner' && ctx.caller.orgAccess !== 'all') {
    const beyond =
      member.orgAccess === 'all' ||
      (member.orgAccess === 'selected' && member.orgIds.some((id) => !ctx.caller.orgIds.includes(id)));
    if (beyond) throw new AppError('forbidden', 'This user can access organizations that you cannot access.');
  }
}

async function roleFor(ctx: Context, tenant: Tenant, roleId: string): Promise<Role> {
  const role = await findRoleToAssign(ctx, roleId);
  if (role === undefined || !isRoleFor(await withPartner(ctx, tenant), role)) {
    throw fault('roleId', `must be a role for users of ${NOUN[tenant.scope]}`);
  }
  return role;
}

/** Adds the partner of an organization, whose roles its members can have as well. */
async function withPartner(ctx: Context, tenant: Tenant): Promise<Tenant> {
  if (tenant.orgId === null) return tenant;
  const organization = await Organization.query(ctx.tx).findById(tenant.orgId);
  return { ...tenant, partnerId: organization?.partnerId ?? null };
}

const NOUN: Record<Scope, string> = {
  system: 'the system',
  partner: 'this partner',
  organization: 'this organization',
};

const fault = (field: string, message: string) =>
  new AppError('validation_failed', `${field} ${message}`, {
    details: [{ path: `body.${field}`, message }],
  });

/** Gives a member, or an invitation, the role and the organizations. */
export async function changeMembership(
  { tx }: Context,
  { id, scope, isInvitation }: Member,
  { roleId, orgAccess, orgIds }: Grant,
): Promise<void> {
  const withOrganizations = { roleId, orgAccess, orgIds };
  if (isInvitation) {
    const changes = scope === 'partner' ? withOrganizations : { roleId };
    await Invitation.query(tx).findById(id).patch(changes);
  } else if (scope === 'partner') await PartnerMembership.query(tx).findById(id).patch(withOrganizations);
  else await MEMBERSHIPS[scope].query(tx).findById(id).patch({ roleId });
}

export async function removeMembership({ tx }: Context, { id, scope, isInvitation }: Member): Promise<void> {
  if (isInvitation) await Invitation.query(tx).deleteById(id);
  else await MEMBERSHIPS[scope].query(tx).deleteById(id);
}

const MEMBERSHIPS = {
  system: SystemMembership,
  partner: PartnerMembership,
  organization: OrganizationMembership,
};

/** Serializes changes of a tenant's administrators. Read the members after this call. */
export async function lockAdministrators(ctx: Context, { scope, partnerId, orgId }: Tenant): Promise<void> {
  const lock = `administrators of ${scope} ${partnerId ?? orgId ?? ''}`;
  await lockByName(ctx.tx, lock);
}

export const isAdministrator = ({ status, permissions }: Pick<Member, 'status' | 'permissions'>): boolean =>
  status === 'active' && permissions.includes(EVERYTHING);

/** Throws 409, which rolls the change back, if the tenant would be left without an administrator. */
export async function assertAdministratorRemains({ tx }: Context, tenant: Tenant): Promise<void> {
  const others = MEMBERSHIPS[tenant.scope]
    .query(tx)
    .joinRelated('[user, role]')
    .where('user.status', 'active')
    .whereRaw('role.permissions @> array[?]', [EVERYTHING]);
  if (tenant.scope === 'partner') void others.where('partner_users.partner_id', tenant.partnerId);
  if (tenant.scope === 'organization') void others.where('organization_users.org_id', tenant.orgId);
  if ((await others.first()) === undefined) {
    throw new AppError(
      'conflict',
      `This is the last administrator of ${NOUN[tenant.scope]}. Make someone else an administrator first.`,
    );
  }
}
