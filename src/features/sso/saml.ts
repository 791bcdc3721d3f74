import { useAssertionOnce } from './sso.queries.ts';
import {
  AbstractStrategy,
  generateServiceProviderMetadata,
  SAML,
  type SamlConfig,
  ValidateInResponseTo,
  type VerifyWithoutRequest,
} from '@node-saml/passport-saml';
import { clock } from '../../clock.ts';
import { SsoFailure, loginPageUrl } from './sso-failure.ts';
import {
  CLOCK_SKEW_MS,
  MAX_ASSERTION_AGE_MS,
  type Expectations,
  type Assertion,
  checkAssertion,
  readResponse,
  identityOf,
  MAX_BASE64_LENGTH,
} from './saml-response.ts';
import { NAME_ID_FORMAT } from './saml-xml.ts';
import { randomBytes } from 'node:crypto';
import type { PublicContext } from '../../platform/context.ts';
import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { SsoProvider, SsoSession } from './sso.model.ts';
import type { SsoProtocol } from './sso-protocol.ts';
import { certificatesEnd, usableCertificates } from './saml-metadata.ts';
import { raw } from 'objection';
import { z } from 'zod';
import type { Tx } from '../../platform/db/transaction.ts';
import { Redirect } from '../../platform/http/file-answer.ts';

export interface SamlParts {
  fetch: Pick<GuardedFetch, 'assertPermitted'>;
  /** The name by which identity providers know this deployment. */
  entityId: () => string;
  /** The URL to which identity providers send their forms. */
  acsUrl: () => string;
}

/** Sign-in by SAML 2.0, web browser SSO profile (docs/decisions/sso-protocols.md). */
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
  const isFirst = await ctx.withSystem('remember an assertion that was used', (tx) =>
    useAssertionOnce(tx, { providerId: provider.id, hash: tokenHash(id), expiresAt }),
  );
  if (!isFirst) throw new SsoFailure('answer_replayed', 'the assertion was used before');
}

/** Muster as a service provider. */
export interface ServiceProvider {
  entityId: string;
  acsUrl: string;
}

/** One sign-in with one identity provider. */
export interface SamlSignIn extends ServiceProvider {
  ssoUrl: string;
  /** The certificates of the provider that are valid now, as PEM. */
  certificates: string[];
  requestId: string;
}

/** The URL to which the browser is redirected. It contains the AuthnRequest (HTTP-Redirect binding). */
export async function authnRequestUrl(signIn: SamlSignIn, relayState: string): Promise<string> {
  const outcome = await run(new SAML(configOf(signIn)), { query: { RelayState: relayState }, body: {} });
  if (outcome.url === undefined) throw new Error('The SAML strategy made no AuthnRequest.');
  return outcome.url;
}

/**
 * Makes node-saml's checks of a response, which include the signature, and our own.
 * @param check  receives the XML of the signed assertion, and nothing else; throws SsoFailure
 */
export async function verifyResponse<T>(
  signIn: SamlSignIn,
  xml: string,
  check: (assertionXml: string) => T,
): Promise<T> {
  const saml = new CheckingSaml(configOf(signIn), check);
  const body = { SAMLResponse: Buffer.from(xml).toString('base64') };
  try {
    await run(saml, { query: {}, body });
  } catch (error) {
    if (error instanceof SsoFailure) throw error;
    const detail = error instanceof Error ? error.message : String(error);
    throw new SsoFailure(saml.checked === undefined ? 'signature_invalid' : 'answer_invalid', detail, {
      cause: error,
    });
  }
  // node-saml accepts responses without an assertion, such as those to a logout.
  if (saml.checked === undefined) {
    throw new SsoFailure('answer_invalid', 'the response contains no assertion');
  }
  return saml.checked.result;
}

export const serviceProviderMetadata = ({ entityId, acsUrl }: ServiceProvider): string =>
  generateServiceProviderMetadata({
    issuer: entityId,
    callbackUrl: acsUrl,
    identifierFormat: NAME_ID_FORMAT.email,
    wantAssertionsSigned: true,
  });

/** Runs our checks after node-saml has verified the signature, and before it makes its other checks. */
class CheckingSaml<T> extends SAML {
  readonly #check: (assertionXml: string) => T;
  checked: { result: T } | undefined;

  constructor(config: SamlConfig, check: (assertionXml: string) => T) {
    super(config);
    this.#check = check;
  }

