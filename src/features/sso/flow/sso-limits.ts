import type { RateLimits } from '../../../platform/cluster/rate-limits.ts';
import type { ClientInfo } from '../../../platform/context.ts';
import { addressLimiter } from '../../../platform/http/address-limits.ts';
import { countedAddress } from '../../../platform/http/client-address.ts';

/** How often one network may use each public route. A whole office begins its day behind one address. */
const REQUESTS = { points: 300, seconds: 60 };
/** Fewer, because a large SAML answer takes up to 0.2 s to check, before its signature says whose it is. */
const CALLBACKS = { points: 150, seconds: 60 };
/** Look-ups in the DNS that people of one organization ask for. */
const DOMAIN_CHECKS = { points: 30, seconds: 600 };
/** Links that one person begins: each keeps a row for some minutes. */
const LINK_STARTS = { points: 20, seconds: 600 };

export type SsoLimits = ReturnType<typeof ssoLimits>;

export function ssoLimits(limits: RateLimits) {
  const counted = (name: string, limit = REQUESTS) => {
    const limiter = addressLimiter(limits, name, limit);
    return async (client: ClientInfo): Promise<void> => {
      const address = countedAddress(client);
      if (address !== undefined) await limiter.take(address);
    };
  };
  return {
    check: counted('sso-check'),
    login: counted('sso-login'),
    callback: counted('sso-callback', CALLBACKS),
    acs: counted('sso-acs', CALLBACKS),
    exchange: counted('sso-exchange'),
    loginContext: counted('login-context'),
    /** By organization. */
    domainChecks: limits.limiter('sso-domain-checks', DOMAIN_CHECKS),
    /** By person. */
    linkStarts: limits.limiter('sso-link-starts', LINK_STARTS),
  };
}
