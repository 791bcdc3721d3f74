import { z } from 'zod';
import { Id, nfcText, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { asciiDomain } from '../../email-address.ts';
import { ownershipFault } from './domain.schema.ts';
import { AttributeMapping, PROVIDER_STATUSES, PROVIDER_TYPES, TOKEN_AUTH_METHODS } from './sso.schema.ts';
import { findPreset, placeholdersIn, PRESETS } from './provider-presets.ts';
import { shortened } from '../../protocol/index.ts';

const OWNER_SCOPES = ['organization', 'partner'] as const;

export const Preset = z
  .object({
    id: z.string(),
    type: z.enum(PROVIDER_TYPES),
    name: z.string(),
    issuer: z.string().optional(),
    scopes: z.string().optional(),
    authorizationUrl: z.string().optional(),
    tokenUrl: z.string().optional(),
    userInfoUrl: z.string().optional(),
    jwksUrl: z.string().optional(),
    ssoUrl: z.string().optional(),
    attributeMapping: AttributeMapping,
    placeholders: z
      .array(z.string())
      .describe('The names in braces, such as tenant for {tenant}, that you have to replace.'),
  })
  .meta({ id: 'SsoPreset' });

export const PresetList = z.object({ data: z.array(Preset) });

export const SsoProvider = z
  .object({
    id: z.uuid(),
    ownerScope: z.enum(OWNER_SCOPES),
    orgId: z.uuid().nullable(),
    partnerId: z.uuid().nullable(),
    name: z.string(),
    type: z.enum(PROVIDER_TYPES),
    status: z.enum(PROVIDER_STATUSES),
    preset: z.string().nullable(),
    issuer: z.string().nullable(),
    clientId: z.string().nullable(),
    hasClientSecret: z.boolean().describe('The secret itself is never returned.'),
    tokenAuthMethod: z.enum(TOKEN_AUTH_METHODS),
    scopes: z.string(),
    authorizationUrl: z.string().nullable(),
    tokenUrl: z.string().nullable(),
    userInfoUrl: z.string().nullable(),
    jwksUrl: z.string().nullable(),
    entityId: z.string().nullable(),
    ssoUrl: z.string().nullable(),
    certificate: z.string().nullable(),
    attributeMapping: AttributeMapping,
    autoProvision: z.boolean(),
    defaultRoleId: z.uuid().nullable(),
    allowedDomains: z.string().describe('Mail domains, separated by commas. Empty means all domains.'),
    enforceSSO: z.boolean(),
    trustsIdpMfa: z.boolean(),
    breakGlassUserIds: z.array(z.uuid()),
    configVersion: z
      .number()
      .int()
      .describe('Increases with each change. A change ends the sign-ins in progress.'),
    lastSuccessAt: Timestamp.nullable().describe(
      'Time of the last successful sign-in. Null again when a change selects another identity provider.',
    ),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'SsoProvider' });

export type ShownProvider = z.input<typeof SsoProvider>;

const URL_LENGTH = 500;

/** Refuses a URL in which a placeholder of a preset, such as {tenant}, was not replaced. */
const webUrl = (rule: string, protocols: readonly string[]) =>
  text(URL_LENGTH).superRefine((url, context) => {
    const [placeholder] = placeholdersIn(url);
    const isFit = !/[\s{}]/.test(url) && URL.canParse(url) && protocols.includes(new URL(url).protocol);
    if (placeholder !== undefined) {
      context.addIssue({
        code: 'custom',
        message: `still contains the placeholder {${placeholder}}: replace it`,
      });
    } else if (!isFit) context.addIssue({ code: 'custom', message: rule });
  });

const HTTPS_RULE = 'must be a URL that begins with https://';

/** Accepts http:// too, because tests use it. In production the guarded fetch refuses it, as it refuses internal addresses. */
export const ServerUrl = webUrl(HTTPS_RULE, ['https:', 'http:']);

/** Only browsers open this URL, never this server. A sign-in checks its address when it begins. */
const BrowserUrl = webUrl(HTTPS_RULE, ['https:']);

/** RFC 6749, 3.3. */
const Scopes = z
  .string()
  .max(500)
  .regex(
    /^[\x21\x23-\x5B\x5D-\x7E]+( [\x21\x23-\x5B\x5D-\x7E]+)*$/,
    'must be words separated by one space each',
  )
  .describe('Separated by spaces, such as `openid profile email`.');

/** Converts the list to the form that is stored: lower case and ASCII, each domain once, without spaces. */
const AllowedDomains = z
  .string()
  .max(2000)
  .transform((list, context) => {
    const domains = list === '' ? [] : list.split(',').map((domain) => asciiDomain(domain.trim()) ?? domain);
    for (const domain of domains) {
      const fault = asciiDomain(domain) === undefined ? 'must be a domain' : ownershipFault(domain);
      if (fault === undefined) continue;
      context.addIssue({ code: 'custom', message: `${JSON.stringify(shortened(domain, 100))} ${fault}` });
    }
    return [...new Set(domains)].join(',');
  })
  .meta({ type: 'string', description: 'Mail domains, separated by commas. Empty means all domains.' });

const BreakGlassUserIds = z
  .array(Id)
  .max(20)
  .transform((ids) => [...new Set(ids)])
  .meta({
    type: 'array',
    items: { type: 'string', format: 'uuid' },
    description: 'The ids of people who may sign in with a password although single sign-on is enforced.',
  });

const EntityId = text(URL_LENGTH).refine(
  (id) => placeholdersIn(id).length === 0,
  'still contains a placeholder in braces: replace it',
);

/** The fields of both a new provider and a change. In a change, null clears a field. */
const settings = {
  issuer: ServerUrl.nullable()
    .optional()
    .describe('The endpoints are read from the discovery document of this issuer.'),
  clientId: text(255).nullable().optional(),
  clientSecret: text(1000).nullable().optional().describe('Stored encrypted, and never returned.'),
  tokenAuthMethod: z.enum(TOKEN_AUTH_METHODS).optional(),
  scopes: Scopes.optional(),
  authorizationUrl: ServerUrl.nullable().optional(),
  tokenUrl: ServerUrl.nullable().optional(),
  userInfoUrl: ServerUrl.nullable().optional(),
  jwksUrl: ServerUrl.nullable().optional(),
  entityId: EntityId.nullable().optional(),
  ssoUrl: BrowserUrl.nullable().optional(),
  certificate: text(20_000)
    .nullable()
    .optional()
    .describe('One or several certificates as PEM. Several are useful while the provider changes its key.'),
  attributeMapping: AttributeMapping.optional(),
  autoProvision: z.boolean().optional(),
  defaultRoleId: Id.nullable().optional().describe('The role of an account that a first sign-in creates.'),
  allowedDomains: AllowedDomains.optional(),
  enforceSSO: z
    .boolean()
    .optional()
    .describe('Can be true only after a successful sign-in with this provider.'),
  trustsIdpMfa: z
    .boolean()
    .optional()
    .describe(
      'If true, a second factor that the identity provider reports counts as a second factor of Muster.',
    ),
  breakGlassUserIds: BreakGlassUserIds.optional(),
};

export const NewProvider = z.strictObject({
  ownerScope: z.enum(OWNER_SCOPES).optional().describe('Default: organization.'),
  orgId: Id.optional().describe(
    'The organization that owns the provider. Ignored if ownerScope is `partner`.',
  ),
  name: nfcText(255),
  type: z.enum(PROVIDER_TYPES),
  preset: z
    .string()
    .max(50)
    .refine((id) => findPreset(id) !== undefined, {
      error: `must be one of ${PRESETS.map(({ id }) => id).join(', ')}`,
    })
    .optional(),
  ...settings,
});
export type NewProvider = z.output<typeof NewProvider>;

export const ProviderChange = z.strictObject({ name: nfcText(255).optional(), ...settings });
export type ProviderChange = z.output<typeof ProviderChange>;

export const StatusChange = z.strictObject({ status: z.enum(PROVIDER_STATUSES) });
export type StatusChange = z.output<typeof StatusChange>;

export const ProviderQuery = PageQuery.extend({
  orgId: Id.optional(),
  scope: z.literal('partner').optional().describe('Lists only the providers of the caller’s own partner.'),
});
export type ProviderQuery = z.output<typeof ProviderQuery>;

export const METADATA_MAX = 512 << 10;

export const ProviderTest = z
  .strictObject({
    metadataUrl: ServerUrl.optional().describe('The URL at which a SAML provider publishes its metadata.'),
    metadataXml: z
      .string()
      .min(1)
      .max(METADATA_MAX)
      .optional()
      .describe('The metadata of a SAML provider as XML, instead of metadataUrl.'),
  })
  .refine(({ metadataUrl, metadataXml }) => metadataUrl === undefined || metadataXml === undefined, {
    path: ['metadataXml'],
    error: 'must not be sent together with metadataUrl',
  });
export type ProviderTest = z.output<typeof ProviderTest>;

export const Check = z.object({
  name: z.enum(['configuration', 'discovery', 'issuer', 'endpoints', 'keys', 'certificate', 'ssoUrl']),
  ok: z.boolean(),
  message: z.string().optional(),
});
export type Check = z.output<typeof Check>;

export const ProviderTestResult = z
  .object({
    success: z.boolean(),
    checks: z
      .array(Check)
      .describe('The checks in their order. If one fails, the checks that depend on it are left out.'),
  })
  .meta({ id: 'SsoProviderTest' });
