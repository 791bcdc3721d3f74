import { randomBytes } from 'node:crypto';
import { clock } from '../../../clock.ts';
import type { PublicContext } from '../../../platform/context.ts';
import type { GuardedFetch } from '../../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../../platform/outbound/outbound-error.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import type { SsoProtocol } from '../flow/sso-protocol.ts';
import { authnRequestUrl, type SamlSignIn, verifyResponse } from './adapter.ts';
import { type Assertion, checkAssertion } from './assertion.ts';
import { certificatesEnd, usableCertificates } from './certificate.ts';
import type { Expectations } from './expectations.ts';
import { identityOf } from './identity.ts';
import { readResponse } from './response.ts';

export interface SamlParts {
  fetch: Pick<GuardedFetch, 'assertPermitted'>;
  /** The name by which identity providers know this deployment. */
  entityId: () => string;
  /** The URL to which identity providers send their forms. */
  acsUrl: () => string;
}

/** Sign-in by SAML 2.0, web browser SSO profile (docs/decisions/sso-saml.md). */
export function createSamlProtocol({ fetch: outbound, entityId, acsUrl }: SamlParts): SsoProtocol {
  const ourselves = () => ({ entityId: entityId(), acsUrl: acsUrl() });
  return {
    async begin(provider, state) {
      const { ssoUrl, certificates } = settingsOf(provider, clock.date());
      await assertReachable(outbound, ssoUrl);
      // Begins with a letter or `_`, as an ID of XML has to.
      const requestId = `_${randomBytes(20).toString('hex')}`;
      const signIn: SamlSignIn = { ...ourselves(), ssoUrl, certificates, requestId };
      return { url: await authnRequestUrl(signIn, state), nonce: requestId, codeVerifier: null };
    },

    async finish(ctx, provider, { nonce: requestId, samlResponse }) {
      const now = clock.date();
      const { issuer, ssoUrl, certificates } = settingsOf(provider, now);
      const signIn: SamlSignIn = { ...ourselves(), ssoUrl, certificates, requestId };
      const expected: Expectations = {
        audience: signIn.entityId,
        acsUrl: signIn.acsUrl,
        issuer,
        requestId,
        now,
      };
      const xml = readResponse(samlResponse, expected);
      const assertion = await verifyResponse(signIn, xml, (signed) => checkAssertion(signed, expected));
      const identity = identityOf(assertion, provider.attributeMapping);
      await useOnce(ctx, provider, assertion);
      return identity;
    },
  };
}

function settingsOf({ entityId, ssoUrl, certificate }: SsoProvider, now: Date) {
  if (entityId === null || ssoUrl === null || certificate === null) {
    throw new SsoFailure('not_configured', 'the entity ID, the SSO URL or the certificate is missing');
  }
  const certificates = usableCertificates(certificate, now);
  if (certificates.length === 0) {
    const end = certificatesEnd(certificate);
    throw end !== undefined && end <= now
      ? new SsoFailure('certificate_expired', `the last certificate expired on ${end.toISOString()}`)
      : new SsoFailure('not_configured', 'no certificate can be used');
  }
  return { issuer: entityId, ssoUrl, certificates };
}

/** Only the browser opens the SSO URL, but it must not be redirected into the operator's network either (SPEC 4.8). */
async function assertReachable(outbound: SamlParts['fetch'], ssoUrl: string): Promise<void> {
  try {
    await outbound.assertPermitted(ssoUrl);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw new SsoFailure('provider_unreachable', `the SSO URL: ${error.reason}`);
  }
}

/** Each sign-in is used once anyway. This also refuses an assertion that the provider has issued for two sign-ins. */
async function useOnce(
  ctx: PublicContext,
  provider: SsoProvider,
  { id, expiresAt }: Assertion,
): Promise<void> {
  const inserted = await ctx.withSystem('remember an assertion that was used', (tx) =>
    tx('saml_used_assertions')
      .insert({ provider_id: provider.id, assertion_hash: tokenHash(id), expires_at: expiresAt })
      .onConflict()
      .ignore()
      .returning('provider_id'),
  );
  if (inserted.length === 0) throw new SsoFailure('answer_replayed', 'the assertion was used before');
}