  protected override async processValidlySignedAssertionAsync(
    assertionXml: string,
    responseXml: string,
    inResponseTo: string | null,
  ) {
    this.checked = { result: this.#check(assertionXml) };
    return super.processValidlySignedAssertionAsync(assertionXml, responseXml, inResponseTo);
  }
}

/** Every option whose default is too lenient, or fails with some providers (docs/decisions/sso-protocols.md). */
function configOf({ entityId, acsUrl, ssoUrl, certificates, requestId }: SamlSignIn): SamlConfig {
  return {
    issuer: entityId,
    // `checkAssertion` checks it. node-saml compares the text with the blanks around it, and knows no several restrictions.
    audience: false,
    callbackUrl: acsUrl,
    entryPoint: ssoUrl,
    idpCert: certificates,
    generateUniqueId: () => requestId,
    // Without a Format, the provider sends the one that its administrator has chosen.
    identifierFormat: null,
    // Asking for a password would make providers refuse people who have no password, or a second factor.
    disableRequestedAuthnContext: true,
    signatureAlgorithm: 'sha256',
    wantAssertionsSigned: true,
    // Many providers sign only the assertion. Data outside the assertion is not trusted.
    wantAuthnResponseSigned: false,
    acceptedClockSkewMs: CLOCK_SKEW_MS,
    maxAssertionAgeMs: MAX_ASSERTION_AGE_MS,
    validateInResponseTo: ValidateInResponseTo.always,
    // Knows only the request of this sign-in. `sso_sessions` ensures that it is used once.
    cacheProvider: {
      saveAsync: async () => null,
      getAsync: async (id) => (id === requestId ? clock.date().toISOString() : null),
      removeAsync: async () => null,
    },
  };
}

/** The part of an Express request that the strategy reads. */
interface Message {
  query: object;
  body: object;
}

/**
 * Runs Passport's strategy for one message. Each message needs a new strategy, because Passport stores its state on it.
 */
function run(saml: SAML, message: Message): Promise<{ url?: string }> {
  return new Promise((resolve, reject) => {
    class OneMessage extends AbstractStrategy {
      static override readonly newSamlProviderOnConstruct = false;
      override redirect = (url: string) => resolve({ url });
      override success = () => resolve({});
      override pass = () => resolve({});
      override error = reject;
      override fail = () => reject(new Error('The strategy has refused the message.'));
    }
    const verify: VerifyWithoutRequest = (_profile, done) => done(null, {});
    const strategy = new OneMessage(saml.options, verify, verify);
    strategy._saml = saml;
    const step: { authenticate(message: Message, options: object): void } = strategy;
    step.authenticate(message, {});
  });
}

/**
 * A value that is not one text counts as missing, and not as an error: the browser must return to the dashboard in any
 * case.
 */
const Field = z.string().optional().catch(undefined);

/** The form that the browser brings from the identity provider (HTTP-POST binding). */
export const SamlForm = z.object({ SAMLResponse: Field, RelayState: Field }).catch({});
type SamlForm = z.output<typeof SamlForm>;

const STATE = /^[\w-]{1,64}$/;

const BASE64 = /^[A-Za-z0-9+/=\s]+$/;

/**
 * Stores a provider's response in the row of its sign-in, and redirects the browser to the callback. The form comes
 * from another site, so the browser does not send the state cookie (SameSite=Lax) with it. The browser sends the cookie
 * with the GET of the callback, and the response is checked there. If a form is sent twice, the first response is kept.
 */
export async function storeResponse(
  ctx: PublicContext,
  { SAMLResponse = '', RelayState: state = '' }: SamlForm,
  { baseUrl }: { baseUrl: () => string },
): Promise<Redirect> {
  const response =
    SAMLResponse.length <= MAX_BASE64_LENGTH && BASE64.test(SAMLResponse) ? SAMLResponse : null;
  const isKnown =
    STATE.test(state) &&
    (await ctx.withSystem('keep the answer of a SAML provider', (tx) => saveResponse(tx, state, response)));
  return new Redirect(
    isKnown
      ? `${baseUrl()}/api/v1/sso/callback?${new URLSearchParams({ state }).toString()}`
      : loginPageUrl(baseUrl(), new SsoFailure('session_unknown')),
  );
}

/** Returns whether such a sign-in is in progress. */
async function saveResponse(tx: Tx, state: string, response: string | null): Promise<boolean> {
  const parked = await SsoSession.query(tx)
    .where('state', state)
    .whereRaw('expires_at > now()')
    .whereIn('provider_id', SsoProvider.query(tx).select('id').where('type', 'saml'))
    .patch({ samlResponse: raw('coalesce(saml_response, ?)', [response]) });
  return parked > 0;
}
