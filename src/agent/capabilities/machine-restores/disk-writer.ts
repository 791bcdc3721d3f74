import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { decodeTarHeader, TAR_BLOCK } from '../../../engine/index.ts';
import { type ImageDetails, shortened } from '../../../protocol/index.ts';
import { readOutput } from '../../os/child-process.ts';
import { machineError } from './machine-error.ts';

/** Writes the disks of an image to files, as the archive comes from the repository. */

const BLOCK = 64 * 1024;
const ZEROS = Buffer.alloc(BLOCK);
const NEW = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

interface Part {
  start: number;
  end: number;
  file: string;
}

/**
 * Blocks of zeros stay holes: a disk of 100 GB with 5 GB in it takes 5 GB.
 * @returns the files, in the order of the disks
 */
export async function writeDisks(
  archive: Readable,
  { disks }: ImageDetails,
  folder: string,
  onBytes: (bytes: number) => void,
): Promise<string[]> {
  const parts = disks.map(
    ({ offset, sizeBytes }, index): Part => ({
      start: offset,
      end: offset + sizeBytes,
      file: path.join(folder, `disk${index}.raw`),
    }),
  );
  const headers = new Map(parts.map(({ start }) => [start, Buffer.alloc(TAR_BLOCK)]));
  let at = 0;
  let handle: FileHandle | undefined;
  let next = 0;
  try {
    for await (const chunk of archive) {
      if (!(chunk instanceof Uint8Array)) continue;
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      const end = at + bytes.length;
      for (const [start, header] of headers) copyOverlap(bytes, at, header, start - TAR_BLOCK);
      while (next < parts.length) {
        const part = parts[next];
        if (part === undefined || end <= part.start) break;
        if (handle === undefined) {
          const header = headers.get(part.start);
          if (header === undefined || !isHeaderOf(header, part.end - part.start)) throw notThere(next);
          handle = await open(part.file, NEW, 0o600);
        }
        const from = Math.max(at, part.start);
        const to = Math.min(end, part.end);
        await writeSparse(handle, bytes.subarray(from - at, to - at), from - part.start);
        if (end < part.end) break;
        await handle.truncate(part.end - part.start);
        await handle.sync();
        await handle.close();
        handle = undefined;
        next += 1;
      }
      at = end;
      onBytes(at);
    }
    if (next < parts.length) throw notThere(next);
  } finally {
    await handle?.close();
  }
  return parts.map(({ file }) => file);
}

/** Copies the bytes of a chunk that overlap a buffer at an offset of the same stream. */
function copyOverlap(chunk: Buffer, at: number, target: Buffer, start: number): void {
  const from = Math.max(at, start);
  const to = Math.min(at + chunk.length, start + target.length);
  if (from < to) chunk.copy(target, from - start, from - at, to - at);
}

async function writeSparse(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    // Up to the next multiple of a block within the disk.
    const length = Math.min(bytes.length - done, BLOCK - ((position + done) % BLOCK));
    const block = bytes.subarray(done, done + length);
    if (!block.equals(ZEROS.subarray(0, length))) await writeAll(handle, block, position + done);
    done += length;
  }
}

async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    done += (await handle.write(bytes, done, bytes.length - done, position + done)).bytesWritten;
  }
}

const notThere = (index: number) =>
  machineError(
    'IMAGE_UNUSABLE',
    `The image in the snapshot does not contain disk ${index + 1} at the described place.`,
  );

/** Offsets of a machine's disks in the file of its snapshot. */

/** The only file of a snapshot of one machine. */
export const IMAGE_PATH = '/machine.tar';

const READ_MS = 60_000;
/** A multiple of every sector size that guests use. */
const SECTORS: readonly number[] = [512, 4096];

/** Throws `IMAGE_UNUSABLE` if the description cannot belong to this file. Its numbers come from another device. */
export function checkDisks({ disks }: ImageDetails, fileBytes: number): void {
  const unusable = (why: string) =>
    machineError('IMAGE_UNUSABLE', `The image in the snapshot cannot be used: ${why}`);
  if (disks.length === 0) throw unusable('it has no disk.');
  if (disks.length > 16) throw unusable('it has more than 16 disks.');
  let free = 0;
  for (const { name, offset, sizeBytes, sectorBytes } of disks) {
    const shown = JSON.stringify(shortened(name, 100));
    if (!SECTORS.includes(sectorBytes)) {
      throw unusable(`the disk ${shown} has sectors of ${sectorBytes} bytes.`);
    }
    if (sizeBytes === 0 || sizeBytes % sectorBytes !== 0) {
      throw unusable(`the disk ${shown} has no whole sectors.`);
    }
    if (offset % TAR_BLOCK !== 0 || offset < Math.max(free, TAR_BLOCK)) {
      throw unusable(`the disk ${shown} is misplaced.`);
    }
    free = offset + sizeBytes;
    if (free > fileBytes) throw unusable(`the disk ${shown} lies beyond the end of its file.`);
  }
}

/** Whether a block is the header of an archive member of this size. */
export function isHeaderOf(block: Buffer, sizeBytes: number): boolean {
  try {
    const header = decodeTarHeader(block);
    return header?.type === 'file' && header.size === sizeBytes;
  } catch {
    return false;
  }
}

/** The same check for a file on a mount, which may hang, so another process reads it. */
export async function checkHeaders({ disks }: ImageDetails, file: string): Promise<void> {
  for (const { name, offset, sizeBytes } of disks) {
    const words = [
      `if=${file}`,
      `bs=${TAR_BLOCK}`,
      `skip=${offset / TAR_BLOCK - 1}`,
      'count=1',
      'status=none',
    ];
    const header = await readOutput('dd', words, { timeoutMs: READ_MS, decode: () => 'latin1' });
    if (isHeaderOf(Buffer.from(header, 'latin1'), sizeBytes)) continue;
    const shown = JSON.stringify(shortened(name, 100));
    throw machineError(
      'IMAGE_UNUSABLE',
      `The image in the snapshot does not contain the disk ${shown} at the described place.`,
    );
  }
}
