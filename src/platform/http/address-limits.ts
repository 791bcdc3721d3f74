import type { Limit, RateLimiter, RateLimits } from '../cluster/rate-limits.ts';
import type { ClientInfo } from '../context.ts';
import { countedAddress, networkOf } from './client-address.ts';

/** As many times as much for the /48 of a site, which has 65,536 networks to come from, as for one of them. */
const SITE_FACTOR = 16;

export type AddressLimiter = Pick<RateLimiter, 'take' | 'giveBack' | 'isSpent'>;

/** The limit of everything that is counted by where it comes from: the keys are addresses. */
export function addressLimiter(limits: RateLimits, name: string, limit: Limit): AddressLimiter {
  const networks = limits.limiter(name, limit);
  const sites = limits.limiter(`${name}-site`, { ...limit, points: limit.points * SITE_FACTOR });
  return {
    async take(ip) {
      await networks.take(networkOf(ip));
      if (hasSite(ip)) await sites.take(networkOf(ip, 48));
    },
    async giveBack(ip) {
      await networks.giveBack(networkOf(ip));
      if (hasSite(ip)) await sites.giveBack(networkOf(ip, 48));
    },
    async isSpent(ip) {
      return (
        (await networks.isSpent(networkOf(ip))) || (hasSite(ip) && (await sites.isSpent(networkOf(ip, 48))))
      );
    },
  };
}

const hasSite = (ip: string): boolean => networkOf(ip) !== networkOf(ip, 48);

/**
 * How often one network may ask for something, for `before` of a route. Clients whose address nobody knows, because they
 * are behind a proxy that is not configured, are not counted: the first of them would stop all others.
 */
export function clientLimit(
  limits: RateLimits,
  name: string,
  limit: Limit,
): (client: ClientInfo) => Promise<void> {
  const limiter = addressLimiter(limits, name, limit);
  return async (client) => {
    const address = countedAddress(client);
    if (address !== undefined) await limiter.take(address);
  };
}
