import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { clientLimit } from '../../platform/http/client-address.ts';

/** The limit of each public route for one network. It is high because a whole office may sign in from one address. */
const REQUESTS = { points: 300, seconds: 60 };
/** Lower, because checking a large SAML response, which any client can send, takes up to 0.2 s of CPU time. */
const CALLBACKS = { points: 150, seconds: 60 };
/** DNS look-ups that the people of one organization request. */
const DOMAIN_CHECKS = { points: 30, seconds: 600 };
/** Links that one person begins. Each stores a row for some minutes. */
const LINK_STARTS = { points: 20, seconds: 600 };

export type SsoLimits = ReturnType<typeof ssoLimits>;

export function ssoLimits(limits: RateLimits) {
  const counted = (name: string, limit = REQUESTS) => clientLimit(limits, name, limit);
  return {
    check: counted('sso-check'),
    login: counted('sso-login'),
    callback: counted('sso-callback', CALLBACKS),
    acs: counted('sso-acs', CALLBACKS),
    exchange: counted('sso-exchange'),
    loginContext: counted('login-context'),
    metadata: counted('saml-metadata'),
    /** Counted for each organization. */
    domainChecks: limits.limiter('sso-domain-checks', DOMAIN_CHECKS),
    /** Counted for each person. */
    linkStarts: limits.limiter('sso-link-starts', LINK_STARTS),
  };
}
