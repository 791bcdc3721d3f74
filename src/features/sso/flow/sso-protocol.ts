import type { PublicContext } from '../../../platform/context.ts';
import type { SsoProvider } from '../providers/provider.model.ts';

/** What an identity provider has proved about a person. Everything in it was verified. */
export interface AssertedIdentity {
  /** `sub` or NameID: stable and unique within the provider. At most 255 characters. */
  subject: string;
  /** As the provider spells it; undefined where it names none. */
  email: string | undefined;
  /** Undefined where the provider does not say. From the same document as the address. */
  emailVerified: boolean | undefined;
  name: string | undefined;
  /** The provider says that a second factor was used. */
  mfa: boolean;
  /** All claims or attributes, as they are stored with the link. */
  profile: Record<string, unknown>;
  /** Absent with SAML. */
  tokens?: { accessToken: string; refreshToken: string | undefined; expiresAt: Date | undefined };
}

/** What a sign-in keeps between its two halves. */
export interface StartedSignIn {
  /** Where the browser goes next: at the identity provider. */
  url: string;
  /** OpenID Connect: the nonce. SAML: the ID of the AuthnRequest. At most 64 characters. */
  nonce: string;
  codeVerifier: string | null;
}

/** The part of a sign-in session that the second half gets back; it was deleted, so it cannot be used again. */
export interface ConsumedSignIn {
  state: string;
  nonce: string;
  codeVerifier: string | null;
  /** SAML: what the identity provider's form held, base64. */
  samlResponse: string | null;
}

/** One of the two protocols. Both halves throw `SsoFailure`, and work outside of any transaction. */
export interface SsoProtocol {
  begin(provider: SsoProvider, state: string): Promise<StartedSignIn>;
  /** @param query  of the callback, as it came: values may be missing, or arrays. */
  finish(
    ctx: PublicContext,
    provider: SsoProvider,
    signIn: ConsumedSignIn,
    query: Readonly<Record<string, unknown>>,
  ): Promise<AssertedIdentity>;
}
