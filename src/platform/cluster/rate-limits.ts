import { createHash } from 'node:crypto';
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import { AppError } from '../errors.ts';
import type { RedisConnection } from './redis-connection.ts';

/** So many points within so many seconds. */
export interface Limit {
  points: number;
  seconds: number;
}

/** Refuses what was done too often. Throws `unavailable` while the count cannot be read. */
export interface RateLimiter {
  /** Takes a point, or throws `rate_limited` with the time after which there is one again. */
  take(key: string): Promise<void>;
  /** Returns a point that was taken for a request that turned out to be harmless. */
  giveBack(key: string): Promise<void>;
  /** Whether there is no point left, without taking one. */
  isSpent(key: string): Promise<boolean>;
  forget(key: string): Promise<void>;
}

/** Counts without a limit; the caller decides what is too much. While Redis is away it counts within this process. */
export interface Counter {
  count(key: string): Promise<{ count: number; msBeforeNext: number }>;
}

/** Creates limiters and counters: on Redis, where all nodes count together, or within this process. */
export interface RateLimits {
  limiter(name: string, limit: Limit): RateLimiter;
  counter(name: string, seconds: number): Counter;
}

export function createRateLimits(redis: RedisConnection | undefined): RateLimits {
  const inProcess = (name: string, { points, seconds: duration }: Limit) =>
    new RateLimiterMemory({ keyPrefix: name, points, duration });
  const onRedis = ({ client }: RedisConnection, name: string, { points, seconds: duration }: Limit) =>
    new RateLimiterRedis({
      storeClient: client,
      rejectIfRedisNotReady: true,
      keyPrefix: `muster:limit:${name}`,
      points,
      duration,
    });
  return {
    limiter: (name, limit) =>
      refusing(redis === undefined ? inProcess(name, limit) : onRedis(redis, name, limit)),
    counter(name, seconds) {
      const limit = { points: Number.MAX_SAFE_INTEGER, seconds };
      return counting(inProcess(name, limit), redis === undefined ? undefined : onRedis(redis, name, limit));
    },
  };
}

/** Keys are e-mail addresses and the like, which have no business in the store: there they are hashed. */
const stored = (key: string) => createHash('sha256').update(key).digest('base64url');

function refusing(limiter: RateLimiterMemory | RateLimiterRedis): RateLimiter {
  return {
    async take(key) {
      const reason: unknown = await limiter.consume(stored(key)).then(
        () => undefined,
        (refused: unknown) => refused,
      );
      if (reason === undefined) return;
      if (!(reason instanceof RateLimiterRes)) throw storeIsAway(reason);
      throw new AppError('rate_limited', 'Too many attempts. Try again later.', {
        retryAfterMs: reason.msBeforeNext,
      });
    },
    async isSpent(key) {
      const state = await limiter.get(stored(key)).catch((reason: unknown) => {
        throw storeIsAway(reason);
      });
      return state !== null && state.remainingPoints <= 0;
    },
    // A point that cannot be returned stays taken until it expires. The request does not fail because of that.
    async giveBack(key) {
      await limiter.reward(stored(key)).catch(() => undefined);
    },
    async forget(key) {
      await limiter.delete(stored(key)).catch(() => undefined);
    },
  };
}

/** Fail closed: without Redis the count is unknown, so the action is refused. */
function storeIsAway(cause: unknown): AppError {
  return new AppError('unavailable', 'Service temporarily unavailable', { cause, retryAfterMs: 5000 });
}

/**
 * This process counts along, so that a loss of Redis finds it at what it has seen so far, and not at nothing. While
 * Redis answers its word counts, which has seen all nodes.
 */
function counting(own: RateLimiterMemory, shared: RateLimiterRedis | undefined): Counter {
  return {
    async count(key) {
      const ownResult = await own.consume(stored(key));
      const result = await shared?.consume(stored(key)).catch(() => undefined);
      const { consumedPoints, msBeforeNext } = result ?? ownResult;
      return { count: consumedPoints, msBeforeNext };
    },
  };
}
