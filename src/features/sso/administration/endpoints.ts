import type { DetachedContext } from '../../../platform/context.ts';
import { invalid } from '../../../platform/errors.ts';
import { OutboundError } from '../../../platform/outbound/outbound-error.ts';
import { type Discovered, discover } from '../oidc/discovery.ts';
import type { ProviderFetch } from '../oidc/provider-call.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import type { ProviderChange } from './provider.schema.ts';

/** What a change of a provider asks the network for: before the transaction, so that none waits for it. */

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
 * Throws where an endpoint that somebody has set by hand may not be reached.
 * @param stored  the present endpoints: one that has vanished must not stand in the way of other changes
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

/** The endpoints of a new provider; undefined, with a warning in the log, where the issuer does not answer (SPEC 4.8). */
export async function discoverNew(
  { log }: Pick<DetachedContext, 'log'>,
  outbound: ProviderFetch,
  issuer: string,
): Promise<Discovered | undefined> {
  try {
    return await discover(outbound, issuer);
  } catch (error) {
    if (!(error instanceof SsoFailure)) throw error;
    // Nobody can ever reach such a URL, so that it is a mistake in the request.
    await outbound.assertPermitted(issuer).catch((refusal: unknown) => {
      if (refusal instanceof OutboundError && refusal.reason === 'url_refused') {
        throw invalid('body.issuer', refusal.message);
      }
    });
    log.warn({ err: error, host: new URL(issuer).host }, 'sso.discovery_failed');
    return undefined;
  }
}

/** Whether a change needs the issuer's answer: the issuer is another one, or endpoints would be missing. */
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

/** What an administrator may know of a failure: nothing of what the other side has sent. */
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
