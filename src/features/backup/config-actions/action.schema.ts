import { z } from 'zod';
import { Id, Timestamp } from '../../../platform/http/fields.ts';

export const DeleteConfigQuery = z.object({
  keepSnapshots: z
    .stringbool()
    .optional()
    .describe(
      'Keeps the snapshots. Nothing removes them any more; those in a bucket or on a device are no longer reached through Muster.',
    ),
});
export type DeleteConfigQuery = z.infer<typeof DeleteConfigQuery>;

export const ConfigDeleted = z.object({
  success: z.literal(true),
  keptSnapshots: z.number().int().nonnegative(),
});

export const ConfigTest = z.strictObject({
  deviceId: Id.optional().describe(
    'The device that tests the destination. Required with the providers `s3` and `local`, whose destination only devices reach.',
  ),
});
export type ConfigTest = z.infer<typeof ConfigTest>;

export const ConfigTestResult = z
  .object({
    id: z.uuid().describe('The id of the configuration.'),
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
  })
  .meta({ id: 'BackupConfigTest' });
export type ConfigTestResult = z.infer<typeof ConfigTestResult>;
