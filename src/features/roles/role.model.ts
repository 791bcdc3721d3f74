import { BaseModel } from '../../platform/db/base-model.ts';
import type { Scope } from '../../platform/db/tenant-scope.ts';

export class Role extends BaseModel {
  static override tableName = 'roles';
  declare scope: Scope;
  declare partnerId: string | null;
  declare orgId: string | null;
  declare name: string;
  declare description: string | null;
  declare permissions: string[];
  declare isSystem: boolean;
}

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
