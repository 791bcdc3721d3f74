import { z } from 'zod';
import { BootMode, Consistency, ImageDetails, reportedText } from '../../protocol/index.ts';

/**
 * What the first member of a machine's archive says: what is needed to make a machine like it, beside the content of its
 * disks. Read from a repository it is the word of a device, or of anyone who knows the repository's password.
 */

const Bytes = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const Word = reportedText(255, 0);
const Sector = z.number().int().min(512).max(65_536);

/** A disk or a file by a name that can stand in an archive and in a path of every system. */
export const DiskName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$/, 'must be letters, digits, dots, hyphens and underscores');

/** As `sfdisk --json` shows it. Numbers are in sectors. */
export const PartitionTable = z.object({
  label: z.enum(['gpt', 'dos']),
  id: Word,
  unit: z.literal('sectors'),
  firstlba: Bytes.optional(),
  lastlba: Bytes.optional(),
  sectorsize: Sector,
  partitions: z
    .array(
      z.object({
        /** Its place in the table, from 1. */
        number: z.number().int().positive().max(65_535),
        start: Bytes,
        size: Bytes,
        type: Word,
        uuid: Word.optional(),
        name: Word.optional(),
        bootable: z.boolean().optional(),
      }),
    )
    .max(256),
});
export type PartitionTable = z.infer<typeof PartitionTable>;

export const VolumeType = z.enum(['ext', 'xfs', 'btrfs', 'vfat', 'ntfs', 'swap', 'lvm', 'luks', 'unknown']);
export type VolumeType = z.infer<typeof VolumeType>;

export const MachineVolume = z.object({
  partition: z.number().int().positive().nullable().describe('Null: the whole disk, without partitions.'),
  offset: Bytes,
  sizeBytes: Bytes,
  type: VolumeType,
  uuid: Word.nullable(),
  label: Word.nullable(),
  content: z
    .enum(['whole', 'allocated', 'header'])
    .describe('`allocated`: free blocks are zeros. `header`: only the head; the rest is zeros.'),
});
export type MachineVolume = z.infer<typeof MachineVolume>;

export const MachineDisk = z.object({
  name: DiskName,
  sizeBytes: Bytes,
  sectorBytes: Sector,
  model: Word.nullable(),
  serial: Word.nullable(),
  partitionTable: PartitionTable.nullable(),
  volumes: z.array(MachineVolume).max(256),
  contentBytes: Bytes.optional().describe('What is not known to be empty. Absent: the whole disk.'),
});
export type MachineDisk = z.infer<typeof MachineDisk>;

export const MachineDescription = z.object({
  format: z.literal('muster-machine'),
  version: z.literal(1),
  source: ImageDetails.shape.source,
  machine: Word,
  system: Word.nullable(),
  takenAt: z.iso.datetime(),
  bootMode: BootMode.nullable(),
  consistency: Consistency,
  memoryBytes: Bytes.nullable(),
  processors: z.number().int().positive().nullable(),
  hardware: z
    .object({
      vendor: Word.nullable(),
      product: Word.nullable(),
      serial: Word.nullable(),
      board: Word.nullable(),
    })
    .nullable(),
  fstab: reportedText(65_536, 0).nullable(),
  disks: z
    .array(MachineDisk)
    .min(1)
    .max(64)
    .refine(
      (disks) => new Set(disks.map(({ name }) => name)).size === disks.length,
      'must have different names',
    ),
});
export type MachineDescription = z.infer<typeof MachineDescription>;
