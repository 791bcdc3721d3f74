import type { RateLimits } from '../../../platform/cluster/rate-limits.ts';
import type { ClientInfo } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { addressLimiter } from '../../../platform/http/address-limits.ts';
import { countedAddress } from '../../../platform/http/client-address.ts';

/** Wrong tokens from one address. */
const FAILURES = { points: 20, seconds: 300 };
/** Starts with one token: a rescue system that loses its network begins again some times, and not for ever. */
const STARTS = { points: 10, seconds: 3600 };

export type RecoveryLimits = ReturnType<typeof recoveryLimits>;

export function recoveryLimits(limits: RateLimits) {
  const failures = addressLimiter(limits, 'recovery-failure', FAILURES);
  const starts = limits.limiter('recovery-start', STARTS);
  return {
    /** Lets an address try a token, unless it has had too many wrong ones. Throws `rate_limited`. */
    async limited<T>(client: ClientInfo, work: () => Promise<T>): Promise<T> {
      const ip = countedAddress(client);
      if (ip === undefined) return work();
      // Taking says when there is a point again.
      if (await failures.isSpent(ip)) await failures.take(ip);
      try {
        return await work();
      } catch (error) {
        if (error instanceof AppError && error.code === 'unauthenticated') await failures.take(ip);
        throw error;
      }
    },
    /** @param tokenHash  of a token that is known */
    start: (tokenHash: string) => starts.take(tokenHash),
  };
}
