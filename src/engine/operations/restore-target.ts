import { lstat, mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { pathText } from '../../protocol/index.ts';
import { EngineError } from '../engine-error.ts';
import { pathBelow } from './found-path.ts';
import { SelectedPaths } from './selected-paths.ts';

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

/** What this many files are asked at the same time. */
const ASKED_AT_ONCE = 64;

/**
 * How much lies in a folder. Links are not followed; what vanishes meanwhile is not counted. `isWhole`: each folder in it
 * could be read.
 *
 * @param sizes  whether the disk is asked how large the files are
 */
export async function measureFolder(
  folder: string,
  signal: AbortSignal,
  { sizes = true }: { sizes?: boolean } = {},
): Promise<FolderSize & { isWhole: boolean }> {
  const size = { bytes: 0, files: 0, isWhole: true };
  // In bytes, because names need not be valid UTF-8.
  const folders = [Buffer.from(folder)];
  for (let next = folders.pop(); next !== undefined && !signal.aborted; next = folders.pop()) {
    const files: Buffer[] = [];
    try {
      for (const entry of await readdir(next, { withFileTypes: true, encoding: 'buffer' })) {
        const file = Buffer.concat([next, Buffer.from(path.sep), entry.name]);
        if (entry.isDirectory()) folders.push(file);
        else size.files += 1;
        if (entry.isFile() && sizes) files.push(file);
      }
    } catch {
      // Progress is an estimate; a folder that cannot be read does not stop the restore.
      size.isWhole = false;
    }
    for (let from = 0; from < files.length && !signal.aborted; from += ASKED_AT_ONCE) {
      const some = files.slice(from, from + ASKED_AT_ONCE);
      const found = await Promise.all(some.map((file) => lstat(file).catch(() => undefined)));
      for (const each of found) size.bytes += each?.size ?? 0;
    }
  }
  return size;
}

/** The paths of all regular files in a folder, as `pathText` writes them. Links are not followed. */
export async function* filesIn(folder: string): AsyncGenerator<string, void> {
  const folders = [''];
  for (let within = folders.pop(); within !== undefined; within = folders.pop()) {
    const entries = await readdir(pathBelow(folder, within), {
      withFileTypes: true,
      encoding: 'buffer',
    }).catch(() => []);
    for (const entry of entries) {
      const each = `${within}/${pathText(entry.name)}`;
      if (entry.isDirectory()) folders.push(each);
      else if (entry.isFile()) yield each;
    }
  }
}

/**
 * Removes from a restored folder what was not selected, and is there because a pattern of restic also matches paths that
 * look like the selected ones.
 */
export async function removeUnselected(folder: string, selected: readonly string[]): Promise<void> {
  const wanted = new SelectedPaths(selected);
  const folders = [''];
  for (let within = folders.pop(); within !== undefined; within = folders.pop()) {
    const at = pathBelow(folder, within);
    for (const entry of await readdir(at, { withFileTypes: true, encoding: 'buffer' })) {
      const each = `${within}/${pathText(entry.name)}`;
      if (wanted.has(each)) continue;
      if (entry.isDirectory() && wanted.isAbove(each)) folders.push(each);
      else await rm(pathBelow(folder, each), { recursive: true, force: true, maxRetries: 3 });
    }
  }
}

export const isEmptyFolder = async (folder: string) => (await readdir(folder)).length === 0;

const unsafe = (why: string, cause?: unknown) =>
  new EngineError('TARGET_UNSAFE', { message: `The folder to restore to is not safe: ${why}`, cause });
