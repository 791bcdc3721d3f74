import {
  AbstractStrategy,
  generateServiceProviderMetadata,
  SAML,
  type SamlConfig,
  ValidateInResponseTo,
  type VerifyWithoutRequest,
} from '@node-saml/passport-saml';
import { SsoFailure } from '../flow/sso-failure.ts';
import { CLOCK_SKEW_MS, MAX_ASSERTION_AGE_MS } from './expectations.ts';
import { NAME_ID_FORMAT } from './names.ts';

/** Ourselves, as identity providers know us. */
export interface ServiceProvider {
  entityId: string;
  acsUrl: string;
}

/** One sign-in with one identity provider. */
export interface SamlSignIn extends ServiceProvider {
  ssoUrl: string;
  /** PEM: those that are valid now. */
  certificates: string[];
  requestId: string;
}

/** The address that the browser goes to, with the AuthnRequest in it (HTTP-Redirect binding). */
export async function authnRequestUrl(signIn: SamlSignIn, relayState: string): Promise<string> {
  const outcome = await run(new SAML(configOf(signIn)), { query: { RelayState: relayState }, body: {} });
  if (outcome.url === undefined) throw new Error('The SAML strategy made no AuthnRequest.');
  return outcome.url;
}

/**
 * Checks the signature of a response, and what else node-saml checks.
 * @param check  of the XML of the assertion that was signed, and of nothing beside it; throws SsoFailure
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
  // Nothing was signed, as in the answer to a logout.
  if (saml.checked === undefined)
    throw new SsoFailure('answer_invalid', 'the response contains no assertion');
  return saml.checked.result;
}

export const serviceProviderMetadata = ({ entityId, acsUrl }: ServiceProvider): string =>
  generateServiceProviderMetadata({
    issuer: entityId,
    callbackUrl: acsUrl,
    identifierFormat: NAME_ID_FORMAT.email,
    wantAssertionsSigned: true,
  });

/** Hands the assertion over between the check of its signature and all other checks of node-saml. */
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

/** Every option whose default is too lenient, or fails with some providers (docs/decisions/sso-saml.md). */
function configOf({ entityId, acsUrl, ssoUrl, certificates, requestId }: SamlSignIn): SamlConfig {
  return {
    issuer: entityId,
    audience: entityId,
    callbackUrl: acsUrl,
    entryPoint: ssoUrl,
    idpCert: certificates,
    generateUniqueId: () => requestId,
    // No Format, so that the provider sends the one that its administrator has chosen.
    identifierFormat: null,
    // Asking for a password would make providers refuse people who have no password, or a second factor.
    disableRequestedAuthnContext: true,
    signatureAlgorithm: 'sha256',
    wantAssertionsSigned: true,
    // Many providers sign the assertion only; nothing outside of it is believed.
    wantAuthnResponseSigned: false,
    acceptedClockSkewMs: CLOCK_SKEW_MS,
    maxAssertionAgeMs: MAX_ASSERTION_AGE_MS,
    validateInResponseTo: ValidateInResponseTo.always,
    // The one request that this sign-in has made. That it is used once is the matter of `sso_sessions`.
    cacheProvider: {
      saveAsync: async () => null,
      getAsync: async (id) => (id === requestId ? new Date().toISOString() : null),
      removeAsync: async () => null,
    },
  };
}

/** All that the strategy reads of a request of Express. */
interface Message {
  query: object;
  body: object;
}

/** Passport's strategy, for one message: it keeps what it is doing on itself. */
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
