import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import type { ClientInfo } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import { addressLimiter } from '../../platform/http/address-limits.ts';
import { countedAddress } from '../../platform/http/client-address.ts';

/** Bad keys from one address. */
const FAILURES = { points: 30, seconds: 300 };
/** All tries from one address: a school behind one address can bring in hundreds of machines in an afternoon. */
const TRIES = { points: 1200, seconds: 3600 };

export type EnrollLimits = ReturnType<typeof enrollLimits>;

export function enrollLimits(limits: RateLimits) {
  const failures = addressLimiter(limits, 'enroll-failure', FAILURES);
  const tries = addressLimiter(limits, 'enroll-try', TRIES);

  return {
    /**
     * Lets an address try to enroll, unless it has tried too often. Throws `rate_limited`. A failure is counted when it
     * is one, not before as with passwords: many machines that enroll at once would be taken for many bad keys, and a
     * key has too many characters for a few more guesses in parallel to matter.
     */
    async limited<T>(client: ClientInfo, enroll: () => Promise<T>): Promise<T> {
      const ip = countedAddress(client);
      // Everybody behind a proxy that nobody configured: a key cannot be guessed, so there is nothing to protect.
      if (ip === undefined) return enroll();
      // Not this machine itself, such as a simulated fleet.
      if (!isLoopback(ip)) await tries.take(ip);
      // Taking says when there is a point again.
      if (await failures.isSpent(ip)) await failures.take(ip);
      try {
        return await enroll();
      } catch (error) {
        if (error instanceof AppError && error.code === 'unauthenticated') await failures.take(ip);
        throw error;
      }
    },
  };
}

const isLoopback = (ip: string) => ip === '::1' || ip.startsWith('127.');
