import { z } from 'zod';
import { BootMode, Consistency, IMAGE_DISKS_MAX, ImageDetails, reportedText } from '../protocol/index.ts';
import { EngineError } from './engine-error.ts';
import { encodeTarHeader, TAR_BLOCK, TAR_END, tarPaddingOf, decodeTarHeader, type TarHeader } from './tar.ts';

/**
 * The description in the first member of a machine's archive: everything needed to create a similar machine, except
 * the content of its disks. From a repository it is untrusted: a device, or anyone with the password, has written it.
 */

const Bytes = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const Word = reportedText(255, 0);
const Sector = z.number().int().min(512).max(65_536);

/** The name of a disk or file that is valid in an archive and in paths of every system. */
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
        /** Its number in the table, from 1. */
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

const VolumeType = z.enum(['ext', 'xfs', 'btrfs', 'vfat', 'ntfs', 'swap', 'lvm', 'luks', 'unknown']);
type VolumeType = z.infer<typeof VolumeType>;

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
  contentBytes: Bytes.optional().describe(
    'The bytes that are not known to be empty. Absent: the whole disk.',
  ),
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
    .max(IMAGE_DISKS_MAX)
    .refine(
      (disks) => new Set(disks.map(({ name }) => name)).size === disks.length,
      'must have different names',
    ),
});
export type MachineDescription = z.infer<typeof MachineDescription>;

/** The single file of a machine snapshot, and the layout of its content (docs/decisions/machine-images.md). */

export const MACHINE_FILE = 'machine.tar';
/** Its path in the snapshot. */
export const MACHINE_PATH = `/${MACHINE_FILE}`;

const DESCRIPTION_MEMBER = 'machine.json';
const DESCRIPTION_MAX = 1024 * 1024;

const diskMember = (name: string) => `disks/${name}.raw`;

export interface DiskPlace {
  name: string;
  sizeBytes: number;
  /** Offset of its first byte in the file. */
  offset: number;
}

interface MachineLayout {
  description: Buffer;
  disks: DiskPlace[];
  /** Size of the whole file. */
  sizeBytes: number;
}

/** Derived from the description alone. */
export function layoutOf(machine: MachineDescription): MachineLayout {
  const description = Buffer.from(`${JSON.stringify(MachineDescription.parse(machine), null, 2)}\n`);
  if (description.length > DESCRIPTION_MAX) throw new Error('The description of the machine is too large.');
  let at = TAR_BLOCK + description.length + tarPaddingOf(description.length);
  const disks = machine.disks.map(({ name, sizeBytes }) => {
    const offset = at + TAR_BLOCK;
    at = offset + sizeBytes + tarPaddingOf(sizeBytes);
    return { name, sizeBytes, offset };
  });
  return { description, disks, sizeBytes: at + TAR_END.length };
}

/** The summary of the machine in a snapshot's details. */
export function imageDetailsOf(machine: MachineDescription, disks: readonly DiskPlace[]): ImageDetails {
  const { source, bootMode, consistency, memoryBytes, processors, system } = machine;
  const sectors = new Map(machine.disks.map(({ name, sectorBytes }) => [name, sectorBytes]));
  return {
    kind: 'image',
    source,
    machine: machine.machine,
    disks: disks.map((disk) => ({ ...disk, sectorBytes: sectors.get(disk.name) ?? 512 })),
    bootMode,
    consistency,
    memoryBytes,
    processors,
    system,
  };
}

/** The bytes of one disk, in order. */
type DiskContent = (disk: DiskPlace) => AsyncIterable<Uint8Array>;

/** The whole file. Throws if a disk gives more or fewer bytes than the description says. */
export async function* writeMachine(
  machine: MachineDescription,
  contentOf: DiskContent,
): AsyncGenerator<Uint8Array, void> {
  const { description, disks } = layoutOf(machine);
  const modifiedAt = new Date(machine.takenAt);
  const header = (path: string, size: number) => encodeTarHeader({ path, type: 'file', size, modifiedAt });
  yield Buffer.concat([
    header(DESCRIPTION_MEMBER, description.length),
    description,
    Buffer.alloc(tarPaddingOf(description.length)),
  ]);
  for (const disk of disks) {
    yield header(diskMember(disk.name), disk.sizeBytes);
    yield* exactly(contentOf(disk), disk);
    if (tarPaddingOf(disk.sizeBytes) > 0) yield Buffer.alloc(tarPaddingOf(disk.sizeBytes));
  }
  yield TAR_END;
}

