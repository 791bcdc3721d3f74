import type { PublicContext } from '../../platform/context.ts';
import type { SsoProvider } from './sso.model.ts';
import { addressForm, emailDomain } from '../../email-address.ts';
import { inNfc } from '../../nfc.ts';
import { isStorableText } from '../../protocol/index.ts';

/** Reads the values that identity providers send: texts with blanks around them, numbers, lists, and addresses. Pure. */

const MAX_LENGTH = 255;

/**
 * The texts of a claim or an attribute, without the blanks around them: of a text, of a number, or of the entries of a
 * list. Values that are empty, too long, or cannot be stored are left out.
 */
export function assertedTexts(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).flatMap((entry) => {
    if (typeof entry !== 'string' && !Number.isFinite(entry)) return [];
    const text = inNfc(String(entry).trim());
    return text === '' || text.length > MAX_LENGTH || !isStorableText(text) ? [] : [text];
  });
}

/** The first of the values that is a mail address, in the form in which it is stored. */
export function firstAddress(values: readonly string[]): string | undefined {
  const address = values.find((value) => emailDomain(value) !== undefined);
  return address && addressForm(address);
}

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
 * The stored data of a sign-in, after the browser has returned. The row is deleted, so that it cannot be used again.
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
