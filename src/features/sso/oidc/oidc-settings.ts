import type { Sealer } from '../../../platform/secrets/sealed.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import { clientSecretContext } from '../sealed-columns.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import type { Endpoints } from './discovery.ts';

/** The settings of a provider that a sign-in needs. All are present. */
export interface OidcSettings extends Endpoints, Pick<SsoProvider, 'sendsIssuer' | 'tokenAuthMethod'> {
  issuer: string;
  clientId: string;
  clientSecret: string;
  /** Without `openid`, which is always requested. */
  scopes: string[];
}

/** @throws SsoFailure `not_configured` */
export function oidcSettings(provider: SsoProvider, sealer: Sealer): OidcSettings {
  const { issuer, clientId, clientSecret, authorizationUrl, tokenUrl, userinfoUrl, jwksUrl } = provider;
  if (!issuer || !clientId || !clientSecret || !authorizationUrl || !tokenUrl || !jwksUrl) {
    throw new SsoFailure('not_configured', 'Provider is not fully configured');
  }
  return {
    issuer,
    clientId,
    clientSecret: sealer.open(clientSecret, clientSecretContext(provider.id)).text,
    authorizationUrl,
    tokenUrl,
    userinfoUrl: userinfoUrl === '' ? null : userinfoUrl,
    jwksUrl,
    sendsIssuer: provider.sendsIssuer,
    tokenAuthMethod: provider.tokenAuthMethod,
    scopes: provider.scopes.split(/\s+/).filter((scope) => scope !== '' && scope !== 'openid'),
  };
}
