import { z } from 'zod';
import { ServerUrl } from '../administration/provider.schema.ts';

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
