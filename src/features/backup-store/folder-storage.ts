import { randomUUID } from 'node:crypto';
import { link, mkdir, open, opendir, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import type { ByteRange } from '../../platform/http/stream-answer.ts';
import {
  type Announced,
  assertFree,
  asStorageError,
  checkedBytes,
  codeOf,
  type FoundObject,
  freeOn,
  type ObjectStorage,
  removeIdleParts,
  RESERVE_BYTES,
  type StoredObject,
  writePart,
} from './storage.ts';
import { type Folder, type ObjectName, placeOf, trashPlaceOf } from './store-protocol.ts';

/**
 * The bytes of one read, which is sent in one piece: eight times the usual number, for an eighth of the reads and
 * sends.
 */
const READ_BYTES = 512 << 10;

/**
 * Objects in a folder of the server, DATA_DIR/backups. Each repository in it is a plain restic repository, which stock
 * restic opens without Muster, with `tmp` and `trash` beside it.
 */
export class FolderStorage implements ObjectStorage {
  readonly kind = 'folder';
  readonly #root: string;
  readonly #reserveBytes: number;
  /** Folders that exist and whose names are safely on the disk. */
  readonly #made = new Set<string>();

  constructor(root: string, { reserveBytes = RESERVE_BYTES }: { reserveBytes?: number } = {}) {
    this.#root = root;
    this.#reserveBytes = reserveBytes;
  }

  async write(
    repositoryId: string,
    object: ObjectName,
    pieces: AsyncIterable<Buffer>,
    announced: Announced,
  ): Promise<'written' | 'existed'> {
    const place = this.#place(repositoryId, placeOf(object));
    const part = this.#place(repositoryId, `tmp/${randomUUID()}`);
    try {
      await this.#makeFolder(path.dirname(part));
      if (object.type === 'data') await this.#makePackFolders(repositoryId);
      else await this.#makeFolder(path.dirname(place));
      await writePart(part, checkedBytes(pieces, announced));
      const outcome = await linkOnce(part, place);
      await rm(part, { force: true });
      // Also of one that was there: a server that was killed may have been about to do this.
      await syncFolder(path.dirname(place));
      return outcome;
    } catch (error) {
      await rm(part, { force: true });
      throw asStorageError(error);
    }
  }

  async read(
    repositoryId: string,
    object: StoredObject,
    range: ByteRange | undefined,
  ): Promise<Readable | undefined> {
    // A server that was killed between the two steps of a deletion has left the object in its first place.
    const places = [placeOf(object)];
    if (object.trashedAt !== null) places.unshift(trashPlaceOf(object, object.trashedAt));
    for (const place of places) {
      const file = await openIfThere(this.#place(repositoryId, place));
      if (file === undefined) continue;
      return file.createReadStream({
        highWaterMark: READ_BYTES,
        ...(range === undefined ? {} : { start: range.first, end: range.last }),
      });
    }
    return undefined;
  }

  async setAside(repositoryId: string, object: ObjectName, trashedAt: Date): Promise<void> {
    const place = this.#place(repositoryId, placeOf(object));
    const trash = this.#place(repositoryId, trashPlaceOf(object, trashedAt));
    await this.#makeFolder(path.dirname(trash));
    const isMoved = await rename(place, trash).then(() => true, unlessMissing);
    if (!isMoved) return;
    await syncFolder(path.dirname(trash));
    await syncFolder(path.dirname(place));
  }

  async bringBack(repositoryId: string, object: ObjectName, trashedAt: Date): Promise<void> {
    const place = this.#place(repositoryId, placeOf(object));
    await rename(this.#place(repositoryId, trashPlaceOf(object, trashedAt)), place).catch(unlessMissing);
    await syncFolder(path.dirname(place));
  }

  async has(repositoryId: string, object: ObjectName): Promise<boolean> {
    const found = await stat(this.#place(repositoryId, placeOf(object))).catch(unlessMissing);
    return found !== false && found.isFile();
  }

  async remove(repositoryId: string, object: StoredObject): Promise<void> {
    const { trashedAt } = object;
    const place = trashedAt === null ? placeOf(object) : trashPlaceOf(object, trashedAt);
    await rm(this.#place(repositoryId, place), { force: true });
  }

  async *list(repositoryId: string, type: Folder): AsyncGenerator<FoundObject> {
    const folder = this.#place(repositoryId, type);
    const names = await sortedNames(folder);
    const folders = type === 'data' ? names.map((name) => path.join(folder, name)) : [folder];
    for (const one of folders) {
      for (const name of type === 'data' ? await sortedNames(one) : names) {
        const found = await stat(path.join(one, name)).catch(() => undefined);
        if (found?.isFile() !== true || !/^[0-9a-f]{64}$/.test(name)) continue;
        yield { name, size: found.size, writtenAt: found.mtime };
      }
    }
  }

  async sweep(idleMs: number): Promise<void> {
    const repositories = await opendir(this.#root).catch(() => undefined);
    if (repositories === undefined) return;
    for await (const { name } of repositories) {
      await removeIdleParts(path.join(this.#root, name, 'tmp'), idleMs);
    }
  }

  async assertRoom(bytes: number): Promise<void> {
    try {
      await this.#makeFolder(this.#root);
    } catch (error) {
      throw asStorageError(error);
    }
    await assertFree(this.#root, bytes, this.#reserveBytes);
  }

  async freeBytes(): Promise<number> {
    await this.#makeFolder(this.#root);
    return (await freeOn(this.#root)) - this.#reserveBytes;
  }

  #place(repositoryId: string, place: string): string {
    return path.join(this.#root, repositoryId, place);
  }

  /** All at once, as restic does it: one by one, nearly every pack of a new repository would synchronize one more folder. */
  async #makePackFolders(repositoryId: string): Promise<void> {
    const folder = this.#place(repositoryId, 'data');
    await this.#makeFolder(folder);
    if (this.#made.has(`${folder}/ff`)) return;
    const names = Array.from({ length: 256 }, (_value, i) =>
      path.join(folder, i.toString(16).padStart(2, '0')),
    );
    await Promise.all(names.map((name) => mkdir(name, { recursive: true, mode: 0o700 })));
    await syncFolder(folder);
    this.#made.add(`${folder}/ff`);
  }

  async #makeFolder(folder: string): Promise<void> {
    if (this.#made.has(folder)) return;
    const first = await mkdir(folder, { recursive: true, mode: 0o700 });
    // Every name that is new, up to the first folder that was there before.
    const names = first === undefined ? [] : namesBetween(first, folder);
    for (const name of names) await syncFolder(path.dirname(name));
    this.#made.add(folder);
  }
}

/** From a folder up to one above it. */
function namesBetween(first: string, folder: string): string[] {
  return folder === first ? [first] : [folder, ...namesBetween(first, path.dirname(folder))];
}

/** The last step: the name appears with the whole content, and never in place of another object. */
async function linkOnce(part: string, place: string): Promise<'written' | 'existed'> {
  try {
    await link(part, place);
    return 'written';
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return 'existed';
    throw error;
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const sortedNames = async (folder: string) =>
  (await readdir(folder).catch(() => [])).sort((a, b) => (a < b ? -1 : 1));

const openIfThere = (file: string) =>
  open(file).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });

function unlessMissing(error: unknown): false {
  if (codeOf(error) === 'ENOENT') return false;
  throw error;
}
