import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { AppError } from '../errors.ts';

/** So many points within so many seconds. */
export interface Limit {
  points: number;
  seconds: number;
}

/** Counts what may be done only so often. One process counts for itself; several will count together on Redis. */
export interface RateLimiter {
  /** Takes a point, or throws `rate_limited` with the time after which there is one again. */
  take(key: string): Promise<void>;
  /** Gives a point back: it was taken for something that turned out to be harmless. */
  giveBack(key: string): Promise<void>;
  /** Whether there is no point left, without taking one. */
  isSpent(key: string): Promise<boolean>;
  forget(key: string): Promise<void>;
}

export function rateLimiter(name: string, limit: Limit): RateLimiter {
  const limiter = new RateLimiterMemory({ keyPrefix: name, points: limit.points, duration: limit.seconds });
  return {
    async take(key) {
      try {
        await limiter.consume(key);
      } catch (reason) {
        if (!(reason instanceof RateLimiterRes)) {
          // The store does not answer: closed rather than open.
          throw new AppError('unavailable', 'Service temporarily unavailable', {
            cause: reason,
            retryAfterMs: 5000,
          });
        }
        throw new AppError('rate_limited', 'Too many attempts. Try again later.', {
          retryAfterMs: reason.msBeforeNext,
        });
      }
    },
    async giveBack(key) {
      await limiter.reward(key);
    },
    async isSpent(key) {
      const state = await limiter.get(key);
      return state !== null && state.remainingPoints <= 0;
    },
    async forget(key) {
      await limiter.delete(key);
    },
  };
}
