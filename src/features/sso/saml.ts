import {
  AbstractStrategy,
  generateServiceProviderMetadata,
  SAML,
  type SamlConfig,
  ValidateInResponseTo,
  type VerifyWithoutRequest,
} from '@node-saml/passport-saml';
import { clock } from '../../../clock.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import { CLOCK_SKEW_MS, MAX_ASSERTION_AGE_MS } from './expectations.ts';
import { NAME_ID_FORMAT } from './names.ts';

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

/** Every option whose default is too lenient, or fails with some providers (docs/decisions/sso-saml.md). */
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
