import type { TenantScope } from '../../platform/db/tenant-scope.ts';

/** The scope of background work in one organization, without a user. */
export const organizationScope = (orgId: string): TenantScope => ({
  scope: 'organization',
  userId: null,
  partnerId: null,
  orgAccess: 'listed',
  orgIds: [orgId],
});
