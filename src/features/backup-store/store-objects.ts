import { EngineError, type ObjectSource, type ObjectType } from '../../engine/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { AppError } from '../../platform/errors.ts';
import type { ObjectStorage } from './storage.ts';
import type { Folder, ObjectName, StoreAccess } from './store-protocol.ts';
import { findObject, isTrashed, listObjects, recordObject, trashObject } from './store.queries.ts';

const FOLDER: Readonly<Record<ObjectType, Folder>> = {
  index: 'index',
  key: 'keys',
  snapshot: 'snapshots',
  data: 'data',
};

/** Larger than every object that restic writes. */
const OBJECT_MAX = 256 * 1024 * 1024;
/**
 * The most bytes of an index that are read to browse it. A device could otherwise keep the server busy with one of any
 * size.
 */
const INDEX_MAX = 512 * 1024 * 1024;

/**
 * A repository in Muster's own store, as it is now or as of a time. Lists show that state. An object that a list has named
 * is read from the trash if it was deleted since: its name is the hash of its content, so it is what it was.
 */
export function storeSource(
  { db, storage }: { db: Db; storage: ObjectStorage },
  { repositoryId, asOf }: { repositoryId: string; asOf: Date | null },
): ObjectSource {
  return {
    async *list(type) {
      let bytes = 0;
      for await (const page of listObjects(db, { repositoryId, asOf, role: 'reader' }, FOLDER[type])) {
        for (const object of page) {
          bytes += object.size;
          if (type === 'index' && bytes > INDEX_MAX) throw damaged('The index is larger than it may be.');
          yield object;
        }
      }
    },
    async get(type, name, range) {
      const object = { type: FOLDER[type], name };
      const known = await findObject(db, repositoryId, object);
      if (known === undefined) throw damaged('An object is missing.');
      const { offset, length } = range ?? { offset: 0, length: known.size };
      if (length > OBJECT_MAX) throw damaged('An object is larger than it may be.');
      if (offset + length > known.size) throw damaged('An object is shorter than the index says.');
      if (length === 0) return new Uint8Array();
      const stream = await storage.read(
        repositoryId,
        { ...object, trashedAt: known.trashedAt },
        { first: offset, last: offset + length - 1 },
      );
      if (stream === undefined) throw damaged('An object is missing.');
      return collect(stream, length);
    },
  };
}

async function collect(stream: AsyncIterable<unknown>, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let read = 0;
  for await (const piece of stream) {
    if (!(piece instanceof Uint8Array) || read + piece.length > length) {
      throw damaged('An object is too long.');
    }
    bytes.set(piece, read);
    read += piece.length;
  }
  if (read < length) throw damaged('An object is too short.');
  return bytes;
}

const damaged = (detail: string) => new EngineError('REPOSITORY_DAMAGED', { detail });

// Objects that the server writes and deletes itself, without a request.

interface Parts {
  db: Db;
  storage: ObjectStorage;
}

/** As an upload with the credential. An object of the same name stays as it is. */
export async function putObject(
  { db, storage }: Parts,
  access: Pick<StoreAccess, 'repositoryId' | 'credentialId'>,
  object: ObjectName,
  content: Uint8Array,
): Promise<void> {
  const size = content.byteLength;
  await storage.assertRoom(size);
  const sha256 = object.type === 'config' ? undefined : object.name;
  await storage.write(access.repositoryId, object, inOnePiece(content), { size, sha256 });
  if (await recordObject(db, access, { ...object, size })) return;
  throw new AppError('conflict', 'The credential of the server has ended.');
}

/** Moves an object to the trash. */
export async function discardObject(
  { db, storage }: Parts,
  repositoryId: string,
  object: ObjectName,
): Promise<void> {
  const trashedAt = await trashObject(db, repositoryId, object);
  if (trashedAt === undefined) return;
  await storage.setAside(repositoryId, object, trashedAt);
  // It may have been uploaded again between the two.
  if (!(await isTrashed(db, repositoryId, object))) await storage.bringBack(repositoryId, object, trashedAt);
}

async function* inOnePiece(content: Uint8Array): AsyncGenerator<Buffer> {
  yield Buffer.from(content.buffer, content.byteOffset, content.byteLength);
}
