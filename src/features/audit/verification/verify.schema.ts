import { z } from 'zod';
import { Id, Timestamp } from '../../../platform/http/fields.ts';

export const ChainChoice = z.strictObject({
  orgId: Id.nullable().describe(
    'The organization whose chain is verified; null for that of the caller’s own organization or partner.',
  ),
});
export type ChainChoice = z.infer<typeof ChainChoice>;

export const ChainReport = z
  .object({
    chainId: z.uuid(),
    entries: z.int().describe('The entries that were verified: all, or those up to the fault.'),
    verifiedAt: Timestamp,
    fault: z
      .object({
        seq: z.int().nullable().describe('The position in the chain; null if the whole chain is concerned.'),
        entryId: z.uuid().nullable(),
        reason: z.string(),
      })
      .nullable()
      .describe('The first fault of the chain; null if the chain is intact.'),
  })
  .meta({ id: 'AuditChainReport' });
export type ChainReport = z.infer<typeof ChainReport>;
