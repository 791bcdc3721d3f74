import { createHash } from 'node:crypto';
import { type FileHandle, open, opendir, readdir } from 'node:fs/promises';
import path from 'node:path';
import type { Config } from '../../config.ts';
import {
  type Manifest,
  type Part,
  RELEASE_ENTRY,
  releaseEntry,
  STORE_ENTRY,
  storeEntry,
} from './manifest.ts';
import type { ArchiveWriter } from './archive.ts';

/** The files of an installation, besides its database. */

export const releasesFolder = (dataDir: string) => path.join(dataDir, 'releases');
export const storeFolder = (dataDir: string) => path.join(dataDir, 'backups');

const READ_BYTES = 1 << 20;

/** Files of releases in the data folder; those in a bucket stay there. */
export async function addReleases(
  archive: ArchiveWriter,
  { dataDir, releaseStore }: Pick<Config, 'dataDir' | 'releaseStore'>,
  parts: Part[],
): Promise<Manifest['releases']> {
  const folder = releasesFolder(dataDir);
  let files = 0;
  for (const name of (await namesIn(folder)).filter((one) => RELEASE_ENTRY.test(releaseEntry(one)))) {
    const part = await addFile(archive, path.join(folder, name), releaseEntry(name));
    if (part === undefined) continue;
    parts.push(part);
    files++;
  }
  return { place: releaseStore === undefined ? 'folder' : 'bucket', files };
}

/**
 * The backups of devices, if they are in the data folder. Deleted files move to the trash, which is therefore read
 * last: a file that moves meanwhile is found there.
 */
export async function addStore(
  archive: ArchiveWriter,
  { dataDir, backupStore }: Pick<Config, 'dataDir' | 'backupStore'>,
  included: boolean,
): Promise<Manifest['store']> {
  const place = backupStore.s3 === undefined ? 'folder' : 'bucket';
  const lines = createHash('sha256');
  let files = 0;
  let bytes = 0;
  if (included && place === 'folder') {
    const folder = storeFolder(dataDir);
    for await (const file of storeFiles(folder)) {
      const part = await addFile(archive, path.join(folder, file), storeEntry(file));
      if (part === undefined) continue;
      lines.update(`${part.sha256} ${part.name}\n`);
      files++;
      bytes += part.size;
    }
  }
  return { place, included: included && place === 'folder', files, bytes, sha256: lines.digest('hex') };
}

async function* storeFiles(root: string): AsyncGenerator<string> {
  for (const repository of await namesIn(root)) {
    if (!STORE_ENTRY.test(storeEntry(`${repository}/config`))) continue;
    const names = await namesIn(path.join(root, repository));
    for (const name of [...names.filter((one) => one !== 'trash' && one !== 'tmp'), 'trash']) {
      for await (const file of filesBelow(root, `${repository}/${name}`)) {
        if (STORE_ENTRY.test(storeEntry(file))) yield file;
      }
    }
  }
}

async function* filesBelow(root: string, place: string): AsyncGenerator<string> {
  const folder = await opendir(path.join(root, place)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return error.code;
    throw error;
  });
  if (folder === 'ENOTDIR') yield place;
  if (typeof folder === 'string') return;
  for await (const entry of folder) {
    const inside = `${place}/${entry.name}`;
    if (entry.isDirectory()) yield* filesBelow(root, inside);
    else if (entry.isFile()) yield inside;
  }
}

/** `undefined` if the file was removed after it was listed. */
async function addFile(archive: ArchiveWriter, file: string, name: string): Promise<Part | undefined> {
  let handle: FileHandle;
  try {
    handle = await open(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const { size } = await handle.stat();
    const pieces = handle.createReadStream({ highWaterMark: READ_BYTES, autoClose: false });
    return await archive.addStream(name, size, pieces as AsyncIterable<Buffer>);
  } finally {
    await handle.close();
  }
}

async function namesIn(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names.sort((one, other) => (one < other ? -1 : 1));
}
