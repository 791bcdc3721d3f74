import { randomBytes } from 'node:crypto';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';

/**
 * Writes a file beside its place, and moves it there when it is complete and on the disk. The place is either empty or
 * has the whole file, whatever ends the process.
 */
export async function writeWhole<T>(
  file: string,
  { replace = false }: { replace?: boolean },
  work: (handle: FileHandle) => Promise<T>,
): Promise<T> {
  if (!replace) await assertAbsent(file);
  // Two commands can run in one process.
  const draft = `${file}.${randomBytes(8).toString('hex')}.part`;
  const handle = await open(draft, 'wx', 0o600);
  try {
    let result: T;
    try {
      result = await work(handle);
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (!replace) await assertAbsent(file);
    await rename(draft, file);
    await syncFolder(path.dirname(file));
    return result;
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

export class FileExistsError extends Error {}

async function assertAbsent(file: string): Promise<void> {
  const found = await open(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (found === undefined) return;
  await found.close();
  throw new FileExistsError(`${file} exists, and is not overwritten.`);
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
