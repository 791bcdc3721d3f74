import { constants } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { EngineError, type MachineDisk } from '../../../engine/index.ts';
import { streamLines } from '../../os/processes/child-process.ts';
import { findProgram } from '../../os/processes/find-program.ts';
import { hasCode } from '../../os/files/private-file.ts';
import type { FoundDisk } from './find-disks.ts';
import { type Extent, parseFreeBlocks } from '../../os/partitions/free-blocks.ts';
import { readFrom } from '../../os/partitions/read-at.ts';
import { runSystemProgram } from '../../os/processes/system-program.ts';
import { type Region, splice } from './points/splice.ts';
import { describeTable, describeVolumes } from '../../os/partitions/volumes.ts';
import { readDisk } from '../../os/partitions/read-disk.ts';

/** Disks that are held open, with what is known of their content. */

export interface OpenedDisk {
  description: MachineDisk;
  /** Whether the first sector has a program that a BIOS would start. */
  hasBootCode: boolean;
  content(): AsyncGenerator<Buffer, void>;
  /** Rejects where a file was written to since it was opened. */
  confirm(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Of a disk in use nothing is left out: what is free now may be taken a moment later.
 * @param regions  parts of it that are read from somewhere else
 */
export async function openDisk(
  disk: FoundDisk,
  signal: AbortSignal,
  regions: readonly Region[] = [],
): Promise<OpenedDisk> {
  const { path, name, sizeBytes, sectorBytes, model, serial } = disk;
  const handle = await open(path, constants.O_RDONLY).catch((error: unknown) => {
    const why =
      hasCode(error, 'EACCES') || hasCode(error, 'EPERM') ? 'The agent may not read' : 'There is no';
    throw new EngineError('SOURCE_UNREADABLE', { message: `${why} disk ${path}.`, cause: error });
  });
  try {
    const before = disk.isFile ? await stateOf(path) : undefined;
    if (!disk.isFile) await forgetWhatWasRead(path);
    const read = splice(readFrom(handle), regions);
    const partitionTable = (await describeTable(read, sectorBytes)) ?? null;
    const volumes = await describeVolumes(read, { sizeBytes, partitionTable });
    const empty: Extent[] = [];
    for (const volume of disk.isInUse ? [] : volumes) {
      const free = await emptyParts(disk, volume, signal);
      if (free === undefined) continue;
      volume.content = volume.type === 'swap' ? 'header' : 'allocated';
      empty.push(...free);
    }
    const record = await read(0, 440);
    const holes = apart(empty);
    const contentBytes = holes.reduce((left, { start, end }) => left - (end - start), sizeBytes);
    return {
      description: { name, sizeBytes, sectorBytes, model, serial, partitionTable, volumes, contentBytes },
      hasBootCode: record.some((byte) => byte !== 0),
      content: () => readDisk({ read, sizeBytes, empty: holes }),
      async confirm() {
        if (before !== undefined && (await stateOf(path)) !== before) {
          throw new EngineError('SOURCE_UNREADABLE', {
            message: `The file ${path} was written to while it was read. Stop what uses it.`,
          });
        }
      },
      close: () => closeQuietly(handle),
    };
  } catch (error) {
    await closeQuietly(handle);
    throw error;
  }
}

/**
 * What was read of a disk before is kept by the kernel, while a file system writes past it: an image of a disk in use would
 * have its former content.
 */
const forgetWhatWasRead = (device: string) =>
  runSystemProgram('blockdev', ['--flushbufs', device]).catch(() => {});

/** A page with the signature, the name and the size. The rest holds nothing that a machine wants back. */
const SWAP_HEAD = 64 * 1024;

async function emptyParts(
  disk: FoundDisk,
  { type, offset, sizeBytes }: MachineDisk['volumes'][number],
  signal: AbortSignal,
): Promise<Extent[] | undefined> {
  if (type === 'swap') return [{ start: offset + Math.min(SWAP_HEAD, sizeBytes), end: offset + sizeBytes }];
  // The program takes what follows a question mark as options.
  if (type !== 'ext' || disk.path.includes('?')) return undefined;
  const program = await findProgram(['dumpe2fs'], `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`);
  if (program === undefined) return undefined;
  const lines = streamLines(program, [`${disk.path}?offset=${offset}`], { signal, maxLineLength: 4_000_000 });
  try {
    const found = await parseFreeBlocks(lines);
    const isWithin = (found?.free.at(-1)?.end ?? 0) <= sizeBytes;
    return isWithin
      ? found?.free.map(({ start, end }) => ({ start: offset + start, end: offset + end }))
      : undefined;
  } catch {
    signal.throwIfAborted();
    // What the program cannot read is backed up whole.
    return undefined;
  }
}

/** Ascending. Partitions that lie on each other are no reason to leave anything out. */
export function apart(extents: readonly Extent[]): Extent[] {
  const sorted = [...extents].sort((one, other) => one.start - other.start);
  const overlap = sorted.some(({ start }, index) => start < (sorted[index - 1]?.end ?? 0));
  return overlap ? [] : sorted;
}

async function stateOf(file: string): Promise<string> {
  const { size, mtimeNs } = await stat(file, { bigint: true });
  return `${size} ${mtimeNs}`;
}

const closeQuietly = (handle: FileHandle) => handle.close().catch(() => {});
