import { z } from 'zod';
import { reportedText, text } from '../primitives.ts';
import {
  BackupDestination,
  BackupRepositoryAccess,
  BackupResult,
  Count,
  DestinationRoom,
  EngineId,
  NAMED_PATHS_MAX,
  NamedPaths,
  PartitionNumber,
  BACKUP_TIMEOUT_SECONDS,
} from './snapshots.ts';
import { PATH_TEXT_MAX } from '../path-text.ts';
import type { CommandTable } from './shape.ts';

/**
 * Backups on a device. Users start them by separate routes, so a device never gets a payload that a user has written.
 */

/** The most snapshots that one command copies. */
export const VAULT_SYNC_SNAPSHOTS_MAX = 100;

/**
 * A capability: the agent supports backups, but restic is not installed. When restic is installed later, the agent
 * connects again without this capability.
 */
export const ENGINE_MISSING_CAPABILITY = 'backup.engine-missing';

/** A path of the device, as `pathText` writes it. */
const pathTextOf = () => text(PATH_TEXT_MAX);

const RestoreOrder = z.object({
  restoreId: z.uuid(),
  repository: BackupRepositoryAccess,
  snapshotId: EngineId,
  selectedPaths: z.array(pathTextOf()).min(1).max(1000).optional().describe('Default: everything.'),
  targetPath: pathTextOf().optional().describe('Default: a new folder of the agent.'),
  overwrite: z.enum(['never', 'ifNewer', 'always']),
  dryRun: z.boolean(),
  timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
});

const RestoredFiles = z.object({
  status: z.enum(['completed', 'partial']),
  targetPath: reportedText(PATH_TEXT_MAX, 0),
  filesRestored: Count,
  bytesRestored: Count,
  filesSkipped: Count.describe('Existing files that `overwrite` keeps.'),
  seconds: z.number().nonnegative(),
  failed: NamedPaths,
  planned: z
    .array(z.object({ path: reportedText(PATH_TEXT_MAX, 0), sizeBytes: Count, replaces: z.boolean() }))
    .max(NAMED_PATHS_MAX)
    .optional()
    .describe(`After a dry run: the first ${NAMED_PATHS_MAX} files that would be written.`),
});

export const BACKUP_COMMANDS = {
  'backup.run': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      jobId: z.uuid(),
      repository: BackupRepositoryAccess,
      host: text(255).describe('The name under which the snapshot is stored.'),
      paths: z.array(pathTextOf()).min(1).max(200),
      excludes: z.array(text(1000)).max(200),
      oneFileSystem: z.boolean(),
      uploadKiBps: z.number().int().positive().optional(),
      cpuPercent: z.number().int().min(1).max(100).optional(),
      timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
    }),
    output: BackupResult,
  },
  'backup.image': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      jobId: z.uuid(),
      repository: BackupRepositoryAccess,
      host: text(255).describe('The name under which the snapshot is stored.'),
      disks: z
        .union([z.literal('all'), z.array(text(4096)).min(1).max(64)])
        .describe(
          'Names of disks, or absolute paths of files that each hold a whole disk. `all`: every fixed disk.',
        ),
      excludeDisks: z.array(text(4096)).max(64),
      uploadKiBps: z.number().int().positive().optional(),
      cpuPercent: z.number().int().min(1).max(100).optional(),
      timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
    }),
    output: BackupResult,
  },
  'backup.restore': {
    lane: 'bulk',
    isOfServer: true,
    payload: RestoreOrder.extend({
      from: pathTextOf()
        .optional()
        .describe(
          'A file or a folder of the snapshot, which is restored as `targetPath` itself and not below its whole path.',
        ),
    }),
    output: RestoredFiles,
  },
  'backup.image-files-restore': {
    lane: 'bulk',
    isOfServer: true,
    payload: RestoreOrder.extend({
      volume: z
        .object({
          imagePath: text(4096).describe('The archive of the machine in the snapshot.'),
          disk: text(100),
          partition: PartitionNumber.optional().describe('Absent for a disk without partitions.'),
        })
        .describe('Selected paths begin at its root.'),
    }),
    output: RestoredFiles,
  },
  'backup.image-restore': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      restoreId: z.uuid(),
      repository: BackupRepositoryAccess,
      snapshotId: EngineId,
      disk: text(100).optional().describe('The name of a disk of the image. Default: the only one.'),
      targetPath: text(4096).describe('A file, which is made sparse, or a whole disk.'),
      overwrite: z.enum(['never', 'always']),
      grow: z.boolean().describe('Grows the last partition to the end of a larger target.'),
      timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
    }),
    output: z.object({
      status: z.enum(['completed', 'partial']).describe('`partial`: a check of the written disk has failed.'),
      targetPath: reportedText(4096, 0),
      filesRestored: Count,
      bytesRestored: Count,
      filesSkipped: Count,
      seconds: z.number().nonnegative(),
      failed: NamedPaths.describe('The checks that have failed.'),
      sha256: EngineId.describe('Hash of the disk as it was read back from the target.'),
    }),
  },
  'backup.verify': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      verificationId: z.uuid(),
      repository: BackupRepositoryAccess,
      snapshotId: EngineId,
      paths: z.array(pathTextOf()).min(1).max(100).describe('The files of the sample.'),
      timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
    }),
    output: z.object({
      files: z
        .array(
          z.object({
            path: reportedText(PATH_TEXT_MAX, 0),
            sha256: EngineId.nullable().describe('Hash of the restored file; null if it was not restored.'),
            sizeBytes: Count,
          }),
        )
        .max(100),
      seconds: z.number().nonnegative(),
    }),
  },
  'backup.vault-sync': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      syncId: z.uuid(),
      source: BackupRepositoryAccess,
      vault: BackupRepositoryAccess.describe('Snapshots of the source are copied into this repository.'),
      snapshotIds: z
        .array(EngineId)
        .min(1)
        .max(VAULT_SYNC_SNAPSHOTS_MAX)
        .describe('The snapshots of the source that the vault must contain.'),
      uploadKiBps: z.number().int().positive().optional(),
      timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
    }),
    output: z.object({
      copies: z
        .array(z.object({ source: EngineId, copy: EngineId }))
        .max(VAULT_SYNC_SNAPSHOTS_MAX)
        .describe('The copies that the vault contains now, including earlier ones. A copy has its own id.'),
      seconds: z.number().nonnegative(),
      destinationRoom: DestinationRoom,
    }),
  },
  'backup.test-destination': {
    lane: 'interactive',
    isOfServer: true,
    payload: z.object({
      destination: BackupDestination,
      timeoutSeconds: z.number().int().min(1).max(300),
    }),
    output: z.object({
      checks: z
        .array(
          z.object({
            name: reportedText(50),
            ok: z.boolean(),
            code: reportedText(64, 0).optional(),
            message: reportedText(500, 0).optional(),
          }),
        )
        .max(20),
    }),
  },
} as const satisfies CommandTable;
