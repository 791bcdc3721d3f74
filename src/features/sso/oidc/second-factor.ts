import { z } from 'zod';

/** The methods of RFC 8176 that prove one factor each, by the kind of the factor. Two of different kinds are two factors. */
const FACTORS: readonly (readonly string[])[] = [
  // Something that the person knows,
  ['pwd', 'pin', 'kba'],
  // has,
  ['hwk', 'swk', 'pop', 'sc', 'otp', 'sms', 'tel'],
  // or is.
  ['face', 'fpt', 'iris', 'retina', 'vbm'],
];

/** Authentication contexts that are defined as multi-factor: OpenID PAPE, REFEDS, and the one of Microsoft. */
const MULTI_FACTOR_CONTEXTS = [
  'http://schemas.openid.net/pape/policies/2007/06/multi-factor',
  'https://refeds.org/profile/mfa',
  'http://schemas.microsoft.com/claims/multipleauthn',
];

const Methods = z.array(z.string()).catch([]);

/** Whether an ID token says that its person has proved two factors. Claims of any other form say nothing. */
export function isMultiFactor({ amr, acr }: Readonly<Record<string, unknown>>): boolean {
  const methods = new Set(Methods.parse(amr));
  const kinds = FACTORS.filter((kind) => kind.some((method) => methods.has(method)));
  return methods.has('mfa') || kinds.length > 1 || MULTI_FACTOR_CONTEXTS.some((context) => context === acr);
}
