import { z } from 'zod';
import { SCOPES } from '../../platform/db/tenant-scope.ts';
import { text, Timestamp } from '../../platform/http/fields.ts';

const Code = z
  .string()
  .trim()
  .min(1, 'must not be empty')
  .max(20)
  .describe('The six digits of the authenticator app, or a recovery code.');
const CurrentPassword = z.string().min(1, 'must not be empty').max(128, 'must have at most 128 characters');

/** The token of a sign-in whose password was correct. */
export const TempToken = z.string().min(1).max(100);

export const MfaVerification = z.object({ tempToken: TempToken, code: Code });
export type MfaVerification = z.infer<typeof MfaVerification>;

export const OwnPassword = CurrentPassword.optional().describe(
  'Required if the account has a password. An account without a password needs a session that single sign-on opened in the last 10 minutes instead.',
);

export const MfaSetup = z.strictObject({ currentPassword: OwnPassword });
export type MfaSetup = z.infer<typeof MfaSetup>;

export const MfaSecret = z.object({
  secret: z.string().describe('The secret in Base32, for manual entry.'),
  otpAuthUrl: z.string().describe('The secret as a URL, for a QR code.'),
  recoveryCodes: z
    .array(z.string())
    .describe('Empty if the account has codes already, because it has a passkey.'),
});
export type MfaSecret = z.infer<typeof MfaSecret>;

export const MfaEnabling = z.object({ code: Code });
export type MfaEnabling = z.infer<typeof MfaEnabling>;

export const MfaConfirmation = z.strictObject({
  currentPassword: OwnPassword,
  code: Code.optional().describe(
    'The six digits of the authenticator app, or a recovery code. Without it, the second factor of the session must have been given in the last 15 minutes, such as with a passkey.',
  ),
});
export type MfaConfirmation = z.infer<typeof MfaConfirmation>;

export const MfaStepUp = z.object({ code: Code });
export type MfaStepUp = z.infer<typeof MfaStepUp>;

export const RecoveryCodes = z.object({ recoveryCodes: z.array(z.string()) });

export const LoginRequest = z.object({
  email: text(255),
  password: z.string().min(1, 'must not be empty').max(128, 'must have at most 128 characters'),
});
export type LoginRequest = z.infer<typeof LoginRequest>;

export const Tokens = z
  .object({ accessToken: z.string(), expiresInSeconds: z.number().int() })
  .meta({ id: 'Tokens' });
export type Tokens = z.infer<typeof Tokens>;

export const SignedIn = z
  .object({
    user: z.object({ id: z.uuid(), email: z.string(), name: z.string(), mfaEnabled: z.boolean() }),
    tokens: Tokens,
    mfaRequired: z.literal(false),
  })
  .meta({ id: 'SignedIn' });
export type SignedIn = z.infer<typeof SignedIn>;

export const SecondFactors = z
  .object({
    mfaEnabled: z
      .boolean()
      .describe('Whether the account has any second factor, so that a password alone is not enough.'),
    app: z.boolean().describe('Whether an authenticator app is enabled.'),
    passkeys: z.number().int(),
    recoveryCodes: z.number().int().describe('How many recovery codes are unused.'),
  })
  .meta({ id: 'SecondFactors' });
export type SecondFactors = z.infer<typeof SecondFactors>;

/** The password was correct; POST /auth/mfa/verify requires the token and a code, or a passkey answers for the token. */
export const SecondFactorRequired = z
  .object({
    mfaRequired: z.literal(true),
    tempToken: z.string().describe('Valid for 5 minutes and 5 attempts.'),
    methods: z
      .array(z.enum(['app', 'recovery_code', 'passkey']))
      .describe(
        'What the account can finish the sign-in with. `passkey`: POST /auth/mfa/passkey-options. The others: POST /auth/mfa/verify.',
      ),
    user: z.null(),
    tokens: z.null(),
  })
  .meta({ id: 'SecondFactorRequired' });
export type SecondFactorRequired = z.infer<typeof SecondFactorRequired>;

export const LoginResponse = z.discriminatedUnion('mfaRequired', [SignedIn, SecondFactorRequired]);

export const RefreshRequest = z.strictObject({
  refreshToken: z.string().min(1).max(200).optional().describe('For clients without cookies.'),
});

export const Me = z.object({
  user: z.object({ id: z.uuid(), email: z.string(), name: z.string() }),
  scope: z.enum(SCOPES),
  partnerId: z.uuid().optional(),
  orgId: z.uuid().optional(),
  role: z.object({ id: z.uuid(), name: z.string() }),
  permissions: z.array(z.string()),
  accessibleOrgIds: z.array(z.uuid()).nullable().describe('null stands for all organizations.'),
  clientIp: z.string().describe('Where this request came from, as the server and IP allowlists see it.'),
});

/** The service checks the strength of a new password, and reports the first rule that it breaks. */
const NewPassword = z.string();
const LinkToken = z.string().min(1).max(200);

export const InvitationToken = z.object({ token: LinkToken });
export const InvitationPreview = z.object({
  email: z.string(),
  name: z.string(),
  partnerName: z.string().optional(),
  orgName: z.string().optional(),
});
export const AcceptInvitation = z.object({ token: LinkToken, password: NewPassword });
export type AcceptInvitation = z.infer<typeof AcceptInvitation>;

export const ForgottenPassword = z.object({ email: LoginRequest.shape.email });
export const PasswordReset = z.object({ token: LinkToken, password: NewPassword });
export type PasswordReset = z.infer<typeof PasswordReset>;
export const PasswordChange = z.object({
  currentPassword: LoginRequest.shape.password,
  newPassword: NewPassword,
});
export type PasswordChange = z.infer<typeof PasswordChange>;

export const OwnSession = z.object({
  id: z.uuid(),
  createdAt: Timestamp,
  lastUsedAt: Timestamp,
  expiresAt: Timestamp,
  ipAddress: z.string().nullable(),
  userAgent: z.string().nullable(),
  current: z.boolean().describe('Whether it is the session of this request.'),
});
