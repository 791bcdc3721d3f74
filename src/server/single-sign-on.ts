import {
  createLoginContexts,
  createOidcProtocol,
  createSamlProtocol,
  createStartSignIn,
  ssoLimits,
  stateCookie,
} from '../features/sso/index.ts';
import { createMac } from '../platform/secrets/mac.ts';
import type { Infrastructure } from './infrastructure.ts';

/** What the routes of single sign-on share: both protocols, the cookie that binds a sign-in to its browser, and limits. */
export function createSingleSignOn({
  baseUrl,
  config,
  database,
  rateLimits,
  secretKeys,
  secrets,
  ssoFetch,
}: Infrastructure) {
  const at = (path: string) => () => `${baseUrl()}/api/v1/sso/${path}`;
  const saml = {
    fetch: ssoFetch,
    entityId: () => config.samlEntityId ?? at('saml/metadata')(),
    acsUrl: at('saml/acs'),
  };
  const protocols = {
    oidc: createOidcProtocol({ fetch: ssoFetch, sealer: secrets, callbackUrl: at('callback') }),
    saml: createSamlProtocol(saml),
  };
  return {
    saml,
    protocols,
    stateCookie: stateCookie({
      mac: createMac(secretKeys, 'state of a sign-in'),
      secureCookies: config.secureCookies,
    }),
    startSignIn: createStartSignIn({ db: database.pool, protocols }),
    ssoLimits: ssoLimits(rateLimits),
    loginContexts: createLoginContexts({ isSelfHosted: config.isSelfHosted, baseUrl }),
  };
}
