import { z } from 'zod';
import { Id, nfcText, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { CommandProgress } from '../../protocol/index.ts';
import {
  Provider,
  LocalDetails,
  S3Details,
  S3DetailsInput,
  S3DetailsPatch,
  ServerDetails,
} from './config.schema.ts';
import { BackupSchedule, isEverDue } from './schedule.ts';
import { SYNC_STATUSES } from './vault.model.ts';

const Schedule = BackupSchedule.refine(isEverDue, {
  path: ['time'],
  message: 'must name a minute that lies within the window in some hour',
});

const changeable = {
  name: nfcText(200).optional().describe('Default: Vault.'),
  isActive: z.boolean().optional().describe('Default true. A vault that is not active is not synced.'),
  syncAfterBackup: z
    .boolean()
    .optional()
    .describe('A sync begins after each backup that has succeeded. Default: true without a schedule.'),
  schedule: Schedule.nullable()
    .optional()
    .describe('Syncs by the clock, with or without those after backups.'),
  retentionCount: z
    .number()
    .int()
    .min(1)
    .max(100)
    .optional()
    .describe(
      'So many of the newest snapshots are copied, and with those of databases everything that they need. Default 3.',
    ),
  maxLagHours: z
    .number()
    .int()
    .min(1)
    .max(8760)
    .optional()
    .describe('An alert is raised if the vault lacks a snapshot for longer. Default 48.'),
};

const ofNew = {
  deviceId: Id,
  configId: Id.optional().describe(
    'The configuration whose backups of the device are copied. It may be left out if there is one only.',
  ),
  encryptionKeyId: Id.optional().describe(
    'The key of the copy, of the same organization. Default: that of the configuration. It cannot be changed.',
  ),
  ...changeable,
};

export const NewVault = z.discriminatedUnion('provider', [
  z.strictObject({ ...ofNew, provider: z.literal('server'), details: ServerDetails.optional() }),
  z.strictObject({ ...ofNew, provider: z.literal('s3'), details: S3DetailsInput }),
  z.strictObject({ ...ofNew, provider: z.literal('local'), details: LocalDetails }),
]);
export type NewVault = z.infer<typeof NewVault>;

/** Each field replaces the stored one as a whole. */
export const VaultPatch = z
  .strictObject({ ...changeable, details: z.union([S3DetailsPatch, LocalDetails, ServerDetails]) })
  .partial();
export type VaultPatch = z.infer<typeof VaultPatch>;

export const VaultQuery = PageQuery.extend({
  orgId: Id.optional(),
  deviceId: Id.optional(),
  isActive: z.stringbool().optional(),
});
export type VaultQuery = z.infer<typeof VaultQuery>;

export const DeleteVaultQuery = z.object({
  keepSnapshots: z
    .stringbool()
    .optional()
    .describe(
      'Keeps the copies. Otherwise the server removes those in its own store, and what is in a bucket or on the device stays there unnoticed.',
    ),
});
export type DeleteVaultQuery = z.infer<typeof DeleteVaultQuery>;

export const VaultDeleted = z.object({
  success: z.literal(true),
  keptSnapshots: z.number().int().nonnegative(),
});

const Failure = z.object({ code: z.string(), message: z.string() }).nullable();
/** A `bigint`, which the driver returns as text. */
const Count = z.preprocess(
  (value) => (typeof value === 'string' ? Number(value) : value),
  z.number().int().nonnegative().nullable(),
);

export const BackupVault = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    configId: z.uuid().nullable().describe('The configuration whose backups are copied; null if it is gone.'),
    name: z.string(),
    provider: Provider,
    details: z.union([S3Details, LocalDetails, ServerDetails]),
    encryptionKeyId: z.uuid().nullable(),
    isActive: z.boolean(),
    syncAfterBackup: z.boolean(),
    schedule: BackupSchedule.nullable(),
    retentionCount: z.number().int(),
    maxLagHours: z.number().int(),
    sourceRepositoryId: z.uuid(),
    repositoryId: z.uuid().describe('The repository that holds the copies.'),
    providerCapabilities: z
      .object({
        isAppendOnly: z.boolean(),
        servesEarlierStates: z.boolean(),
        prunedBy: z
          .enum(['server', 'nobody'])
          .describe('The side that removes copies beyond `retentionCount`.'),
      })
      .describe('The guarantees of the provider.'),
    nextSyncAt: Timestamp.nullable().describe('By the schedule, or after a sync that has failed.'),
    lastSyncAt: Timestamp.nullable().describe('When a sync has succeeded last.'),
    lastSyncStatus: z
      .enum(SYNC_STATUSES)
      .nullable()
      .describe('The status of the newest sync; null if there was none.'),
    lastSyncError: Failure.describe('Why the newest sync has failed.'),
    lastSyncSnapshotId: z.uuid().nullable().describe('The newest snapshot of the device that the vault has.'),
    syncSizeBytes: Count.describe('The bytes of the copies in the store; null elsewhere.'),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'BackupVault' });

export const NewSync = z.strictObject({
  snapshotId: Id.optional().describe('Copies only this snapshot of the device. Default: the newest ones.'),
});
export type NewSync = z.infer<typeof NewSync>;

export const VaultSync = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    vaultId: z.uuid(),
    reason: z
      .enum(['manual', 'backup', 'schedule'])
      .describe('`schedule`: also after a sync that has failed.'),
    snapshotId: z.uuid().nullable(),
    status: z.enum(SYNC_STATUSES),
    waitingFor: z.enum(['device', 'turn']).nullable().describe('Why it has not begun; null if it has.'),
    expiresAt: Timestamp.describe('A sync that has not begun by then fails.'),
    cancelRequestedAt: Timestamp.nullable(),
    commandId: z.uuid().nullable().describe('The command that the device has been given.'),
    progress: CommandProgress.omit({ id: true, seq: true })
      .nullable()
      .describe('`done` and `total` count snapshots.'),
    copiedSnapshots: z.number().int().nullable().describe('How many copies are new since the sync before.'),
    error: Failure,
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    startedAt: Timestamp.nullable(),
    finishedAt: Timestamp.nullable(),
  })
  .meta({ id: 'BackupVaultSync' });

export const VaultStatus = z
  .object({
    data: z.object({
      vaultId: z.uuid(),
      state: z
        .enum(['inactive', 'empty', 'current', 'behind'])
        .describe(
          '`empty`: it has no copy yet. `behind`: there are snapshots that are newer than its newest.',
        ),
      snapshots: z.number().int().describe('How many copies the vault has.'),
      lag: z
        .object({
          snapshots: z.number().int().describe('Snapshots that are newer than the newest copy.'),
          hours: z.number().describe('Since the oldest of them was received.'),
          isTooLong: z.boolean().describe('Longer than `maxLagHours`: an alert is open.'),
        })
        .describe('How far the vault is behind.'),
      lastSyncAt: Timestamp.nullable().describe('When a sync has succeeded last.'),
      lastError: Failure.describe('The error of the newest sync, if that has failed.'),
      nextSyncAt: Timestamp.nullable(),
      syncs: z.array(VaultSync).describe('The newest ten; the first may be in flight.'),
    }),
  })
  .meta({ id: 'BackupVaultStatus' });
