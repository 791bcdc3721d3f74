import { AppError } from '../../../../platform/errors.ts';
import type { Db } from '../../../../platform/db/pool.ts';
import type { ObjectName } from '../protocol/object-name.ts';
import type { ObjectStorage } from '../storage/storage.ts';
import type { StoreAccess } from './credentials.ts';
import { isTrashed, recordObject, trashObject } from './objects.ts';

/** Objects that the server writes and deletes by itself, and not as the answer to a request. */

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
  // Somebody may have uploaded it again between the two.
  if (!(await isTrashed(db, repositoryId, object))) await storage.bringBack(repositoryId, object, trashedAt);
}

async function* inOnePiece(content: Uint8Array): AsyncGenerator<Buffer> {
  yield Buffer.from(content.buffer, content.byteOffset, content.byteLength);
}
