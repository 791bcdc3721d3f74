import type { RateLimits } from '../../../platform/cluster/rate-limits.ts';
import { clientLimit } from '../../../platform/http/address-limits.ts';

/** How often one network may use each public route: a whole office upgrades behind one address, and resumes. */
const REQUESTS = { points: 300, seconds: 60 };

export type ReleaseLimits = ReturnType<typeof releaseLimits>;

export function releaseLimits(limits: RateLimits) {
  const counted = (name: string) => clientLimit(limits, name, REQUESTS);
  return {
    latest: counted('release-latest'),
    download: counted('release-download'),
    keys: counted('release-keys'),
    installer: counted('release-installer'),
  };
}
