import { z } from 'zod';
import { Id, Timestamp } from '../../../platform/http/fields.ts';
import { PROVIDER_TYPES } from '../providers/provider.model.ts';

export const ProviderParams = z.object({ providerId: Id });

export const LinkOptions = z.object({
  data: z.array(
    z.object({ id: z.uuid(), name: z.string(), type: z.enum(PROVIDER_TYPES), linked: z.boolean() }),
  ),
});

export const LinkStart = z.object({ url: z.url() });

export const SsoIdentity = z
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
