import type { TenantScope } from '../../platform/db/tenant-scope.ts';

/** Sees one organization, and acts for nobody. */
export const organizationScope = (orgId: string): TenantScope => ({
  scope: 'organization',
  userId: null,
  partnerId: null,
  orgAccess: 'listed',
  orgIds: [orgId],
});
