import type { Caller } from '../../platform/context.ts';
import type { DevicesSubscribe } from '../../protocol/index.ts';

interface Placed {
  orgId: string;
  siteId: string;
  partnerId: string;
}
export type Sight = (device: Placed) => boolean;

/** Which devices a subscriber may see, and asked for by where they are. */
export function sight(caller: Caller, { orgId, siteId }: DevicesSubscribe): Sight {
  const mayAll = caller.scope === 'system';
  const organizations = caller.orgAccess === 'all' ? undefined : new Set(caller.orgIds);
  return (device) => {
    if (orgId !== undefined && orgId !== device.orgId) return false;
    if (siteId !== undefined && siteId !== device.siteId) return false;
    if (mayAll) return true;
    return organizations?.has(device.orgId) ?? caller.partnerId === device.partnerId;
  };
}
