import type { ImageDetails } from '../../protocol/index.ts';
import { EngineError } from '../engine-error.ts';
import type { MachineDescription } from './description.ts';
import { MachineDescription as Description } from './description.ts';
import { BLOCK, encodeHeader, paddingOf } from './tar-block.ts';

/** The one file of a snapshot of a machine, and where everything stands in it (docs/decisions/machine-images.md). */

export const MACHINE_FILE = 'machine.tar';
/** Its path in the snapshot. */
export const MACHINE_PATH = `/${MACHINE_FILE}`;

export const DESCRIPTION_MEMBER = 'machine.json';
export const DESCRIPTION_MAX = 1024 * 1024;

export const diskMember = (name: string) => `disks/${name}.raw`;

export interface DiskPlace {
  name: string;
  sizeBytes: number;
  /** Of its first byte in the file. */
  offset: number;
}

export interface MachineLayout {
  description: Buffer;
  disks: DiskPlace[];
  /** Of the whole file. */
  sizeBytes: number;
}

/** Follows from the description alone. */
export function layoutOf(machine: MachineDescription): MachineLayout {
  const description = Buffer.from(`${JSON.stringify(Description.parse(machine), null, 2)}\n`);
  if (description.length > DESCRIPTION_MAX) throw new Error('The description of the machine is too large.');
  let at = BLOCK + description.length + paddingOf(description.length);
  const disks = machine.disks.map(({ name, sizeBytes }) => {
    const offset = at + BLOCK;
    at = offset + sizeBytes + paddingOf(sizeBytes);
    return { name, sizeBytes, offset };
  });
  return { description, disks, sizeBytes: at + 2 * BLOCK };
}

/** What a snapshot says of the machine in it. */
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

/** The bytes of one disk, from the first to the last. */
export type DiskContent = (disk: DiskPlace) => AsyncIterable<Uint8Array>;

/** The whole file. Throws where a disk gives more or fewer bytes than the description says. */
export async function* writeMachine(
  machine: MachineDescription,
  contentOf: DiskContent,
): AsyncGenerator<Uint8Array, void> {
  const { description, disks } = layoutOf(machine);
  const modifiedAt = new Date(machine.takenAt);
  const header = (name: string, size: number) => encodeHeader({ name, size }, modifiedAt);
  yield Buffer.concat([
    header(DESCRIPTION_MEMBER, description.length),
    description,
    Buffer.alloc(paddingOf(description.length)),
  ]);
  for (const disk of disks) {
    yield header(diskMember(disk.name), disk.sizeBytes);
    yield* exactly(contentOf(disk), disk);
    if (paddingOf(disk.sizeBytes) > 0) yield Buffer.alloc(paddingOf(disk.sizeBytes));
  }
  yield Buffer.alloc(2 * BLOCK);
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
