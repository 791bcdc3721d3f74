import { type FileHandle, open, readdir, rm, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../../clock.ts';
import { releaseMemory } from '../../../../platform/release-memory.ts';
import { storageFull } from './storage.ts';

/** What stays free on the disk, on which the database may be as well. */
export const RESERVE_BYTES = 256 << 20;
/** Pieces of the network are small; one write of this size costs hardly more than one of theirs. */
const WRITE_BYTES = 512 << 10;

/**
 * Writes a new file, so that its content survives a power cut. It is for the caller to remove it where this fails.
 *
 * @param pieces  each has to be valid only until the next one is asked for
 */
export async function writePart(part: string, pieces: AsyncIterable<Buffer>): Promise<void> {
  const file = await open(part, 'wx', 0o600);
  const block = Buffer.allocUnsafeSlow(WRITE_BYTES);
  try {
    let filled = 0;
    for await (const piece of pieces) {
      for (let taken = 0; taken < piece.length; ) {
        const copied = piece.copy(block, filled, taken);
        taken += copied;
        filled += copied;
        if (filled < WRITE_BYTES) continue;
        await writeAll(file, block);
        filled = 0;
      }
    }
    await writeAll(file, block.subarray(0, filled));
    await file.sync();
  } finally {
    await file.close();
    releaseMemory(block);
  }
}

/** One write may write a part only, as on a disk that is nearly full. */
async function writeAll(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, written);
    written += bytesWritten;
  }
}

/** Removes the files that nobody has written to for so long. */
export async function removeIdleParts(folder: string, idleMs: number): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const part = path.join(folder, name);
    const found = await stat(part).catch(() => undefined);
    if (found !== undefined && clock.now() - found.mtimeMs >= idleMs) await rm(part, { force: true });
  }
}

/** Throws `storage_full` unless so much fits, and the reserve is still free then. */
export async function assertFree(folder: string, bytes: number, reserveBytes: number): Promise<void> {
  if ((await freeOn(folder)) - bytes < reserveBytes) throw storageFull();
}

export async function freeOn(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

export const codeOf = (error: unknown): unknown =>
  error instanceof Error && 'code' in error ? error.code : undefined;

export const asStorageError = (error: unknown): unknown =>
  ['ENOSPC', 'EDQUOT'].includes(String(codeOf(error))) ? storageFull(error) : error;
