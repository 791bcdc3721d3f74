import { type BigIntStats, constants, type Dirent, type Stats } from 'node:fs';
import {
  lchown,
  link,
  lstat,
  lutimes,
  mkdir,
  open,
  readdir,
  realpath,
  rename,
  rm,
  rmdir,
  symlink,
  unlink,
  utimes,
  type FileHandle,
} from 'node:fs/promises';
import path from 'node:path';
import { canonicalPath, pathBytes, pathText } from '../../../protocol/index.ts';
import { hasCode } from './private-file.ts';

/**
 * Converts file names of this machine to text (`pathText`) and back. On Windows only, names are characters: a
 * backslash separates them, and nothing is escaped.
 */

const isOfCharacters = process.platform === 'win32';

export const nameText = (name: Uint8Array): string =>
  isOfCharacters ? Buffer.from(name).toString('utf8') : pathText(name);

export const nameBytes = (text: string): Buffer => Buffer.from(isOfCharacters ? text : pathBytes(text));

/** Normalizes the spellings of a path to the same text. */
export const oneText = (text: string): string => (isOfCharacters ? text : canonicalPath(text));

/** The name of an entry in a folder: in bytes if it may not be valid UTF-8, which Linux allows. */
export type EntryName = string | Buffer;

const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
// Without O_NONBLOCK, opening a pipe blocks until a writer opens it.
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** On Linux, a name below this path is looked up in the open folder itself, even after the folder was moved. */
const isRaceFree = process.platform === 'linux';

/**
 * A folder that is held open. A file that is opened in it by name is really in it: links are refused, and replacing
 * names meanwhile has no effect, because no path is resolved a second time.
 *
 * On systems without `/proc/self/fd`, the path is resolved again and compared with the opened file. That detects a link
 * that stays, but not one that is placed and removed at exactly the right two moments.
 */
export class OpenFolder {
  readonly bytes: Buffer;
  readonly #handle: FileHandle;

  private constructor(folder: Buffer, handle: FileHandle) {
    this.bytes = folder;
    this.#handle = handle;
  }

  /** For messages, and for programs that take a path. A name that is not UTF-8 is correct only in `bytes` and `text`. */
  get path(): string {
    return this.bytes.toString('utf8');
  }

  /** The path as `pathText` writes it. */
  get text(): string {
    return nameText(this.bytes);
  }

  /** @param folder  a path that other users cannot change; links in it are followed */
  static async open(folder: string): Promise<OpenFolder> {
    const real = await realpath(folder, { encoding: 'buffer' });
    return new OpenFolder(real, await open(forSystem(real), FOLDER_FLAGS));
  }

