import type { DetachedContext } from '../../../platform/context.ts';
import { invalid } from '../../../platform/errors.ts';
import { OutboundError } from '../../../platform/outbound/outbound-error.ts';
import { type Discovered, discover } from '../oidc/discovery.ts';
import type { ProviderFetch } from '../oidc/provider-call.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import type { ProviderChange } from './provider.schema.ts';

/** The network requests of a change. They are made before its transaction, so that no transaction waits for them. */

const ENDPOINTS = ['authorizationUrl', 'tokenUrl', 'userInfoUrl', 'jwksUrl'] as const;
type Endpoints = Pick<ProviderChange, (typeof ENDPOINTS)[number]>;

export const endpointsOf = ({
  authorizationUrl,
  tokenUrl,
  userinfoUrl,
  jwksUrl,
}: SsoProvider): Endpoints => ({
  authorizationUrl,
  tokenUrl,
  userInfoUrl: userinfoUrl,
  jwksUrl,
});

/**
 * Throws if this server must not connect to an endpoint that is set by hand.
 * @param stored  the stored endpoints, which are not checked again: an unreachable one must not block other changes
 */
export async function assertEndpointsPermitted(
  outbound: ProviderFetch,
  endpoints: Endpoints,
  stored: Endpoints = {},
): Promise<void> {
  await Promise.all(
    ENDPOINTS.map(async (name) => {
      const url = endpoints[name];
      if (typeof url === 'string' && url !== stored[name]) await assertPermitted(outbound, name, url);
    }),
  );
}

async function assertPermitted(outbound: ProviderFetch, name: string, url: string): Promise<void> {
  try {
    await outbound.assertPermitted(url);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw invalid(`body.${name}`, error.message);
  }
}

/** Discovers the endpoints of a new provider. If that fails, logs a warning and returns undefined (SPEC 4.8). */
export async function discoverNew(
  { log }: Pick<DetachedContext, 'log'>,
  outbound: ProviderFetch,
  issuer: string,
): Promise<Discovered | undefined> {
  try {
    return await discover(outbound, issuer);
  } catch (error) {
    if (!(error instanceof SsoFailure)) throw error;
    // A URL of a form that is never allowed is a mistake in the request.
    await outbound.assertPermitted(issuer).catch((refusal: unknown) => {
      if (refusal instanceof OutboundError && refusal.reason === 'url_refused') {
        throw invalid('body.issuer', refusal.message);
      }
    });
    log.warn({ err: error, host: new URL(issuer).host }, 'sso.discovery_failed');
    return undefined;
  }
}

/** Whether a change needs discovery, because the issuer changes or an endpoint would be missing. */
export function needsDiscovery(provider: SsoProvider, change: ProviderChange): boolean {
  if (provider.type !== 'oidc' || typeof change.issuer !== 'string') return false;
  const isComplete = (['authorizationUrl', 'tokenUrl', 'jwksUrl'] as const).every(
    (name) => (change[name] === undefined ? provider[name] : change[name]) !== null,
  );
  return change.issuer !== provider.issuer || !isComplete;
}

export async function discoverAgain(
  { log }: Pick<DetachedContext, 'log'>,
  outbound: ProviderFetch,
  issuer: string,
): Promise<Discovered> {
  try {
    return await discover(outbound, issuer);
  } catch (error) {
    if (!(error instanceof SsoFailure)) throw error;
    log.warn({ err: error, host: new URL(issuer).host }, 'sso.discovery_failed');
    throw invalid('body.issuer', failureSentence(error), 'OIDC discovery failed');
  }
}

/** Describes a failure for an administrator, without data that the identity provider has sent. */
export function failureSentence({ reason }: SsoFailure): string {
  switch (reason) {
    case 'provider_unreachable':
      return 'The identity provider could not be reached.';
    case 'issuer_mismatch':
      return 'The discovery document of the identity provider names another issuer.';
    default:
      return 'The identity provider’s answer could not be used.';
  }
}
