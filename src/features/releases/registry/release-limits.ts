import type { RateLimits } from '../../../platform/cluster/rate-limits.ts';
import type { ClientInfo } from '../../../platform/context.ts';
import { addressLimiter } from '../../../platform/http/address-limits.ts';
import { countedAddress } from '../../../platform/http/client-address.ts';

/** How often one network may use each public route: a whole office upgrades behind one address, and resumes. */
const REQUESTS = { points: 300, seconds: 60 };

export type ReleaseLimits = ReturnType<typeof releaseLimits>;

export function releaseLimits(limits: RateLimits) {
  const counted = (name: string) => {
    const limiter = addressLimiter(limits, name, REQUESTS);
    return async (client: ClientInfo): Promise<void> => {
      const address = countedAddress(client);
      if (address !== undefined) await limiter.take(address);
    };
  };
  return {
    latest: counted('release-latest'),
    download: counted('release-download'),
    keys: counted('release-keys'),
    installer: counted('release-installer'),
  };
}
