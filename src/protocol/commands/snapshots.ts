import { z } from 'zod';
import { atMost, reportedText, text } from '../primitives.ts';
import { PATH_TEXT_MAX } from '../path-text.ts';
import { SecretRef } from './shape.ts';

/** The details of a snapshot that is more than files: what a restore needs, and what identifies its chain. */

const Bytes = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const name = () => reportedText(255, 0);

export const DatabaseEngine = z.enum(['postgresql', 'mariadb', 'mssql']);
export type DatabaseEngine = z.infer<typeof DatabaseEngine>;

export const DatabaseBackupType = z.enum(['full', 'differential', 'log']);
export type DatabaseBackupType = z.infer<typeof DatabaseBackupType>;

/**
 * A position in the log of a database, in the format of its engine: two hexadecimal numbers for PostgreSQL, one
 * decimal number for the others. SQL Server uses 25 digits, more than a JavaScript number can represent, so it is
 * always text.
 */
export const LogPosition = z
  .string()
  .max(40)
  .regex(/^(?:[0-9A-F]{1,8}\/[0-9A-F]{1,8}|[0-9]{1,25})$/, 'must be a position in a log');

/** A time from the clock of a database. */
const DatabaseInstant = z.iso
  .datetime({ offset: true })
  .max(40)
  .refine((at) => Date.parse(at) >= 0 && Date.parse(at) < Date.UTC(9999, 0), 'must be after 1970');

/** A server with more databases is backed up completely, and only some are listed. */
export const DATABASES_MAX = 1000;

export const DatabaseDetails = z.object({
  kind: z.literal('database'),
  engine: DatabaseEngine,
  instance: name().describe('As `backup.databases` lists it.'),
  databases: atMost(DATABASES_MAX, name()),
  databaseCount: z
    .number()
    .int()
    .optional()
    .describe('The total number, if more were backed up than are listed.'),
  backupType: DatabaseBackupType,
  version: name().describe('Version of the database server.'),
  from: LogPosition.nullable().describe('The first position that the snapshot holds.'),
  to: LogPosition.nullable().describe('The position up to which it holds everything.'),
  branch: name()
    .nullable()
    .describe(
      'Logs join only within one branch: the cluster and timeline of PostgreSQL, the recovery fork of SQL Server.',
    ),
  basedOn: LogPosition.nullable().describe(
    'For a differential backup: the position `to` of the full one that it needs.',
  ),
  recoverableFrom: DatabaseInstant.nullable().describe(
    'The earliest point in time that can be chosen with the logs that follow. For a log: null.',
  ),
  recoverableTo: DatabaseInstant.nullable().describe(
    'Everything that was committed by this time is in the snapshot and the chain before it.',
  ),
  setId: name()
    .optional()
    .describe('For SQL Server: the id of the backup in its own history, to which a differential one refers.'),
  logsHeldBy: z
    .enum(['slot', 'nobody'])
    .optional()
    .describe(
      'Whether the server keeps its logs until the next backup: by a replication slot, if its size is limited.',
    ),
});
export type DatabaseDetails = z.infer<typeof DatabaseDetails>;

export const BootMode = z.enum(['bios', 'uefi']);
export type BootMode = z.infer<typeof BootMode>;

export const Consistency = z
  .enum(['application', 'filesystem', 'crash', 'none'])
  .describe(
    '`crash`: as after a power failure. `none`: read while the machine kept writing; data that changed meanwhile may be damaged.',
  );
export type Consistency = z.infer<typeof Consistency>;

/** Images of a machine with more disks contain only some of them. */
export const IMAGE_DISKS_MAX = 256;

export const ImageDetails = z.object({
  kind: z.literal('image'),
  source: z
    .enum(['disk', 'kvm', 'hyperv'])
    .describe('The disks of the device itself, or those of a guest on it.'),
  machine: name().describe('The name of the machine whose disks these are.'),
  disks: z
    .array(
      z.object({
        name: name(),
        sizeBytes: Bytes,
        offset: Bytes.describe('Offset of its first byte in the only file of the snapshot.'),
        sectorBytes: z.number().int().positive(),
      }),
    )
    .max(IMAGE_DISKS_MAX),
  bootMode: BootMode.nullable().describe('Null: unknown, or the disks start in both ways.'),
  consistency: Consistency,
  memoryBytes: Bytes.nullable(),
  processors: z.number().int().positive().nullable(),
  system: name().nullable().describe('The operating system and its version.'),
});
export type ImageDetails = z.infer<typeof ImageDetails>;

