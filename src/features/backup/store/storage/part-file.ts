import { type FileHandle, open, readdir, rm, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { storageFull } from './storage.ts';

/** Files in which uploads are collected before they count. */

/** What stays free on the disk, on which the database may be as well. */
export const RESERVE_BYTES = 256 << 20;
/** Pieces of the network are small; one write of this size costs hardly more than one of theirs. */
const WRITE_BYTES = 1 << 20;

/** Writes a new file, so that its content survives a power cut. It is for the caller to remove it where this fails. */
export async function writePart(part: string, pieces: AsyncIterable<Buffer>): Promise<void> {
  const file = await open(part, 'wx', 0o600);
  try {
    let waiting: Buffer[] = [];
    let size = 0;
    for await (const piece of pieces) {
      waiting.push(piece);
      size += piece.length;
      if (size < WRITE_BYTES) continue;
      await writeAll(file, waiting);
      waiting = [];
      size = 0;
    }
    await writeAll(file, waiting);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** `writev` may write a part only, as on a disk that is nearly full. */
async function writeAll(file: FileHandle, pieces: readonly Buffer[]): Promise<void> {
  const size = pieces.reduce((sum, { length }) => sum + length, 0);
  if (size === 0) return;
  const { bytesWritten } = await file.writev(pieces);
  if (bytesWritten < size) await file.appendFile(Buffer.concat(pieces).subarray(bytesWritten));
}

/** Removes the files that nobody has written to for so long. */
export async function removeIdleParts(folder: string, idleMs: number): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const part = path.join(folder, name);
    const found = await stat(part).catch(() => undefined);
    if (found !== undefined && Date.now() - found.mtimeMs >= idleMs) await rm(part, { force: true });
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
