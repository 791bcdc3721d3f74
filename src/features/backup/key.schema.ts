import { z } from 'zod';
import { Id, nfcText, Timestamp } from '../../../platform/http/fields.ts';
import { PageQuery } from '../../../platform/http/pagination.ts';
import { isKeyMaterial } from './key-material.ts';

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
    .describe('32 bytes in base64. Where it is left out, the server makes the key. It is never returned.'),
});
export type NewEncryptionKey = z.infer<typeof NewEncryptionKey>;

export const KeyQuery = PageQuery.extend({ orgId: Id.optional() });
export type KeyQuery = z.infer<typeof KeyQuery>;
