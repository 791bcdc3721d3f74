import { z } from 'zod';
import { futureInstant, nfcText, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { Permission } from '../roles/index.ts';

export const ApiKey = z
  .object({
    id: z.uuid(),
    orgId: z.uuid().nullable().describe('null: wherever its maker may go.'),
    createdBy: z.uuid(),
    name: z.string(),
    keyPrefix: z.string().describe('The first characters, to tell keys apart.'),
    scopes: z.array(z.string()),
    rateLimit: z.number().int().describe('Requests an hour.'),
    expiresAt: Timestamp.nullable(),
    revokedAt: Timestamp.nullable(),
    lastUsedAt: Timestamp.nullable().describe('Up to a minute late.'),
    usageCount: z.preprocess(Number, z.number().int()).describe('Requests so far; up to a minute late.'),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'ApiKey' });

/** The key itself is shown in this answer only. */
export const ApiKeyWithSecret = z.object({ ...ApiKey.shape, key: z.string() });

const Scopes = z
  .array(Permission)
  .min(1, 'must name at least one scope')
  .max(100)
  .transform((scopes) => [...new Set(scopes)])
  .meta({ type: 'array', items: { type: 'string' }, description: 'Permissions; none that its maker lacks.' });
const Name = nfcText(255);
const ExpiresAt = futureInstant().nullable();
const RateLimit = z.number().int().min(1).max(1_000_000).describe('Requests an hour; default 1000.');

export const NewApiKey = z.strictObject({
  orgId: z.uuid().optional().describe('The key is good in this organization only.'),
  name: Name,
  scopes: Scopes,
  expiresAt: ExpiresAt.optional(),
  rateLimit: RateLimit.optional(),
});
export type NewApiKey = z.infer<typeof NewApiKey>;

/** Fields that are left out stay as they are. */
export const ApiKeyChange = z.strictObject({
  name: Name.optional(),
  scopes: Scopes.optional(),
  expiresAt: ExpiresAt.optional(),
  rateLimit: RateLimit.optional(),
});
export type ApiKeyChange = z.infer<typeof ApiKeyChange>;

export const ApiKeyQuery = PageQuery.extend({ orgId: z.uuid().optional() });
export type ApiKeyQuery = z.infer<typeof ApiKeyQuery>;
