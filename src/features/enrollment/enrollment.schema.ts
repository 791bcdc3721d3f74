import { z } from 'zod';
import { futureInstant, Id, nfcText, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

export const EnrollmentKey = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    siteId: z.uuid().nullable(),
    name: z.string(),
    keyPrefix: z.string().describe('The first characters, to tell keys apart.'),
    usageCount: z.number().int(),
    maxUsage: z.number().int().nullable(),
    expiresAt: Timestamp.nullable(),
    revokedAt: Timestamp.nullable(),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
  })
  .meta({ id: 'EnrollmentKey' });

export const NewEnrollmentKey = z.strictObject({
  orgId: Id,
  siteId: Id.optional().describe('Devices go to this site; else to the first of the organization.'),
  name: nfcText(255),
  maxUsage: z.number().int().min(1).max(1_000_000).optional(),
  expiresAt: futureInstant().optional(),
});
export type NewEnrollmentKey = z.infer<typeof NewEnrollmentKey>;

/** The key itself is shown in this answer only. */
export const CreatedEnrollmentKey = z.object({ ...EnrollmentKey.shape, key: z.string() });

export const EnrollmentKeyQuery = PageQuery.extend({ orgId: Id.optional() });
export type EnrollmentKeyQuery = z.infer<typeof EnrollmentKeyQuery>;
