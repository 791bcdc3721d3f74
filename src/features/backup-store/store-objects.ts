import type { Db } from '../../../../platform/db/pool.ts';
import { EngineError, type ObjectSource, type ObjectType } from '../../../../engine/index.ts';
import type { Folder } from '../protocol/object-name.ts';
import { findObject, listObjects } from './objects.ts';
import type { ObjectStorage } from '../storage/storage.ts';

const FOLDER: Readonly<Record<ObjectType, Folder>> = {
  index: 'index',
  key: 'keys',
  snapshot: 'snapshots',
  data: 'data',
};

/** Larger than every object that restic writes. */
const OBJECT_MAX = 256 * 1024 * 1024;
/** What is read of an index to browse it. A device could otherwise keep the server busy with one of any size. */
const INDEX_MAX = 512 * 1024 * 1024;

/**
 * A repository in Muster's own store, as it is now or as of a time. Lists show that state. An object that a list has named
 * is read from the trash where it was deleted since: its name is the hash of its content, so it is what it was.
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
