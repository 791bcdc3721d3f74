import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { AppError } from '../../platform/errors.ts';

/** Bad keys from one address. */
const FAILURES = { points: 30, seconds: 300 };
/** All tries from one address: a school behind one address can bring in hundreds of machines in an afternoon. */
const TRIES = { points: 1200, seconds: 3600 };

export type EnrollLimits = ReturnType<typeof enrollLimits>;

export function enrollLimits(limits: RateLimits) {
  const failures = limits.limiter('enroll-failure', FAILURES);
  const tries = limits.limiter('enroll-try', TRIES);

  return {
    /**
     * Lets an address try to enroll, unless it has tried too often. Throws `rate_limited`. A failure is counted when it
     * is one, not before as with passwords: many machines that enroll at once would be taken for many bad keys, and a
     * key has too many characters for a few more guesses in parallel to matter.
     */
    async limited<T>(ip: string, enroll: () => Promise<T>): Promise<T> {
      // This machine itself, such as a simulated fleet; or a proxy that nobody has named, behind which everybody is.
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
