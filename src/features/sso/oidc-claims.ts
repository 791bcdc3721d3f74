import { z } from 'zod';
import { addressKey } from '../../../email-address.ts';
import { isStorableText, storableObject, UNSTORABLE_RULE } from '../../../protocol/index.ts';
import type { AttributeMapping } from '../providers/attribute-mapping.ts';
import { assertedTexts, firstAddress } from '../flow/asserted-text.ts';
import type { AssertedIdentity } from '../flow/sso-protocol.ts';
import { isMultiFactor } from './second-factor.ts';

/**
 * The claims of an ID token or of a userinfo response, with their subject. Some providers send the subject as a number.
 */
export const Claims = z.looseObject({
  sub: z
    .union([z.string(), z.int().transform(String)])
    .pipe(z.string().trim().min(1))
    .pipe(z.string().max(255).refine(isStorableText, UNSTORABLE_RULE)),
});
export type Claims = z.output<typeof Claims>;

const MAX_LENGTH = 255;

/** Where providers that send no `email` put the address of a person. A value without the form of an address is none. */
const SIGN_IN_NAMES = ['upn', 'preferred_username'];

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
  const texts = (claim: string | undefined) => documents.flatMap((document) => textsOf(document, claim));
  const text = (claim: string | undefined) => texts(claim)[0];
  const email = firstAddress([mapping.email, ...SIGN_IN_NAMES].flatMap(texts));
  const fullName = [text(mapping.firstName), text(mapping.lastName)].filter((part) => part !== undefined);
  const groups = mapping.groups === undefined ? [] : texts(mapping.groups);
  return {
    subject: first.sub,
    email,
    emailVerified: isVerified(email, documents),
    name: text(mapping.name) ?? (fullName.length === 0 ? undefined : fullName.join(' ').slice(0, MAX_LENGTH)),
    mfa: idToken !== undefined && isMultiFactor(idToken),
    profile: storableObject({ ...userinfo, ...idToken, ...(groups.length === 0 ? {} : { groups }) }),
  };
}

/**
 * Whether an address is verified. Undefined if the provider does not say. `email_verified` is about the claim `email`,
 * and about no other claim, such as a `preferred_username` that people choose themselves. It counts in either document,
 * also if only the other one has the address, but not beside another address. If either document says that the address
 * is not verified, the result is false.
 */
function isVerified(email: string | undefined, documents: readonly Claims[]): boolean | undefined {
  if (email === undefined) return undefined;
  if (documents.some((document) => flagOf(document) === false)) return false;
  const named = documents.map((document) => textsOf(document, 'email'));
  const isTheOnlyOne = named.flat().every((other) => addressKey(other) === addressKey(email));
  const isNamed = named.some((addresses) => addresses.length > 0) && isTheOnlyOne;
  return isNamed && documents.some((document) => flagOf(document) === true) ? true : undefined;
}

/**
 * Reads `email_verified`, which some providers send as text. A value that is present counts as false unless it is true.
 */
function flagOf(document: Claims): boolean | undefined {
  const value = document.email_verified;
  if (value === undefined || value === null) return undefined;
  return value === true || (typeof value === 'string' && value.trim().toLowerCase() === 'true');
}

const textsOf = (document: Claims, claim: string | undefined): string[] =>
  claim === undefined || !Object.hasOwn(document, claim) ? [] : assertedTexts(document[claim]);
