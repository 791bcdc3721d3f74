import { z } from 'zod';
import { Id, instantOrDay, noneBefore, text, Timestamp } from '../../../platform/http/fields.ts';
import { PageQuery } from '../../../platform/http/pagination.ts';
import { SnapshotDetails } from '../../../protocol/index.ts';
import { Provider } from '../configs/config.schema.ts';

const BackupType = z.enum(['file', 'system_image', 'database', 'application']);

export const BackupSnapshot = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    configId: z.uuid().nullable(),
    jobId: z.uuid().nullable(),
    copyOf: z.uuid().nullable().describe('Of a copy in a vault: the snapshot that it is a copy of.'),
    repositoryId: z.uuid(),
    engineId: z.string().describe('The id of the snapshot in its restic repository.'),
    provider: Provider.describe('Where its data is.'),
    backupType: BackupType,
    createdAt: Timestamp.describe('When the store received it.'),
    takenAt: Timestamp.nullable().describe('When it was made, by the clock of the device.'),
    paths: z.array(z.string()).describe('What was backed up, as the device writes it.'),
    details: SnapshotDetails.nullable().describe(
      'Of a snapshot that is more than files, as the device writes it.',
    ),
    sizeBytes: z.number().int().nullable(),
    fileCount: z.number().int().nullable(),
    addedBytes: z.number().int().nullable().describe('What it added to the repository.'),
    changedFiles: z.number().int().nullable(),
    isPartial: z
      .boolean()
      .describe('Some files could not be read, or the result of the backup was lost, so that nobody knows.'),
    legalHold: z.boolean(),
    legalHoldReason: z.string().nullable(),
    isImmutable: z.boolean(),
    immutableUntil: Timestamp.nullable(),
    immutabilityEnforcement: z
      .enum(['application', 'none'])
      .describe(
        '`application`: the server refuses to remove it; stored data cannot be removed by the device. `none`: the device or the account of the bucket can remove the data.',
      ),
    retentionBlockedReason: z
      .enum(['legal_hold', 'in_use', 'immutable'])
      .nullable()
      .describe('Why no retention removes it now. `in_use`: a virtual machine runs from it.'),
    removedAt: Timestamp.nullable().describe(
      'Since when it is no longer in the repository. Until the trash of the store is emptied it can be read with `asOf`.',
    ),
    removedBecause: z.string().nullable(),
  })
  .meta({ id: 'BackupSnapshot' });

export const AsOf = instantOrDay('end')
  .optional()
  .describe(
    'The state of the repository at this time, by what the store had received: the way back after a false index, a wrong removal or forged snapshots. A day means its end.',
  );

export const SnapshotQuery = PageQuery.extend({
  orgId: Id.optional(),
  deviceId: Id.optional(),
  configId: Id.optional(),
  backupType: BackupType.optional(),
  vaultId: Id.optional().describe('The copies in this vault. Without it, no copy of a vault is listed.'),
  from: instantOrDay().optional().describe('Received at this time or later.'),
  to: instantOrDay('end').optional().describe('Received at this time or earlier.'),
  asOf: AsOf,
}).superRefine(noneBefore('from', 'to'));
export type SnapshotQuery = z.infer<typeof SnapshotQuery>;

export const LegalHoldChange = z
  .strictObject({
    enabled: z.boolean().default(true).describe('False releases it, which needs a second factor.'),
    reason: text(500).optional().describe('Required to set it.'),
  })
  .refine(({ enabled, reason }) => !enabled || reason !== undefined, {
    path: ['reason'],
    message: 'must say why the snapshot is held',
  });
export type LegalHoldChange = z.infer<typeof LegalHoldChange>;

export const IMMUTABLE_DAYS_MAX = 3650;
export const ImmutabilityChange = z
  .strictObject({
    immutableDays: z.number().int().min(1).max(IMMUTABLE_DAYS_MAX).optional().describe('From now on.'),
    extendUntil: instantOrDay('end').optional().describe('Of both, the later time counts.'),
    reason: text(500).optional().describe('For the audit trail.'),
  })
  .refine(({ immutableDays, extendUntil }) => immutableDays !== undefined || extendUntil !== undefined, {
    path: ['extendUntil'],
    message: 'must be given where immutableDays is not',
  });
export type ImmutabilityChange = z.infer<typeof ImmutabilityChange>;
