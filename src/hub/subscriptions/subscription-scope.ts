import type { Caller } from '../../platform/context.ts';
import type { DevicesSubscribe } from '../../protocol/index.ts';

interface Location {
  orgId: string;
  siteId: string;
  partnerId: string;
}
export type SubscriptionScope = (device: Location) => boolean;

/** Returns the test whether a device is in the caller's scope and in the organization and site of the request. */
export function subscriptionScope(caller: Caller, { orgId, siteId }: DevicesSubscribe): SubscriptionScope {
  const mayAll = caller.scope === 'system';
  const organizations = caller.orgAccess === 'all' ? undefined : new Set(caller.orgIds);
  return (device) => {
    if (orgId !== undefined && orgId !== device.orgId) return false;
    if (siteId !== undefined && siteId !== device.siteId) return false;
    if (mayAll) return true;
    return organizations?.has(device.orgId) ?? caller.partnerId === device.partnerId;
  };
}
