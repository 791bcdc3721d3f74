import { type FileHandle, chown, mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Manifest, RELEASE_ENTRY, STORE_ENTRY } from './archive/manifest.ts';
import { ArchiveError } from './archive/tar-header.ts';
import { readArchive, type ReadEntry } from './archive/tar-reader.ts';
import { writeWhole } from '../whole-file.ts';
import { releasesFolder, storeFolder } from './installation-files.ts';

/**
 * Puts the files of a backup into the data folder. A file that is there already is kept: releases and objects of the
 * store are named by what they hold, so that a restore that was interrupted goes on where it was.
 */
export async function restoreFiles(file: string, manifest: Manifest, dataDir: string): Promise<void> {
  if (manifest.releases.files === 0 && manifest.store.files === 0) return;
  const sums = new Map(manifest.parts.map(({ name, sha256 }) => [name, sha256]));
  for await (const entry of readArchive(file)) {
    const [, release] = RELEASE_ENTRY.exec(entry.name) ?? [];
    const [, object] = STORE_ENTRY.exec(entry.name) ?? [];
    if (release !== undefined) {
      await place(entry, path.join(releasesFolder(dataDir), release), dataDir, sums.get(entry.name));
    }
    if (object !== undefined) {
      await place(entry, path.join(storeFolder(dataDir), object), dataDir, undefined);
    }
  }
}

async function place(
  entry: ReadEntry,
  target: string,
  dataDir: string,
  sha256: string | undefined,
): Promise<void> {
  const found = await stat(target).catch(() => undefined);
  if (found?.isFile() === true && found.size === entry.size) return;
  const firstMade = await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
  await writeWhole(target, { replace: true }, async (handle) => {
    await write(handle, entry);
    if (sha256 !== undefined && entry.sha256() !== sha256) {
      throw new ArchiveError(`${entry.name} is not what was verified: the file was changed meanwhile.`);
    }
  });
  await giveTo(dataDir, [...foldersBetween(firstMade, path.dirname(target)), target]);
}

async function write(handle: FileHandle, entry: ReadEntry): Promise<void> {
  for await (const piece of entry.body) await handle.appendFile(piece);
}

/** From the first folder that was made down to the last. */
function foldersBetween(first: string | undefined, last: string): string[] {
  if (first === undefined) return [];
  return last === first ? [last] : [...foldersBetween(first, path.dirname(last)), last];
}

/** A restore by root leaves the files to the user who owns the data folder, as whom the server runs. */
export async function giveTo(dataDir: string, files: readonly string[]): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(dataDir);
  for (const file of files) await chown(file, uid, gid);
}
