import { z } from 'zod';
import { nfcText, Timestamp } from '../../platform/http/fields.ts';
import { OwnPassword, TempToken } from './auth.schema.ts';

/** Bytes in base64url. The bounds are several times what authenticators send. */
const bytes = (maxCharacters: number) =>
  z
    .string()
    .min(1)
    .max(maxCharacters)
    .regex(/^[\w-]+$/, 'must be base64url');

/** An id has at most 1,023 bytes (WebAuthn, 4). */
const CredentialId = bytes(1364);
const Transports = z.array(z.string().regex(/^[a-z-]{1,32}$/, 'must be the name of a transport')).max(10);

const credentialOf = <R extends z.ZodType>(response: R) =>
  z.object({ id: CredentialId, rawId: CredentialId, type: z.literal('public-key'), response });

/** What `navigator.credentials.create` returns, as JSON. */
export const RegistrationAnswer = credentialOf(
  z.object({
    clientDataJSON: bytes(4096),
    attestationObject: bytes(16_384),
    transports: Transports.optional(),
  }),
);
export type RegistrationAnswer = z.infer<typeof RegistrationAnswer>;

/** What `navigator.credentials.get` returns, as JSON. */
export const Assertion = credentialOf(
  z.object({
    clientDataJSON: bytes(4096),
    authenticatorData: bytes(4096),
    signature: bytes(2048),
    userHandle: bytes(128).nullish(),
  }),
);
export type Assertion = z.infer<typeof Assertion>;

const Descriptor = z.object({
  id: z.string(),
  type: z.literal('public-key'),
  transports: z.array(z.string()).optional(),
});

const Challenge = z.string().describe('Valid for 5 minutes and one answer.');
const TimeoutMs = z.number().int();
const UserVerification = z.enum(['required', 'preferred', 'discouraged']);

export const CreationOptions = z
  .object({
    challenge: Challenge,
    rp: z.object({ id: z.string(), name: z.string() }),
    user: z.object({ id: z.string(), name: z.string(), displayName: z.string() }),
    pubKeyCredParams: z.array(z.object({ alg: z.number().int(), type: z.literal('public-key') })),
    timeout: TimeoutMs,
    attestation: z.literal('none'),
    excludeCredentials: z.array(Descriptor),
    authenticatorSelection: z.object({
      residentKey: z.literal('required'),
      requireResidentKey: z.literal(true),
      userVerification: UserVerification,
    }),
  })
  .describe('For `navigator.credentials.create` of a browser, as JSON of WebAuthn.')
  .meta({ id: 'PasskeyCreationOptions' });
export type CreationOptions = z.infer<typeof CreationOptions>;

export const RequestOptions = z
  .object({
    challenge: Challenge,
    rpId: z.string(),
    timeout: TimeoutMs,
    userVerification: UserVerification,
    allowCredentials: z.array(Descriptor).describe('Empty: any passkey of this server.'),
  })
  .describe('For `navigator.credentials.get` of a browser, as JSON of WebAuthn.')
  .meta({ id: 'PasskeyRequestOptions' });
export type RequestOptions = z.infer<typeof RequestOptions>;

export const Passkey = z
  .object({
    id: z.uuid(),
    name: z.string(),
    synced: z.boolean().describe('Whether the authenticator copies it to other devices of the person.'),
    suspectAt: Timestamp.nullable().describe(
      'Set if its count of signatures has gone back, as that of a copied authenticator does. It is refused from then on.',
    ),
    lastUsedAt: Timestamp.nullable(),
    createdAt: Timestamp,
  })
  .meta({ id: 'Passkey' });

const PasskeyName = nfcText(100);

export const PasskeyStart = z.strictObject({ currentPassword: OwnPassword });
export type PasskeyStart = z.infer<typeof PasskeyStart>;

export const NewPasskey = z.strictObject({ name: PasskeyName, credential: RegistrationAnswer });
export type NewPasskey = z.infer<typeof NewPasskey>;

export const AddedPasskey = z.object({
  passkey: Passkey,
  recoveryCodes: z
    .array(z.string())
    .describe(
      'Ten, with the first second factor of the account; otherwise empty, because it has codes already.',
    ),
});

export const PasskeyChange = z.strictObject({ name: PasskeyName });
export type PasskeyChange = z.infer<typeof PasskeyChange>;

export const PasskeySignIn = z.strictObject({ credential: Assertion });
export type PasskeySignIn = z.infer<typeof PasskeySignIn>;

export const PasskeyChallenge = z.strictObject({ tempToken: TempToken });
export type PasskeyChallenge = z.infer<typeof PasskeyChallenge>;

export const PasskeyVerification = z.strictObject({ tempToken: TempToken, credential: Assertion });
export type PasskeyVerification = z.infer<typeof PasskeyVerification>;
