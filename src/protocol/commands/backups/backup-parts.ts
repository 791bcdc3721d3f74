import { z } from 'zod';
import { reportedText, text } from '../../primitives.ts';
import { PATH_TEXT_MAX } from '../../path-text.ts';
import { SecretRef } from '../secrets.ts';
import { SnapshotDetails } from './snapshot-details.ts';

/** What the commands of backups share. */

/** Where a repository is, as a device reaches it. */
export const BackupDestination = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('server'),
    path: z
      .string()
      .startsWith('/')
      .max(500)
      .describe('Below the address of the server that the device is enrolled at.'),
    user: text(100),
    secret: SecretRef,
  }),
  z.object({
    type: z.literal('s3'),
    endpoint: z.url({ protocol: /^https$/ }),
    bucket: text(63),
    prefix: text(500).optional(),
    region: text(50).optional(),
    accessKey: text(200),
    secret: SecretRef,
  }),
  z.object({ type: z.literal('local'), path: text(1500) }),
]);
export type BackupDestination = z.infer<typeof BackupDestination>;

export const BackupRepositoryAccess = z.object({
  destination: BackupDestination,
  password: SecretRef.describe('What opens the repository.'),
  keyHint: text(64).optional().describe('The id of the key that the password opens.'),
  isNew: z
    .boolean()
    .optional()
    .describe(
      'True where no snapshot of the repository is known: the device then makes it where there is none. Never of the store of the server.',
    ),
});
export type BackupRepositoryAccess = z.infer<typeof BackupRepositoryAccess>;

/** The id of a snapshot in its repository. */
export const EngineId = z.string().regex(/^[0-9a-f]{64}$/);
/** The place of a partition in the table of its disk. */
export const PartitionNumber = z.number().int().min(1).max(65_535);
export const Count = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);

/** At most so many paths are named; the count says how many there were. */
export const NAMED_PATHS_MAX = 200;
export const NamedPaths = z.object({
  count: Count,
  paths: z
    .array(z.object({ path: reportedText(PATH_TEXT_MAX, 0), message: reportedText(500, 0) }))
    .max(NAMED_PATHS_MAX)
    .describe(`The first ${NAMED_PATHS_MAX}.`),
});

/** How long a backup or a restore may take. */
export const BACKUP_TIMEOUT_SECONDS = 86_400;

export const DestinationRoom = z
  .object({ freeBytes: Count, totalBytes: Count })
  .optional()
  .describe('Of the disk of the destination, where it is one that the device sees.');
export type DestinationRoom = z.infer<typeof DestinationRoom>;

/** What a device reports of a backup that has made a snapshot, whatever was backed up. */
export const BackupResult = z.object({
  status: z
    .enum(['completed', 'partial'])
    .describe('`partial`: some paths could not be read. The snapshot has everything else.'),
  snapshotId: EngineId.nullable().describe(
    'null where the agent has not found it out: the store of the server knows it by itself.',
  ),
  takenAt: reportedText(40)
    .optional()
    .describe('When the backup began, by the clock of the device: ISO 8601.'),
  filesNew: Count,
  filesChanged: Count,
  filesUnmodified: Count,
  bytesProcessed: Count,
  bytesAdded: Count.describe('What the snapshot added to the repository.'),
  seconds: z.number().nonnegative(),
  unreadable: NamedPaths,
  leftOut: NamedPaths.optional().describe(
    'Virtual file systems below the sources, such as /proc, which are never backed up. The message is the type.',
  ),
  emptySources: z
    .array(reportedText(PATH_TEXT_MAX, 0))
    .max(200)
    .optional()
    .describe('Sources that are there and have no file, as the folder of a disk that is not mounted.'),
  destinationRoom: DestinationRoom,
  shadowCopies: z
    .object({
      used: z.boolean().describe('False: the files were read as they are, and those in use may be missing.'),
      problems: z
        .array(z.object({ volume: reportedText(1000, 0), message: reportedText(500, 0) }))
        .max(50)
        .describe('Volumes without a shadow copy. An empty name: all of them.'),
      isCut: z.boolean().optional().describe('True: there were more such volumes.'),
    })
    .optional()
    .describe('Of files on Windows: whether they were read from shadow copies of their volumes.'),
  details: SnapshotDetails.optional().describe('Of a snapshot that is more than files.'),
});
export type BackupResult = z.infer<typeof BackupResult>;
