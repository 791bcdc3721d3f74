import type { Scope } from '../../platform/db/tenant-scope.ts';
import type { Role } from './role.model.ts';

/** A tenant whose members have roles. Of an organization, the partner is the one that it belongs to. */
export interface RoleTenant {
  scope: Scope;
  partnerId: string | null;
  orgId: string | null;
}

/** Whether members of a tenant can have the role: it is one of every deployment, of the tenant, or of its partner. */
export function isRoleFor(tenant: RoleTenant, role: Pick<Role, 'scope' | 'partnerId' | 'orgId'>): boolean {
  return (
    role.scope === tenant.scope &&
    (role.orgId === null || role.orgId === tenant.orgId) &&
    (role.partnerId === null || role.partnerId === tenant.partnerId)
  );
}
