import { z } from 'zod';
import { DiskName, SELECTED_MAX, SnapshotPath } from '../../engine/index.ts';
import { Id, instantOrDay, noneBefore, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import {
  CommandProgress,
  COMMANDS,
  DatabaseEngine,
  HypervisorKind,
  PartitionNumber,
  PATH_TEXT_MAX,
} from '../../protocol/index.ts';
import { AsOf } from './snapshot.schema.ts';

const STATUSES = ['pending', 'running', 'completed', 'partial', 'failed', 'cancelled'] as const;
/** Names that other products have for the same states. */
const ALIASES: Readonly<Record<string, string>> = { queued: 'pending', canceled: 'cancelled' };

const Overwrite = z.enum(['never', 'ifNewer', 'always']);
const RestoreType = z.enum(['full', 'selective', 'image']);

const PATHS_MAX = 1000;

/** A volume of an image, named as the browser of snapshots names it. */
const RestoredVolume = z
  .strictObject({
    machine: text(255).optional().describe('For a snapshot of several machines: the id or the name of one.'),
    disk: DiskName,
    partition: PartitionNumber.optional().describe('By its number. Left out for a disk without partitions.'),
  })
  .meta({ id: 'BackupRestoredVolume' });

export const NewRestore = z
  .strictObject({
    snapshotId: Id,
    deviceId: Id.optional().describe(
      'Default: the device that was backed up. Another one of its organization.',
    ),
    targetPath: text(4000)
      .optional()
      .describe(
        'An absolute path on the device, and not the root of a disk. The data comes there below its whole path. Default: a new folder of the agent, which the finished restore names.',
      ),
    selectedPaths: z
      .array(SnapshotPath.pipe(z.string().max(PATH_TEXT_MAX)).refine((path) => !/\p{Surrogate}/u.test(path)))
      .min(1)
      .max(PATHS_MAX)
      .refine((paths) => paths.join('').length <= SELECTED_MAX, {
        message: `must have at most ${SELECTED_MAX} characters in all`,
      })
      .optional()
      .meta({ type: 'array', items: { type: 'string' } })
      .describe(
        'Files and folders, by their paths as the browser of the snapshot, or of `volume`, shows them. Default: everything in it.',
      ),
    volume: RestoredVolume.optional().describe(
      'For an image: files come out of this volume, with a file system of ext2, ext3 or ext4, and not the image itself.',
    ),
    restoreType: RestoreType.optional().describe(
      '`selective` needs paths, and `full` takes none. `image`: one disk of an image comes to the file `targetPath`, which is made sparse, or onto the whole disk `targetPath` such as /dev/sdb, which needs `overwrite: always` and must not be mounted.',
    ),
    disk: DiskName.optional().describe('For an image: the disk to restore. Default: the only one.'),
    grow: z
      .boolean()
      .optional()
      .describe('For an image: the last partition reaches the end of a larger disk. Default: no.'),
    overwrite: Overwrite.default('never').describe('What happens to files that are there already.'),
    dryRun: z.boolean().default(false).describe('Nothing is written. The result counts what would be.'),
    asOf: AsOf,
  })
  .superRefine(({ restoreType, disk, grow, volume, ...wanted }, context) => {
    const { targetPath, overwrite, dryRun, selectedPaths } = wanted;
    const refuse = (field: string, message: string) =>
      context.addIssue({ code: 'custom', path: [field], message });
    if (restoreType === 'image') {
      if (targetPath === undefined) refuse('targetPath', 'must name a file or a disk');
      if (overwrite === 'ifNewer') refuse('overwrite', 'must be never or always for a disk');
      if (targetPath?.startsWith('/dev/') === true && overwrite !== 'always') {
        refuse('overwrite', 'must be always for a disk, whose content is lost');
      }
      if (dryRun) refuse('dryRun', 'is not possible for a disk');
      if (selectedPaths !== undefined) refuse('selectedPaths', 'cannot be taken out of a disk');
      if (volume !== undefined) refuse('volume', 'is for files, and restoreType image is for a whole disk');
      return;
    }
    if (disk !== undefined) {
      refuse('disk', 'belongs to restoreType image. Files of a disk come by volume.disk');
    }
    if (grow !== undefined) refuse('grow', 'belongs to restoreType image');
    if (restoreType === undefined || (restoreType === 'selective') === (selectedPaths !== undefined)) return;
    context.addIssue({
      code: 'custom',
      path: ['restoreType'],
      message: restoreType === 'selective' ? 'needs selectedPaths' : 'takes no selectedPaths',
    });
  });
export type NewRestore = z.infer<typeof NewRestore>;

export const RestoreQuery = PageQuery.extend({
  orgId: Id.optional(),
  deviceId: Id.optional().describe('The device that is restored to.'),
  snapshotId: Id.optional(),
  status: z
    .string()
    .transform((word) => ALIASES[word] ?? word)
    .pipe(z.enum(STATUSES))
    .optional()
    .meta({ type: 'string', enum: [...STATUSES] }),
  from: instantOrDay().optional().describe('Created at this time or later.'),
  to: instantOrDay('end').optional().describe('Created at this time or earlier.'),
}).superRefine(noneBefore('from', 'to'));
export type RestoreQuery = z.infer<typeof RestoreQuery>;

/** A `bigint`, which the driver returns as text. */
const Count = z.preprocess(
  (value) => (typeof value === 'string' ? Number(value) : value),
  z.number().int().nonnegative().nullable(),
);

export const RestoredDatabase = COMMANDS['backup.database-restore'].output.shape.database;

export const BackupRestore = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid().describe('The device that is restored to.'),
    snapshotId: z.uuid().nullable(),
    asOf: Timestamp.nullable(),
    restoreType: RestoreType,
    disk: z.string().nullable().describe('For an image: the disk that was named.'),
    selectedPaths: z.array(z.string()).nullable(),
    volume: RestoredVolume.nullable().describe('For files out of an image: the volume that they come from.'),
    targetPath: z.string().nullable().describe('Null until the device has named the folder that it made.'),
    fromPath: z
      .string()
      .nullable()
      .describe('For a recovery plan: the part of the snapshot that is restored to `targetPath` itself.'),
    overwrite: Overwrite,
    dryRun: z.boolean(),
    machine: z
      .object({
        hypervisor: HypervisorKind,
        name: z.string().nullable().describe('Its name or id in the snapshot; null: the only one.'),
        vmName: z.string().nullable().describe('Its new name when it is restored; null: as before.'),
        generateNewId: z.boolean(),
      })
      .nullable()
      .describe('For the restore of a machine of a hypervisor.'),
    status: z.enum(STATUSES).describe('`partial`: some paths could not be restored.'),
    waitingFor: z.enum(['device', 'turn']).nullable().describe('Why it has not begun; null if it has.'),
    expiresAt: Timestamp.describe('A restore that the device has not fetched by then fails.'),
    progress: CommandProgress.omit({ id: true, seq: true }).nullable(),
    stalledSince: Timestamp.nullable().describe(
      'Since when the restore has not advanced, if it runs and that is longer than 15 minutes.',
    ),
    restoredSize: Count,
    restoredFiles: Count,
    skippedFiles: Count.describe('Files that were there and that `overwrite` keeps.'),
    failed: z.object({
      count: Count,
      paths: z.array(z.object({ path: z.string(), message: z.string() })).describe('The first of them.'),
    }),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    database: z
      .object({
        engine: DatabaseEngine,
        pointInTime: z.string().nullable(),
        noRecovery: z.boolean(),
        snapshots: z.number().int().describe('How many are applied.'),
        targetDatabase: z.string().optional().describe('For SQL Server: the name of the new database.'),
        result: RestoredDatabase.nullable(),
      })
      .nullable()
      .describe('For the restore of a database; null for files.'),
    commandId: z.uuid().describe('The command that the device has been given last.'),
    attempts: z.number().int(),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
    startedAt: Timestamp.nullable(),
    completedAt: Timestamp.nullable(),
  })
  .meta({ id: 'BackupRestore' });
