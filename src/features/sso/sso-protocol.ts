import type { PublicContext } from '../../../platform/context.ts';
import type { SsoProvider } from '../providers/provider.model.ts';

/** The verified data of an identity provider about a person. */
export interface AssertedIdentity {
  /** `sub` or NameID: stable and unique within the provider. At most 255 characters. */
  subject: string;
  /** With the provider's capitalization. Undefined if the provider sends none. */
  email: string | undefined;
  /** Undefined if the provider does not say it. `true` comes from the document that contains the address. */
  emailVerified: boolean | undefined;
  name: string | undefined;
  /** True if the provider reports a second factor. */
  mfa: boolean;
  /** All claims or attributes, to be stored with the link. */
  profile: Record<string, unknown>;
  /** Absent with SAML. */
  tokens?: { accessToken: string; refreshToken: string | undefined; expiresAt: Date | undefined };
}

/** A sign-in that has begun. `nonce` and `codeVerifier` are stored until the browser returns. */
export interface StartedSignIn {
  /** The URL at the identity provider to which the browser is sent. */
  url: string;
  /** OpenID Connect: the nonce. SAML: the ID of the AuthnRequest. At most 64 characters. */
  nonce: string;
  codeVerifier: string | null;
}

/**
 * The stored data of a sign-in, after the browser has returned. The row is deleted, so that nobody can use it again.
 */
export interface ConsumedSignIn {
  state: string;
  nonce: string;
  codeVerifier: string | null;
  /** SAML: the response from the identity provider's form, in base64. */
  samlResponse: string | null;
}

/**
 * One of the two protocols. Both methods throw `SsoFailure`, and run outside any transaction because they use the
 * network.
 */
export interface SsoProtocol {
  begin(provider: SsoProvider, state: string): Promise<StartedSignIn>;
  /** @param query  the unchecked query of the callback: values may be missing, or arrays */
  finish(
    ctx: PublicContext,
    provider: SsoProvider,
    signIn: ConsumedSignIn,
    query: Readonly<Record<string, unknown>>,
  ): Promise<AssertedIdentity>;
}
