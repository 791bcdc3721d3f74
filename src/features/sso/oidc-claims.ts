import { z } from 'zod';
import { addressKey } from '../../email-address.ts';
import { isStorableText, storableObject, UNSTORABLE_RULE, shortened } from '../../protocol/index.ts';
import type { AttributeMapping } from './sso.schema.ts';
import { assertedTexts, firstAddress, type AssertedIdentity } from './sso-protocol.ts';

/**
 * The claims of an ID token or of a userinfo response, with their subject. Some userinfo endpoints send the subject as a
 * number.
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
    name:
      text(mapping.name) ?? (fullName.length === 0 ? undefined : shortened(fullName.join(' '), MAX_LENGTH)),
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

/** The methods of RFC 8176, by the kind of factor that they prove. Methods of two different kinds are two factors. */
const FACTORS: readonly (readonly string[])[] = [
  // Knowledge: something that the person knows.
  ['pwd', 'pin', 'kba'],
  // Possession: something that the person has.
  ['hwk', 'swk', 'pop', 'sc', 'otp', 'sms', 'tel'],
  // Inherence: a property of the person's body.
  ['face', 'fpt', 'iris', 'retina', 'vbm'],
];

/** Authentication contexts that are defined as multi-factor, by OpenID PAPE, REFEDS and Microsoft. */
const MULTI_FACTOR_CONTEXTS = [
  'http://schemas.openid.net/pape/policies/2007/06/multi-factor',
  'https://refeds.org/profile/mfa',
  'http://schemas.microsoft.com/claims/multipleauthn',
];

const Methods = z.array(z.string()).catch([]);

/** Whether an ID token says that the person has used two factors. Claims of an unexpected type are ignored. */
export function isMultiFactor({ amr, acr }: Readonly<Record<string, unknown>>): boolean {
  const methods = new Set(Methods.parse(amr));
  const kinds = FACTORS.filter((kind) => kind.some((method) => methods.has(method)));
  return methods.has('mfa') || kinds.length > 1 || MULTI_FACTOR_CONTEXTS.some((context) => context === acr);
}
