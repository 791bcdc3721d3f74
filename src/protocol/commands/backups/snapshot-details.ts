import { z } from 'zod';
import { atMost, reportedText } from '../../primitives.ts';

/** What a snapshot says of itself where it is more than files: what is needed to restore it, and to find its chain. */

const Bytes = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const name = () => reportedText(255, 0);

export const DatabaseEngine = z.enum(['postgresql', 'mariadb', 'mssql']);
export type DatabaseEngine = z.infer<typeof DatabaseEngine>;

export const DatabaseBackupType = z.enum(['full', 'differential', 'log']);
export type DatabaseBackupType = z.infer<typeof DatabaseBackupType>;

/**
 * A position in the log of a database, as its engine writes it: two hexadecimal numbers of PostgreSQL, one decimal number
 * of the others. SQL Server has 25 digits, which no number of JavaScript holds, so it is a text everywhere.
 */
export const LogPosition = z
  .string()
  .max(40)
  .regex(/^(?:[0-9A-F]{1,8}\/[0-9A-F]{1,8}|[0-9]{1,25})$/, 'must be a position in a log');

/** An instant by the clock of a database. */
const DatabaseInstant = z.iso
  .datetime({ offset: true })
  .max(40)
  .refine((at) => Date.parse(at) >= 0 && Date.parse(at) < Date.UTC(9999, 0), 'must be after 1970');

export const DatabaseDetails = z.object({
  kind: z.literal('database'),
  engine: DatabaseEngine,
  instance: name().describe('As `backup.databases` lists it.'),
  databases: atMost(1000, name()),
  backupType: DatabaseBackupType,
  version: name().describe('Of the server of the database.'),
  from: LogPosition.nullable().describe('The first position that the snapshot holds.'),
  to: LogPosition.nullable().describe('The position up to which it holds everything.'),
  branch: name()
    .nullable()
    .describe(
      'Logs join on one branch only: the cluster and timeline of PostgreSQL, the recovery fork of SQL Server.',
    ),
  basedOn: LogPosition.nullable().describe(
    'Of a differential backup: the position `to` of the full one that it needs.',
  ),
  recoverableFrom: DatabaseInstant.nullable().describe(
    'From this instant on a point in time can be chosen, with the logs that follow. Of a log: null.',
  ),
  recoverableTo: DatabaseInstant.nullable().describe(
    'Everything that was committed by this instant is in it, and in what it continues.',
  ),
  setId: name()
    .optional()
    .describe('Of SQL Server: the id of the backup in its own history, which a differential one names.'),
  logsHeldBy: z
    .enum(['slot', 'nobody'])
    .optional()
    .describe(
      'Whether the server keeps its logs until the next backup: by a replication slot, where that is bounded.',
    ),
});
export type DatabaseDetails = z.infer<typeof DatabaseDetails>;

export const BootMode = z.enum(['bios', 'uefi']);
export type BootMode = z.infer<typeof BootMode>;

export const Consistency = z
  .enum(['application', 'filesystem', 'crash', 'none'])
  .describe(
    '`crash`: as after a power cut. `none`: read while the machine went on writing; what changed meanwhile can be damaged.',
  );
export type Consistency = z.infer<typeof Consistency>;

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
        offset: Bytes.describe('Of its first byte in the only file of the snapshot.'),
        sectorBytes: z.number().int().positive(),
      }),
    )
    .max(64),
  bootMode: BootMode.nullable().describe('Null: not known, or the disks start in both ways.'),
  consistency: Consistency,
  memoryBytes: Bytes.nullable(),
  processors: z.number().int().positive().nullable(),
  system: name().nullable().describe('The operating system and its version.'),
});
export type ImageDetails = z.infer<typeof ImageDetails>;

export const HypervisorKind = z.enum(['hyperv', 'kvm']);
export type HypervisorKind = z.infer<typeof HypervisorKind>;

/** What a hypervisor calls its guest: never a pattern, never a name. */
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
        generation: z.number().int().min(1).max(99).nullable().describe('Of Hyper-V.'),
        bootMode: BootMode.nullable(),
        memoryBytes: Bytes.nullable(),
        processors: z.number().int().min(1).max(100_000).nullable(),
        consistency: Consistency,
        bytes: Bytes.describe('Of its files.'),
      }),
    )
    .min(1)
    .max(MACHINES_PER_SNAPSHOT),
});
export type MachinesDetails = z.infer<typeof MachinesDetails>;

export const SnapshotDetails = z.discriminatedUnion('kind', [DatabaseDetails, ImageDetails, MachinesDetails]);
export type SnapshotDetails = z.infer<typeof SnapshotDetails>;
