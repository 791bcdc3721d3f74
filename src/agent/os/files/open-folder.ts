import { constants, type Dirent, type Stats } from 'node:fs';
import { lstat, open, readdir, realpath, type FileHandle } from 'node:fs/promises';
import path from 'node:path';

const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
// Without O_NONBLOCK the opening of a pipe waits until somebody writes to it.
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** On Linux a name below this path is looked up in the folder that is open, wherever that folder has been moved. */
const isRaceFree = process.platform === 'linux';

/**
 * A folder that is held open. What is opened in it by one name is really in it: a link is refused, and somebody who
 * swaps names meanwhile changes nothing, because no path is walked a second time.
 *
 * Where the system has no `/proc/self/fd`, the path is walked again and compared with what was opened. That finds a
 * link that stays; it does not find one that is put there and taken away at exactly the right two moments.
 */
export class OpenFolder {
  readonly path: string;
  readonly #handle: FileHandle;

  private constructor(folder: string, handle: FileHandle) {
    this.path = folder;
    this.#handle = handle;
  }

  /** @param folder  a path that nobody else can change: its own links are followed */
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

  /** Opens a regular file for reading. Pipes, devices and files that somebody else has linked here are refused. */
  async file(name: string): Promise<FileHandle> {
    const handle = await this.#open(name, FILE_FLAGS);
    try {
      const file = await handle.stat();
      if (!file.isFile()) throw new Error(`${path.join(this.path, name)} is not a regular file.`);
      if (file.nlink > 1 && mayBeLinkedByOthers(file, await this.#handle.stat())) {
        throw new Error(
          `${path.join(this.path, name)} has a second name, which others than its owner can have made.`,
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
        throw new Error(`${where} leads to another place.`);
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

/** Whoever may make names in the folder can give somebody else's file a name there, unless the system forbids it. */
function mayBeLinkedByOthers(file: Stats, folder: Stats): boolean {
  const isWritableByOthers = (folder.mode & 0o022) !== 0;
  return file.uid !== folder.uid || isWritableByOthers;
}

/** Opens the file at `relative` below `root`; none of the names on the way may be a link. */
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