  async entries(): Promise<Dirent[]> {
    return readdir(this.#at(), { withFileTypes: true });
  }

  /** All names, in bytes. */
  async names(): Promise<Buffer[]> {
    return readdir(this.#at(), { encoding: 'buffer' });
  }

  async folder(name: EntryName): Promise<OpenFolder> {
    const handle = await this.#open(name, FOLDER_FLAGS);
    return new OpenFolder(this.#below(name), handle);
  }

  /** The entry with this name, without following a link; `undefined` if there is none. */
  async find(name: EntryName): Promise<BigIntStats | undefined> {
    try {
      return await lstat(this.#at(name), { bigint: true });
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined;
      throw error;
    }
  }

  /** The folder itself. */
  async stat(): Promise<BigIntStats> {
    return this.#handle.stat({ bigint: true });
  }

  /** Creates a private folder. */
  async makeFolder(name: EntryName): Promise<OpenFolder> {
    await mkdir(this.#at(name), { mode: 0o700 });
    return this.folder(name);
  }

  /** Moves an entry into another folder on the same disk. An existing file or link is replaced. */
  async move(name: EntryName, to: OpenFolder): Promise<void> {
    await rename(this.#at(name), to.#at(name));
  }

  /** Removes a file or a link. */
  async removeFile(name: EntryName): Promise<void> {
    await unlink(this.#at(name));
  }

  async removeEmptyFolder(name: EntryName): Promise<void> {
    await rmdir(this.#at(name));
  }

  /** Changes the rights of the folder itself. A folder has none of these on Windows. */
  async setMode(mode: number): Promise<void> {
    if (!isOfCharacters) await this.#handle.chmod(mode);
  }

  /** Changes the owner of the folder itself. */
  async setOwner(uid: number, gid: number): Promise<void> {
    await this.#handle.chown(uid, gid);
  }

  /** Sets the modification time of the folder itself, in seconds since 1970. */
  async setTime(seconds: number): Promise<void> {
    // Windows opens folders for reading only, and then refuses to change them by the handle.
    if (isOfCharacters) await utimes(this.#at(), seconds, seconds);
    else await this.#handle.utimes(seconds, seconds);
  }

  /** Creates a symbolic link without following it. Fails if the name exists. */
  async newLink(name: EntryName, target: Buffer): Promise<void> {
    await symlink(target, this.#at(name));
  }

  /** Changes the owner of a symbolic link itself. */
  async setLinkOwner(name: EntryName, uid: number, gid: number): Promise<void> {
    await lchown(this.#at(name), uid, gid);
  }

  async setLinkTime(name: EntryName, seconds: number): Promise<void> {
    await lutimes(this.#at(name), seconds, seconds);
  }

  /** Creates a hard link to an existing file. Fails if the name exists. */
  async addName(name: EntryName, from: { folder: OpenFolder; name: EntryName }): Promise<void> {
    await link(from.folder.#at(from.name), this.#at(name));
  }

  /** Creates a private file. Fails if the name exists. */
  async newFile(name: EntryName): Promise<FileHandle> {
    return this.#open(
      name,
      constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
      0o600,
    );
  }

  /** Opens an existing file for appending. */
  async appendTo(name: EntryName): Promise<FileHandle> {
    return this.#open(name, constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW);
  }

  /** Removes an entry with everything below it. */
  async removeAll(name: EntryName): Promise<void> {
    await rm(this.#at(name), { recursive: true, force: true, maxRetries: 3 });
  }

  /** Opens a regular file for reading. Refuses pipes, devices, and files that another user may have linked here. */
  async file(name: EntryName): Promise<FileHandle> {
    return this.#regular(name, FILE_FLAGS);
  }

  async #regular(name: EntryName, flags: number): Promise<FileHandle> {
    const handle = await this.#open(name, flags);
    try {
      const file = await handle.stat();
      if (!file.isFile()) throw new Error(`${path.join(this.path, name.toString())} is not a regular file.`);
      if (file.nlink > 1 && mayBeLinkedByOthers(file, await this.#handle.stat())) {
        throw new Error(
          `${path.join(this.path, name.toString())} has a second name, which another user may have created.`,
        );
      }
      return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Opens a regular file for reading and writing; a new one is private. Refuses what `file` refuses. */
  async fileToWrite(name: string, { mustBeNew }: { mustBeNew: boolean }): Promise<FileHandle> {
    const flags = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    if (mustBeNew) return this.#open(name, flags | constants.O_CREAT | constants.O_EXCL, 0o600);
    return this.#regular(name, flags);
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  async #open(name: EntryName, flags: number, mode?: number): Promise<FileHandle> {
    const handle = await open(this.#at(name), flags, mode);
    if (isRaceFree) return handle;
    try {
      const where = this.#below(name);
      const [opened, found] = [await handle.stat(), await lstat(forSystem(where))];
      const real = await realpath(forSystem(where), { encoding: 'buffer' });
      if (!real.equals(where) || opened.ino !== found.ino || opened.dev !== found.dev) {
        throw new Error(`${where.toString()} leads somewhere else.`);
      }
      return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** The path by which the system finds the name in this folder; without a name, the path of the folder itself. */
  #at(name?: EntryName): string | Buffer {
    const folder = isRaceFree ? `/proc/self/fd/${this.#handle.fd}` : this.bytes;
    if (name === undefined) return forSystem(folder);
    const text = typeof name === 'string' ? name : name.toString('latin1');
    if (path.basename(text) !== text || text === '' || text === '.' || text === '..') {
      throw new Error(`${JSON.stringify(text)} is not the name of a file.`);
    }
    return forSystem(joined(folder, name));
  }

  #below(name: EntryName): Buffer {
    return joined(this.bytes, name);
  }
}

const joined = (folder: string | Buffer, name: EntryName): Buffer =>
  Buffer.concat([Buffer.from(folder), Buffer.from(isRoot(folder) ? '' : path.sep), Buffer.from(name)]);

/** On Windows, Node lifts the limit of 260 characters for paths that are text. */
const forSystem = (place: string | Buffer): string | Buffer =>
  isOfCharacters && typeof place !== 'string' ? place.toString('utf8') : place;

const isRoot = (folder: string | Buffer) => folder.toString('latin1').endsWith(path.sep);

/** A user who may create names in the folder can link files of other users there, unless the system forbids it. */
function mayBeLinkedByOthers(file: Stats, folder: Stats): boolean {
  const isWritableByOthers = (folder.mode & 0o022) !== 0;
  return file.uid !== folder.uid || isWritableByOthers;
}

/** Opens the file at `relative` below `root`. No part of the path may be a link. */
export async function openBelow(root: string, relative: string): Promise<FileHandle> {
  return openNamed(root, relative.split(path.sep));
}

/** The same, with separate names of the folders and of the file. */
export async function openNamed(root: string, names: readonly EntryName[]): Promise<FileHandle> {
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
