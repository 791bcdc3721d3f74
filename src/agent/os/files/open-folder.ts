import { constants, type Dirent, type Stats } from 'node:fs';
import { lstat, open, readdir, realpath, type FileHandle } from 'node:fs/promises';
import path from 'node:path';

const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
// Without O_NONBLOCK, opening a pipe waits until somebody writes to it.
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** On Linux, a name below this path is looked up in the open folder itself, even after that was moved. */
const isRaceFree = process.platform === 'linux';

/**
 * A folder that is held open. A file that is opened in it by name is really in it: links are refused, and replacing
 * names meanwhile has no effect, because no path is resolved a second time.
 *
 * On systems without `/proc/self/fd`, the path is resolved again and compared with the opened file. That detects a link
 * that stays, but not one that is placed and removed at exactly the right two moments.
 */
export class OpenFolder {
  readonly path: string;
  readonly #handle: FileHandle;

  private constructor(folder: string, handle: FileHandle) {
    this.path = folder;
    this.#handle = handle;
  }

  /** @param folder  a path that other users cannot change; links in it are followed */
  static async open(folder: string): Promise<OpenFolder> {
    const real = await realpath(folder);
    return new OpenFolder(real, await open(real, FOLDER_FLAGS));
  }

  async entries(): Promise<Dirent[]> {
    return readdir(this.#at(''), { withFileTypes: true });
  }

  async folder(name: string): Promise<OpenFolder> {
    const handle = await this.#open(name, FOLDER_FLAGS);
    return new OpenFolder(path.join(this.path, name), handle);
  }

  /** Opens a regular file for reading. Refuses pipes, devices, and files that another user may have linked here. */
  async file(name: string): Promise<FileHandle> {
    const handle = await this.#open(name, FILE_FLAGS);
    try {
      const file = await handle.stat();
      if (!file.isFile()) throw new Error(`${path.join(this.path, name)} is not a regular file.`);
      if (file.nlink > 1 && mayBeLinkedByOthers(file, await this.#handle.stat())) {
        throw new Error(
          `${path.join(this.path, name)} has a second name, which another user may have created.`,
        );
      }
      return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  async #open(name: string, flags: number): Promise<FileHandle> {
    if (path.basename(name) !== name || name === '' || name === '.' || name === '..') {
      throw new Error(`${JSON.stringify(name)} is not the name of a file.`);
    }
    const handle = await open(this.#at(name), flags);
    if (isRaceFree) return handle;
    try {
      const where = path.join(this.path, name);
      const [opened, found] = [await handle.stat(), await lstat(where)];
      if ((await realpath(where)) !== where || opened.ino !== found.ino || opened.dev !== found.dev) {
        throw new Error(`${where} leads somewhere else.`);
      }
      return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  #at(name: string): string {
    return path.join(isRaceFree ? `/proc/self/fd/${this.#handle.fd}` : this.path, name);
  }
}

/** A user who may create names in the folder can link files of other users there, unless the system forbids that. */
function mayBeLinkedByOthers(file: Stats, folder: Stats): boolean {
  const isWritableByOthers = (folder.mode & 0o022) !== 0;
  return file.uid !== folder.uid || isWritableByOthers;
}

/** Opens the file at `relative` below `root`. No part of the path may be a link. */
export async function openBelow(root: string, relative: string): Promise<FileHandle> {
  const names = relative.split(path.sep);
  let folder = await OpenFolder.open(root);
  try {
    for (const name of names.slice(0, -1)) {
      const next = await folder.folder(name);
      await folder.close();
      folder = next;
    }
    return await folder.file(names.at(-1) ?? '');
  } finally {
    await folder.close();
  }
}
