import { z } from 'zod';
import { Id, Timestamp, text } from '../../platform/http/fields.ts';

export const PROVIDER_TYPES = ['oidc', 'saml'] as const;

export const PROVIDER_STATUSES = ['inactive', 'testing', 'active'] as const;

export const TOKEN_AUTH_METHODS = ['client_secret_basic', 'client_secret_post'] as const;

const Claim = text(255);

/** The names of the claims (OpenID Connect) or attributes (SAML) that contain address, name and groups (SPEC 2.11). */
export const AttributeMapping = z
  .strictObject({
    email: Claim,
    name: Claim,
    firstName: Claim.optional(),
    lastName: Claim.optional(),
    groups: Claim.optional(),
  })
  .meta({ id: 'SsoAttributeMapping' });
export type AttributeMapping = z.infer<typeof AttributeMapping>;

export const DEFAULT_MAPPING: AttributeMapping = { email: 'email', name: 'name' };

export const ProviderParams = z.object({ providerId: Id });

export const LinkOptions = z.object({
  data: z.array(
    z.object({ id: z.uuid(), name: z.string(), type: z.enum(PROVIDER_TYPES), linked: z.boolean() }),
  ),
});

export const LinkStart = z.object({ url: z.url() });

const SsoIdentity = z
  .object({
    id: z.uuid(),
    provider: z
      .object({ id: z.uuid(), name: z.string(), type: z.enum(PROVIDER_TYPES) })
      .nullable()
      .describe('Null for a provider of an organization or partner that you have left.'),
    email: z.string().nullable().describe('The address that the provider sent at the last sign-in.'),
    lastLoginAt: Timestamp.nullable(),
    createdAt: Timestamp,
  })
  .meta({ id: 'SsoIdentity' });

export const SsoIdentities = z.object({ data: z.array(SsoIdentity) });

export const OrgParams = z.object({ orgId: Id });

export const PartnerParams = z.object({ partnerId: Id });

/** A path of the dashboard. `//host` and `/\host` are refused, because browsers would open another site. */
export const LoginQuery = z.object({
  redirect: z
    .string()
    .max(500, 'must have at most 500 characters')
    .regex(
      /^\/(?![/\\])[^\s\\#\p{Cc}]*$/u,
      'must be a path of the dashboard that begins with one slash, such as /devices',
    )
    .optional()
    .describe('The path of the dashboard that the browser opens after the sign-in.'),
});

/** The handler checks the values, and not this schema, so that each failure ends on the login page and not in JSON. */
export const CallbackQuery = z.record(z.string(), z.unknown());

export const ExchangeRequest = z.strictObject({
  code: z.string().min(1, 'must not be empty').max(200, 'must have at most 200 characters'),
  signedInAs: Id.optional().describe(
    'The id of the person who is signed in. If the code is of another person, nothing happens, and the answer is 409: ask before you repeat the request without this field.',
  ),
});
export type ExchangeRequest = z.output<typeof ExchangeRequest>;

export const ExchangeResponse = z.object({
  accessToken: z.string(),
  refreshToken: z.string(),
  expiresInSeconds: z.number().int(),
});

export const SsoCheck = z.object({
  ssoEnabled: z.boolean(),
  provider: z.object({ id: z.uuid(), name: z.string(), type: z.enum(PROVIDER_TYPES) }).nullable(),
  enforceSSO: z.boolean(),
  loginUrl: z.string().nullable(),
});
