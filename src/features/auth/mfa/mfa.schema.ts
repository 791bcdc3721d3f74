import { z } from 'zod';

const Code = z
  .string()
  .trim()
  .min(1, 'must not be empty')
  .max(20)
  .describe('The six digits of the authenticator app, or a recovery code.');
const CurrentPassword = z.string().min(1, 'must not be empty').max(128, 'must have at most 128 characters');

export const MfaVerification = z.object({ tempToken: z.string().min(1).max(100), code: Code });
export type MfaVerification = z.infer<typeof MfaVerification>;

const OwnPassword = CurrentPassword.optional().describe(
  'Required if the account has a password. An account without a password needs a session that single sign-on opened in the last 10 minutes instead.',
);

export const MfaSetup = z.strictObject({ currentPassword: OwnPassword });
export type MfaSetup = z.infer<typeof MfaSetup>;

export const MfaSecret = z.object({
  secret: z.string().describe('The secret in Base32, for manual entry.'),
  otpAuthUrl: z.string().describe('The secret as a URL, for a QR code.'),
  recoveryCodes: z.array(z.string()),
});
export type MfaSecret = z.infer<typeof MfaSecret>;

export const MfaEnabling = z.object({ code: Code });
export type MfaEnabling = z.infer<typeof MfaEnabling>;

export const MfaConfirmation = z.strictObject({ currentPassword: OwnPassword, code: Code });
export type MfaConfirmation = z.infer<typeof MfaConfirmation>;

export const MfaStepUp = z.object({ code: Code });
export type MfaStepUp = z.infer<typeof MfaStepUp>;

export const RecoveryCodes = z.object({ recoveryCodes: z.array(z.string()) });