export const HypervisorKind = z.enum(['hyperv', 'kvm']);
export type HypervisorKind = z.infer<typeof HypervisorKind>;

/** The identifier of a guest in its hypervisor: never a pattern, never a name. */
export const MachineId = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/, 'must be the id of a machine');

export const MACHINES_PER_SNAPSHOT = 500;

export const MachinesDetails = z.object({
  kind: z.literal('machines'),
  hypervisor: HypervisorKind,
  machines: z
    .array(
      z.object({
        id: MachineId,
        name: name(),
        generation: z.number().int().min(1).max(99).nullable().describe('For Hyper-V only.'),
        bootMode: BootMode.nullable(),
        memoryBytes: Bytes.nullable(),
        processors: z.number().int().min(1).max(100_000).nullable(),
        consistency: Consistency,
        bytes: Bytes.describe('The size of its files.'),
      }),
    )
    .min(1)
    .max(MACHINES_PER_SNAPSHOT),
});
export type MachinesDetails = z.infer<typeof MachinesDetails>;

export const SnapshotDetails = z.discriminatedUnion('kind', [DatabaseDetails, ImageDetails, MachinesDetails]);
export type SnapshotDetails = z.infer<typeof SnapshotDetails>;

/** Schemas that all backup commands share. */

/** The location of a repository, as the device reaches it. */
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
  password: SecretRef.describe('The password of the repository.'),
  keyHint: text(64).optional().describe('The id of the key that the password opens.'),
  isNew: z
    .boolean()
    .optional()
    .describe(
      'True if no snapshot of the repository is known: the device then creates the repository if it does not exist. Never for the store of the server.',
    ),
});
export type BackupRepositoryAccess = z.infer<typeof BackupRepositoryAccess>;

/** The id of a snapshot in its repository. */
export const EngineId = z.string().regex(/^[0-9a-f]{64}$/);
/** The number of a partition in the table of its disk. */
export const PartitionNumber = z.number().int().min(1).max(65_535);
export const Count = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);

/** At most this many paths are named; the count is the total number. */
export const NAMED_PATHS_MAX = 200;
export const NamedPaths = z.object({
  count: Count,
  paths: z
    .array(z.object({ path: reportedText(PATH_TEXT_MAX, 0), message: reportedText(500, 0) }))
    .max(NAMED_PATHS_MAX)
    .describe(`The first ${NAMED_PATHS_MAX}.`),
});

/** The longest duration of a backup or a restore. */
export const BACKUP_TIMEOUT_SECONDS = 86_400;

export const DestinationRoom = z
  .object({ freeBytes: Count, totalBytes: Count })
  .optional()
  .describe('Free space of the disk of the destination, if the device can measure it.');
export type DestinationRoom = z.infer<typeof DestinationRoom>;

/** The report of a device about a backup that has made a snapshot, for every kind of source. */
export const BackupResult = z.object({
  status: z
    .enum(['completed', 'partial'])
    .describe('`partial`: some paths could not be read. The snapshot contains everything else.'),
  snapshotId: EngineId.nullable().describe(
    'null if the agent does not know it: the store of the server does.',
  ),
  takenAt: reportedText(40)
    .optional()
    .describe('When the backup began, in the time of the device: ISO 8601.'),
  filesNew: Count,
  filesChanged: Count,
  filesUnmodified: Count,
  bytesProcessed: Count,
  bytesAdded: Count.describe('The data that the snapshot added to the repository.'),
  seconds: z.number().nonnegative(),
  unreadable: NamedPaths,
  leftOut: NamedPaths.optional().describe(
    'Virtual file systems below the sources, such as /proc, which are never backed up. The message is the type.',
  ),
  emptySources: z
    .array(reportedText(PATH_TEXT_MAX, 0))
    .max(200)
    .optional()
    .describe('Existing sources without files, such as the mount point of a disk that is not mounted.'),
  destinationRoom: DestinationRoom,
  shadowCopies: z
    .object({
      used: z.boolean().describe('False: the files were read directly, and open ones may be missing.'),
      problems: z
        .array(z.object({ volume: reportedText(1000, 0), message: reportedText(500, 0) }))
        .max(50)
        .describe('Volumes without a shadow copy. An empty name: all of them.'),
      isCut: z.boolean().optional().describe('True if there were more such volumes.'),
    })
    .optional()
    .describe('For files on Windows: whether they were read from shadow copies of their volumes.'),
  details: SnapshotDetails.optional().describe('Present for a snapshot that is more than files.'),
});
export type BackupResult = z.infer<typeof BackupResult>;
