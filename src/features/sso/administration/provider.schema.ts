import { z } from 'zod';
import { Id, nullAsAbsent, text, Timestamp } from '../../../platform/http/fields.ts';
import { PageQuery } from '../../../platform/http/pagination.ts';
import { asciiDomain, ownershipFault } from '../domains/domain-name.ts';
import { AttributeMapping } from '../providers/attribute-mapping.ts';
import {
  PROVIDER_STATUSES,
  PROVIDER_TYPES,
  type SsoProvider as StoredProvider,
  TOKEN_AUTH_METHODS,
} from '../providers/provider.model.ts';
import { findPreset, placeholdersIn, PRESETS } from './presets.ts';

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
    placeholders: z.array(z.string()).describe('The parts in braces, such as {tenant}, to be replaced.'),
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
    allowedDomains: z.string().describe('Separated by commas; empty: all.'),
    enforceSSO: z.boolean(),
    trustsIdpMfa: z.boolean(),
    breakGlassUserIds: z.array(z.uuid()),
    configVersion: z.number().int().describe('Raised by each change, which ends the sign-ins under way.'),
    lastSuccessAt: Timestamp.nullable().describe(
      'The last sign-in with the present identity provider; null after a change of which one it is.',
    ),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'SsoProvider' });
export type ShownProvider = z.input<typeof SsoProvider>;

const URL_LENGTH = 500;

/** An address on the web, without a part of a preset's template that was not replaced. */
const webUrl = (rule: string, protocols: readonly string[]) =>
  text(URL_LENGTH).superRefine((url, context) => {
    const [placeholder] = placeholdersIn(url);
    const isFit = !/[\s{}]/.test(url) && URL.canParse(url) && protocols.includes(new URL(url).protocol);
    if (placeholder !== undefined) {
      context.addIssue({ code: 'custom', message: `still has {${placeholder}} in it: replace it` });
    } else if (!isFit) context.addIssue({ code: 'custom', message: rule });
  });

const HTTPS_RULE = 'must be a URL that begins with https://';
/** Whether it may be reached, and without TLS at that, is up to the guarded fetch, which only tests let do so. */
export const ServerUrl = webUrl(HTTPS_RULE, ['https:', 'http:']);
/** Browsers go there, and this server never does. */
const BrowserUrl = webUrl(HTTPS_RULE, ['https:']);

/** RFC 6749, 3.3. */
const Scopes = z
  .string()
  .max(500)
  .regex(
    /^[\x21\x23-\x5B\x5D-\x7E]+( [\x21\x23-\x5B\x5D-\x7E]+)*$/,
    'must be words separated by one space each',
  )
  .describe('Such as: openid profile email');

/** As it is stored: in lower case and ASCII, each domain once, without blanks. */
const AllowedDomains = z
  .string()
  .max(2000)
  .transform((list, context) => {
    const domains = list === '' ? [] : list.split(',').map((domain) => asciiDomain(domain.trim()) ?? domain);
    for (const domain of domains) {
      const fault = asciiDomain(domain) === undefined ? 'must be a domain' : ownershipFault(domain);
      if (fault === undefined) continue;
      context.addIssue({ code: 'custom', message: `${JSON.stringify(domain.slice(0, 100))} ${fault}` });
    }
    return [...new Set(domains)].join(',');
  })
  .meta({ type: 'string', description: 'Mail domains, separated by commas. Empty: all.' });

const BreakGlassUserIds = z
  .array(Id)
  .max(20)
  .transform((ids) => [...new Set(ids)])
  .meta({
    type: 'array',
    items: { type: 'string', format: 'uuid' },
    description: 'People who may sign in by password although single sign-on is enforced.',
  });

const EntityId = text(URL_LENGTH).refine(
  (id) => placeholdersIn(id).length === 0,
  'still has a part in braces in it: replace it',
);

/** What both a new provider and a change may name. In a change, null empties a field. */
const settings = {
  issuer: ServerUrl.nullable().optional().describe('Asks the provider for its endpoints (OIDC discovery).'),
  clientId: text(255).nullable().optional(),
  clientSecret: text(1000).nullable().optional().describe('Is stored sealed, and never returned.'),
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
    .describe('PEM; several one after the other while the provider changes its key.'),
  attributeMapping: AttributeMapping.optional(),
  autoProvision: z.boolean().optional(),
  defaultRoleId: Id.nullable().optional().describe('The role of accounts that a sign-in creates.'),
  allowedDomains: AllowedDomains.optional(),
  enforceSSO: z.boolean().optional().describe('Only after a sign-in through this provider has succeeded.'),
  trustsIdpMfa: z
    .boolean()
    .optional()
    .describe('Whether a second factor that the identity provider reports counts as one of this server.'),
  breakGlassUserIds: BreakGlassUserIds.optional(),
};

export const NewProvider = z.strictObject({
  ownerScope: z.enum(OWNER_SCOPES).optional().describe('Default: organization.'),
  orgId: nullAsAbsent(Id).describe('Ignored where ownerScope is partner.'),
  name: text(255),
  type: z.enum(PROVIDER_TYPES),
  preset: nullAsAbsent(
    z
      .string()
      .max(50)
      .refine((id) => findPreset(id) !== undefined, {
        error: `must be one of ${PRESETS.map(({ id }) => id).join(', ')}`,
      }),
  ),
  ...settings,
});
export type NewProvider = z.output<typeof NewProvider>;

export const ProviderChange = z.strictObject({ name: text(255).optional(), ...settings });
export type ProviderChange = z.output<typeof ProviderChange>;

export const StatusChange = z.strictObject({ status: z.enum(PROVIDER_STATUSES) });
export type StatusChange = z.output<typeof StatusChange>;

export const ProviderQuery = PageQuery.extend({
  orgId: Id.optional(),
  scope: z.literal('partner').optional().describe('The providers of the caller’s own partner.'),
});
export type ProviderQuery = z.output<typeof ProviderQuery>;

/** A provider as answers show it. */
export function shown({ userinfoUrl, enforceSso, clientSecret, ...provider }: StoredProvider): ShownProvider {
  return {
    ...provider,
    ownerScope: provider.orgId === null ? 'partner' : 'organization',
    userInfoUrl: userinfoUrl,
    enforceSSO: enforceSso,
    hasClientSecret: clientSecret !== null,
  };
}