async function* exactly(
  content: AsyncIterable<Uint8Array>,
  { name, sizeBytes }: DiskPlace,
): AsyncGenerator<Uint8Array, void> {
  let left = sizeBytes;
  for await (const bytes of content) {
    left -= bytes.byteLength;
    if (left < 0) throw wrongSize(name);
    yield bytes;
  }
  if (left !== 0) throw wrongSize(name);
}

const wrongSize = (name: string) =>
  new EngineError('SOURCE_UNREADABLE', {
    message: `The disk ${name} has changed its size while it was read.`,
  });

interface FoundVolume {
  /** In the archive of the machine. */
  offset: number;
  sizeBytes: number;
}

/** The location of a volume of a machine; otherwise the part that does not exist, and those that do. */
export function findVolume(
  { description, disks }: OpenedMachine,
  { disk, partition = null }: { disk: string; partition?: number | null | undefined },
): { volume: FoundVolume } | { missing: 'disk' | 'partition'; known: string } {
  const place = disks.find(({ name }) => name === disk);
  const described = description.disks.find(({ name }) => name === disk);
  if (place === undefined || described === undefined) {
    return { missing: 'disk', known: disks.map(({ name }) => name).join(', ') };
  }
  const volume = described.volumes.find((each) => each.partition === partition);
  // The description is untrusted: a volume must not reach beyond its disk.
  if (volume === undefined || volume.offset + volume.sizeBytes > place.sizeBytes) {
    return { missing: 'partition', known: partitionsOf(described) };
  }
  return { volume: { offset: place.offset + volume.offset, sizeBytes: volume.sizeBytes } };
}

const partitionsOf = ({ volumes }: MachineDescription['disks'][number]): string =>
  volumes.map(({ partition, type }) => `${partition ?? 'none'} (${type})`).join(', ');

/** What `openContent` returns for a file. */
interface Content {
  length: number;
  read(range: { first: number; last: number }): AsyncIterable<Buffer>;
}

/** The same for a file in a repository. */
export const openMachineIn = (content: Content): Promise<OpenedMachine> =>
  openMachine(async (offset, length) => {
    const parts: Buffer[] = [];
    const last = Math.min(content.length, offset + length) - 1;
    if (offset <= last) for await (const part of content.read({ first: offset, last })) parts.push(part);
    return Buffer.concat(parts);
  });

/** Reads bytes of the machine's file. Returns fewer at its end. */
type ReadAt = (offset: number, length: number) => Promise<Uint8Array>;

export interface OpenedMachine {
  description: MachineDescription;
  disks: DiskPlace[];
}

/**
 * Finds the disks by the headers of the archive, and not by the offsets in its description. Reads some kilobytes, from
 * a mounted snapshot, a repository or a disk. Throws REPOSITORY_DAMAGED if the file is not the archive of a machine.
 */
export async function openMachine(readAt: ReadAt): Promise<OpenedMachine> {
  const first = await headerAt(readAt, 0);
  if (first?.name !== DESCRIPTION_MEMBER || first.type !== 'file' || first.size > DESCRIPTION_MAX) {
    throw damaged('It does not begin with the description of a machine.');
  }
  const description = parseDescription(await readAt(TAR_BLOCK, first.size));
  const disks: DiskPlace[] = [];
  let at = TAR_BLOCK + first.size + tarPaddingOf(first.size);
  for (const { name, sizeBytes } of description.disks) {
    const header = await headerAt(readAt, at);
    if (header?.name !== diskMember(name) || header.type !== 'file' || header.size !== sizeBytes) {
      throw damaged(`It does not have the disk ${name} as its description says.`);
    }
    disks.push({ name, sizeBytes, offset: at + TAR_BLOCK });
    at += TAR_BLOCK + sizeBytes + tarPaddingOf(sizeBytes);
  }
  if ((await headerAt(readAt, at)) !== undefined) throw damaged('It has more members than disks.');
  return { description, disks };
}

async function headerAt(readAt: ReadAt, offset: number): Promise<TarHeader | undefined> {
  const block = await readAt(offset, TAR_BLOCK);
  try {
    return decodeTarHeader(block);
  } catch (error) {
    throw damaged(error instanceof Error ? error.message : String(error));
  }
}

function parseDescription(bytes: Uint8Array): MachineDescription {
  let content: unknown;
  try {
    content = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw damaged('Its description is not JSON.');
  }
  const parsed = MachineDescription.safeParse(content);
  if (parsed.success) return parsed.data;
  throw damaged(`Its description has an unknown form: ${parsed.error.issues[0]?.message}`);
}

const damaged = (detail: string) =>
  new EngineError('REPOSITORY_DAMAGED', {
    message: 'The snapshot does not hold an image of a machine, or it is damaged.',
    detail,
  });
