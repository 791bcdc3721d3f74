import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { clientLimit } from '../../platform/http/address-limits.ts';

/** Load balancers and monitors ask from few addresses, each several times a second. */
const HEALTH = { points: 600, seconds: 10 };
/** A page takes six of these. */
const DOCUMENTS = { points: 300, seconds: 60 };

export type ServiceLimits = ReturnType<typeof serviceLimits>;

/** @param limits  of this process: health is asked for while Redis is away, and must cost nearly nothing */
export const serviceLimits = (limits: RateLimits) => ({
  health: clientLimit(limits, 'health', HEALTH),
  documents: clientLimit(limits, 'documents', DOCUMENTS),
});
