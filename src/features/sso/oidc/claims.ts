import { z } from 'zod';
import { isStorableText, storableObject, UNSTORABLE_RULE } from '../../../protocol/index.ts';
import type { AttributeMapping } from '../providers/attribute-mapping.ts';
import type { AssertedIdentity } from '../flow/sso-protocol.ts';
import { isMultiFactor } from './second-factor.ts';

/** The claims of an ID token or of a userinfo response, with their subject. */
export const Claims = z.looseObject({
  sub: z.string().min(1).max(255).refine(isStorableText, UNSTORABLE_RULE),
});
export type Claims = z.output<typeof Claims>;

const MAX_LENGTH = 255;

/**
 * Reads the identity of a person from the claims that the provider's mapping names. Both documents must have the same
 * subject. The ID token has priority over the userinfo response.
 */
export function identityFrom(
  { idToken, userinfo }: { idToken: Claims | undefined; userinfo: Claims | undefined },
  mapping: AttributeMapping,
): Omit<AssertedIdentity, 'tokens'> {
  const documents = [idToken, userinfo].filter((document) => document !== undefined);
  const [first] = documents;
  if (first === undefined) throw new Error('There are no claims.');
  const text = (claim: string | undefined) =>
    documents.map((document) => textOf(document, claim)).find((value) => value !== undefined);
  const email = text(mapping.email);
  const fullName = [text(mapping.firstName), text(mapping.lastName)].filter((part) => part !== undefined);
  return {
    subject: first.sub,
    email,
    emailVerified: email === undefined ? undefined : isVerified(email, documents, mapping.email),
    name: text(mapping.name) ?? (fullName.length === 0 ? undefined : fullName.join(' ').slice(0, MAX_LENGTH)),
    mfa: idToken !== undefined && isMultiFactor(idToken),
    profile: storableObject({ ...userinfo, ...idToken }),
  };
}

/**
 * Whether an address is verified. Undefined if the provider does not say. `email_verified` refers to the claim `email`
 * of the same document, and to no other claim, such as a `preferred_username` that people choose themselves. If either
 * document says that the address is not verified, the result is false.
 */
function isVerified(email: string, documents: readonly Claims[], claim: string): boolean | undefined {
  if (documents.some((document) => flagOf(document) === false)) return false;
  const source = documents.find((document) => textOf(document, claim) === email);
  const isAbout = source !== undefined && textOf(source, 'email')?.toLowerCase() === email.toLowerCase();
  return isAbout ? flagOf(source) : undefined;
}

/**
 * Reads `email_verified`, which some providers send as text. A value that is present counts as false unless it is true.
 */
function flagOf(document: Claims): boolean | undefined {
  const value = document.email_verified;
  if (value === undefined || value === null) return undefined;
  return value === true || (typeof value === 'string' && value.toLowerCase() === 'true');
}

function textOf(document: Claims, claim: string | undefined): string | undefined {
  const value = claim === undefined ? undefined : document[claim];
  if (typeof value !== 'string' || !isStorableText(value)) return undefined;
  const text = value.trim();
  return text === '' || text.length > MAX_LENGTH ? undefined : text;
}
