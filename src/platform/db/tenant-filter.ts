import type { TenantScope } from './tenant-scope.ts';

/** The condition that a query on a tenant's table states itself; row level security is the net under it. */
export function inTenant(tenant: TenantScope, column: string): string {
  return tenant.scope === 'system' ? 'true' : `${column} = any((select app_org_ids())::uuid[])`;
}
