import { z } from 'zod';
import { EmailAddress } from '../../email-address.ts';
import { nfcText } from '../../platform/http/fields.ts';
import { SignedIn } from '../auth/index.ts';

const Account = {
  name: nfcText(255),
  email: EmailAddress,
  /** The service checks its strength, and reports the first rule that it breaks. */
  password: z.string().max(1000),
  acceptTerms: z.literal(true, 'must be true: the terms must be accepted'),
};

export const PartnerRegistration = z.object({ companyName: nfcText(255, 2), ...Account });
export type PartnerRegistration = z.infer<typeof PartnerRegistration>;

export const UserRegistration = z.object(Account);
export type UserRegistration = z.infer<typeof UserRegistration>;

export const AddressConfirmation = z.object({
  token: z.string().min(1).max(200).describe('The token of the mailed link.'),
  password: z
    .string()
    .min(1, 'must not be empty')
    .max(128, 'must have at most 128 characters')
    .describe('The password chosen at registration.'),
});
export type AddressConfirmation = z.infer<typeof AddressConfirmation>;

/** The same whether or not the address has an account. */
export const NextSteps = z.object({ success: z.literal(true), message: z.string() });

export const PartnerRegistered = z.union([
  SignedIn.extend({ partner: z.object({ id: z.uuid(), name: z.string(), slug: z.string() }) }),
  NextSteps,
]);

export const RegistrationState = z.object({
  enabled: z.boolean().describe('False where accounts are created by invitation only.'),
});
