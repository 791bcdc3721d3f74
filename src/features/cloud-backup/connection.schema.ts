import { z } from 'zod';
import { Id, nfcText, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

export const CloudConnection = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    provider: z.literal('microsoft_365'),
    authMethod: z
      .enum(['manual', 'platform_app'])
      .describe('`manual`: an app of the organization. `platform_app`: the app of this server.'),
    displayName: z.string(),
    tenantId: z.uuid().describe('The directory at Microsoft.'),
    clientId: z.string().nullable().describe('The first characters of the id of the app.'),
    status: z
      .enum(['active', 'failing'])
      .describe('`failing`: Microsoft refused the app at the last request.'),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    lastSyncAt: Timestamp.nullable().describe('When the last run that stored something ended.'),
    throttledUntil: Timestamp.nullable().describe('Microsoft has asked this server to wait until then.'),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'CloudConnection' });

export const NewConnection = z.discriminatedUnion('provider', [
  z.strictObject({
    orgId: Id,
    provider: z.literal('microsoft_365'),
    authMethod: z
      .literal('manual')
      .optional()
      .describe(
        'The app of this server is connected by GET /c2c/m365/consent-url only, which proves the directory.',
      ),
    displayName: nfcText(200),
    tenantId: Id,
    clientId: Id,
    clientSecret: text(1000).describe('It is stored sealed, and never returned.'),
  }),
  z
    .object({ orgId: Id, provider: z.literal('google_workspace') })
    .describe('Refused with PROVIDER_UNSUPPORTED.'),
]);
export type NewConnection = z.infer<typeof NewConnection>;

export const ConnectionPatch = z.strictObject({
  displayName: nfcText(200).optional(),
  clientId: Id.optional().describe('Only with a new secret, for an app of the same directory.'),
  clientSecret: text(1000)
    .optional()
    .describe('Replaces an expired one. It is stored sealed, and never returned.'),
});
export type ConnectionPatch = z.infer<typeof ConnectionPatch>;

export const ConnectionQuery = PageQuery.extend({ orgId: Id.optional() });
export type ConnectionQuery = z.infer<typeof ConnectionQuery>;

export const ConnectionTest = z.object({
  id: z.uuid(),
  status: z.enum(['success', 'failed']),
  checks: z.array(
    z.object({
      name: z.string(),
      ok: z.boolean(),
      code: z.string().optional(),
      message: z.string().optional(),
    }),
  ),
  checkedAt: Timestamp,
});

export const ConsentQuery = z.object({ orgId: Id, displayName: nfcText(200).optional() });
export type ConsentQuery = z.infer<typeof ConsentQuery>;
/** The query of a returning browser is untrusted: the handler validates it. */
export const CallbackQuery = z.record(z.string(), z.unknown());
