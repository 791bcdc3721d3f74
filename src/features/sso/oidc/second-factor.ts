import { z } from 'zod';

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
