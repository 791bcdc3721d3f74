import { z } from 'zod';
import { Id, nfcText, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery, Pagination } from '../../platform/http/pagination.ts';
import { isKeyMaterial } from './key.model.ts';

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
      .describe('For every version of the key: an earlier state of a repository opens with an earlier one.'),
    repositories: z.array(
      z.object({
        id: z.uuid(),
        deviceId: z.uuid(),
        deviceName: z.string(),
        configName: z.string().nullable(),
        vaultName: z.string().nullable().describe('For a copy: the vault that it belongs to.'),
        provider: z.enum(['server', 's3', 'local']),
        keyVersion: z.number().int().nullable().describe('The version that opens it now.'),
        location: z.string().describe('Where the repository is, as restic takes it after `-r`.'),
        notes: z.array(z.string()),
        snapshots: z.array(z.object({ id: z.string(), receivedAt: Timestamp })).describe('The newest ten.'),
        commands: z.array(z.string()).describe('The commands that list and restore with stock restic.'),
      }),
    ),
    pagination: Pagination.describe('The page of repositories.'),
  })
  .meta({ id: 'BackupRecoveryKit' });
export type RecoveryKit = z.infer<typeof RecoveryKit>;

export const EncryptionKey = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    name: z.string(),
    keyType: z.literal('aes_256'),
    fingerprint: z.string().describe('SHA-256 of the newest version, in hexadecimal.'),
    version: z.number().int().describe('The newest one.'),
    status: z
      .enum(['active', 'rotating'])
      .describe('`rotating`: not every repository has the newest version yet.'),
    repositories: z
      .object({
        total: z.number().int(),
        onNewestVersion: z.number().int().describe('Those that the newest version opens, and no other.'),
        outOfReach: z
          .number()
          .int()
          .describe(
            'In buckets and on disks of devices: the server cannot rotate them, and they keep their version.',
          ),
      })
      .describe('Those that the key opens.'),
    createdAt: Timestamp,
    rotatedAt: Timestamp.nullable(),
  })
  .meta({ id: 'BackupEncryptionKey' });

export const NewEncryptionKey = z.strictObject({
  orgId: Id,
  name: nfcText(200),
  material: z
    .string()
    .max(100)
    .refine(isKeyMaterial, 'must be the base64 of 32 bytes')
    .optional()
    .describe('32 bytes in base64. If it is left out, the server makes the key. It is never returned.'),
});
export type NewEncryptionKey = z.infer<typeof NewEncryptionKey>;

export const KeyQuery = PageQuery.extend({ orgId: Id.optional() });
export type KeyQuery = z.infer<typeof KeyQuery>;
