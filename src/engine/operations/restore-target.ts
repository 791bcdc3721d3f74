import { lstat, mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { EngineError } from '../engine-error.ts';

const WRITABLE_BY_OTHERS = 0o022;

/**
 * Creates the folder that restic restores into, or accepts one that an earlier restore has left. restic follows links
 * that lie in it and overwrites what they lead to, so nobody else may be able to put one there.
 */
export async function openRestoreTarget(folder: string): Promise<void> {
  if (!path.isAbsolute(folder) || folder.includes('\0')) throw unsafe('it must be an absolute path.');
  if (path.dirname(path.resolve(folder)) === path.resolve(folder)) throw unsafe('it is the root of a disk.');
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) {
      throw unsafe('it cannot be created.', error);
    }
  }
  const found = await lstat(folder);
  if (!found.isDirectory()) throw unsafe('it is not a folder.');
  if (process.platform === 'win32') return;
  if (found.uid !== process.getuid?.()) throw unsafe('it belongs to another user.');
  if ((found.mode & WRITABLE_BY_OTHERS) !== 0) throw unsafe('other users can write to it.');
}

export interface FolderSize {
  bytes: number;
  files: number;
}

/**
 * How much lies in a folder. Links are not followed; what vanishes meanwhile is not counted.
 *
 * @param ofFile  the bytes of a file. Asking the disk about each takes as long as restoring small ones.
 */
export async function measureFolder(
  folder: string,
  signal: AbortSignal,
  ofFile: (file: Buffer) => number | Promise<number> = async (file) => (await lstat(file)).size,
): Promise<FolderSize> {
  const size = { bytes: 0, files: 0 };
  // In bytes, because names need not be valid UTF-8.
  const folders = [Buffer.from(folder)];
  for (let next = folders.pop(); next !== undefined && !signal.aborted; next = folders.pop()) {
    try {
      for (const entry of await readdir(next, { withFileTypes: true, encoding: 'buffer' })) {
        if (signal.aborted) break;
        const file = Buffer.concat([next, Buffer.from(path.sep), entry.name]);
        if (entry.isDirectory()) folders.push(file);
        else {
          size.files += 1;
          if (entry.isFile()) size.bytes += await ofFile(file);
        }
      }
    } catch {
      // Progress is an estimate; a folder that cannot be read does not stop the restore.
    }
  }
  return size;
}

export const isEmptyFolder = async (folder: string) => (await readdir(folder)).length === 0;

const unsafe = (why: string, cause?: unknown) =>
  new EngineError('TARGET_UNSAFE', { message: `The folder to restore to is not safe: ${why}`, cause });
