import { randomBytes } from 'node:crypto';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';

/**
 * Writes a temporary file beside the target, and renames it when it is complete and synced. The target is either
 * absent or complete, even if the process is killed.
 */
export async function writeWhole<T>(
  file: string,
  { replace = false }: { replace?: boolean },
  work: (handle: FileHandle) => Promise<T>,
): Promise<T> {
  if (!replace) await assertAbsent(file);
  // Two commands can run in one process.
  const draft = `${file}.${randomBytes(8).toString('hex')}.part`;
  const handle = await open(draft, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${file} cannot be written (${error.code ?? error.message}).`, { cause: error });
  });
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

/** Writes an environment file that only its owner can read. It is overwritten only with `force`. */
export async function writeEnvironmentFile(
  file: string,
  text: string,
  { force }: { force: boolean },
): Promise<void> {
  try {
    await writeWhole(file, { replace: force }, (handle) => handle.writeFile(text));
  } catch (error) {
    if (!(error instanceof FileExistsError)) throw error;
    throw new Error(
      `${file} exists. It may hold the only copy of your keys, so it is replaced only with --force.`,
      {
        cause: error,
      },
    );
  }
}
