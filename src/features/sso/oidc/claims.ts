import { z } from 'zod';
import { isStorableText, storableObject, UNSTORABLE_RULE } from '../../../protocol/index.ts';
import type { AttributeMapping } from '../providers/attribute-mapping.ts';
import type { AssertedIdentity } from '../flow/sso-protocol.ts';
import { isMultiFactor } from './second-factor.ts';

/** Claims of one document, an ID token or an answer of the userinfo endpoint, and whom they are about. */
export const Claims = z.looseObject({
  sub: z.string().min(1).max(255).refine(isStorableText, UNSTORABLE_RULE),
});
export type Claims = z.output<typeof Claims>;

const MAX_LENGTH = 255;

/**
 * Who somebody is, by the claims that the provider's mapping names. Both documents are about the same subject. What the
 * ID token says counts before what the userinfo endpoint says.
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
 * Whether an address is verified; undefined where the provider does not say. `email_verified` is about the claim `email`
 * of its own document. It vouches for no other, such as a `preferred_username` that people choose themselves. A denial
 * counts wherever it stands.
 */
function isVerified(email: string, documents: readonly Claims[], claim: string): boolean | undefined {
  if (documents.some((document) => flagOf(document) === false)) return false;
  const source = documents.find((document) => textOf(document, claim) === email);
  const isAbout = source !== undefined && textOf(source, 'email')?.toLowerCase() === email.toLowerCase();
  return isAbout ? flagOf(source) : undefined;
}

/** `email_verified`, which some providers send as text. What is neither true nor absent is a denial. */
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
