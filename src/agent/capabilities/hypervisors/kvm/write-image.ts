import { type FileHandle, open } from 'node:fs/promises';
import { clock } from '../../../../clock.ts';
import { layoutOf, type MachineDescription, writeMachine } from '../../../../engine/index.ts';
import { MachineErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { readDisk } from '../../../os/partitions/read-disk.ts';
import { describeTable, describeVolumes } from '../../../os/partitions/volumes.ts';
import { openImage } from '../../../os/qemu/image-server.ts';
import type { NbdDisk } from '../../../os/qemu/nbd-client.ts';
import type { Domain, DomainDisk } from './domain.ts';

/** Writes the disks of a machine as one archive, in the form of docs/decisions/machine-images.md. */

type Consistency = MachineDescription['consistency'];

export interface ImageOrder {
  program: string;
  domain: Domain;
  /** What is read of each disk: all of it stands still, or nobody writes to it. */
  disks: readonly DomainDisk[];
  consistency: Consistency;
  file: string;
  onBytes?: ((bytes: number) => void) | undefined;
}

export async function writeImage(order: ImageOrder, signal: AbortSignal): Promise<void> {
  const { program, domain, disks, consistency, file, onBytes } = order;
  const opened = new Map<string, NbdDisk>();
  try {
    const described: MachineDescription['disks'] = [];
    for (const disk of disks) {
      const { path: source, format } = disk;
      if (source === null || format === null) throw new Error(`the disk ${disk.target} was not checked`);
      const content = await openImage(program, { file: source, format }, signal);
      opened.set(disk.target, content);
      described.push(await describeDisk(disk, content));
    }
    const machine: MachineDescription = {
      format: 'muster-machine',
      version: 1,
      source: 'kvm',
      machine: domain.name.slice(0, 255),
      system: domain.system,
      takenAt: clock.date().toISOString(),
      bootMode: domain.bootMode,
      consistency,
      memoryBytes: domain.memoryBytes,
      processors: domain.processors,
      hardware: null,
      fstab: null,
      disks: described,
    };
    const contentOf = ({ name, sizeBytes }: { name: string; sizeBytes: number }) => {
      const content = opened.get(name);
      if (content === undefined) throw new Error(`no disk ${name} was opened`);
      return readDisk({ read: content.read, sizeBytes, empty: [] });
    };
    await writeSparse(file, writeMachine(machine, contentOf), layoutOf(machine).sizeBytes, {
      onBytes,
      signal,
    });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AgentError) throw error;
    throw new AgentError(
      MachineErrorCode.failed,
      `The disks of the machine could not be copied: ${error instanceof Error ? error.message : String(error)}`,
    );
  } finally {
    for (const disk of opened.values()) disk.close();
  }
}

async function describeDisk(
  { target: name, sectorBytes, serial }: DomainDisk,
  { sizeBytes, read }: NbdDisk,
): Promise<MachineDescription['disks'][number]> {
  const partitionTable = (await describeTable(read, sectorBytes)) ?? null;
  const volumes = await describeVolumes(read, { sizeBytes, partitionTable });
  return { name, sizeBytes, sectorBytes, model: null, serial, partitionTable, volumes };
}

/** What is zero becomes a hole, so that the copy takes the room of what the disks hold. */
async function writeSparse(
  file: string,
  content: AsyncIterable<Uint8Array>,
  sizeBytes: number,
  { onBytes, signal }: { onBytes?: ((bytes: number) => void) | undefined; signal: AbortSignal },
): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    let at = 0;
    for await (const bytes of content) {
      signal.throwIfAborted();
      if (!isZero(bytes)) await writeAll(handle, bytes, at);
      at += bytes.byteLength;
      onBytes?.(at);
    }
    await handle.truncate(sizeBytes);
  } finally {
    await handle.close();
  }
}

async function writeAll(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  let done = 0;
  while (done < bytes.byteLength) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.byteLength - done, position + done);
    done += bytesWritten;
  }
}

const ZEROS = Buffer.alloc(1024 * 1024);

const isZero = (bytes: Uint8Array) =>
  bytes.byteLength <= ZEROS.length && ZEROS.subarray(0, bytes.byteLength).equals(bytes);
