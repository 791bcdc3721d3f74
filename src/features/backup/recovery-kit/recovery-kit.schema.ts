import { z } from 'zod';
import { Id, Timestamp } from '../../../platform/http/fields.ts';
import { Pagination, PageQuery } from '../../../platform/http/pagination.ts';

export const RecoveryKitQuery = PageQuery.extend({
  deviceId: Id.optional().describe('Only repositories of this device.'),
});
export type RecoveryKitQuery = z.infer<typeof RecoveryKitQuery>;

export const RecoveryKit = z
  .object({
    keyId: z.uuid(),
    orgId: z.uuid(),
    name: z.string(),
    createdAt: Timestamp,
    passwords: z
      .array(z.object({ version: z.number().int(), password: z.string(), createdAt: Timestamp }))
      .describe('Of every version of the key: an earlier state of a repository opens with an earlier one.'),
    repositories: z.array(
      z.object({
        id: z.uuid(),
        deviceId: z.uuid(),
        deviceName: z.string(),
        configName: z.string().nullable(),
        vaultName: z.string().nullable().describe('Of a copy: the vault that it belongs to.'),
        provider: z.enum(['server', 's3', 'local']),
        keyVersion: z.number().int().nullable().describe('The version that opens it now.'),
        location: z.string().describe('Where the repository is, as restic takes it after `-r`.'),
        notes: z.array(z.string()),
        snapshots: z.array(z.object({ id: z.string(), receivedAt: Timestamp })).describe('The newest ten.'),
        commands: z.array(z.string()).describe('What lists and restores with stock restic.'),
      }),
    ),
    pagination: Pagination.describe('Of the repositories.'),
  })
  .meta({ id: 'BackupRecoveryKit' });
export type RecoveryKit = z.infer<typeof RecoveryKit>;
