import type { Readable } from 'node:stream';
import { AppError } from '../../../../platform/errors.ts';
import type { ByteRange } from '../../../../platform/http/files/byte-range.ts';
import type { Folder, ObjectName } from '../protocol/object-name.ts';

/** Where the bytes of objects are: a folder of the server, or the operator's S3. */
export interface ObjectStorage {
  readonly kind: 'folder' | 's3';
  /**
   * Writes an object as it arrives, whole or not at all, so that it survives a power cut. An object of the same name is
   * left as it is: `existed`. Throws where it is not what was announced; nothing is left of it then.
   */
  write(
    repositoryId: string,
    object: ObjectName,
    pieces: AsyncIterable<Buffer>,
    announced: Announced,
  ): Promise<'written' | 'existed'>;
  /** `undefined` where there is no such object. */
  read(
    repositoryId: string,
    object: StoredObject,
    range: ByteRange | undefined,
  ): Promise<Readable | undefined>;
  /** Moves a deleted object to the trash. Can be done twice. */
  setAside(repositoryId: string, object: ObjectName, trashedAt: Date): Promise<void>;
  /** Undoes that. */
  bringBack(repositoryId: string, object: ObjectName, trashedAt: Date): Promise<void>;
  /** Whether it is there, and not in the trash. */
  has(repositoryId: string, object: ObjectName): Promise<boolean>;
  /** Removes an object for good, from the trash where `trashedAt` is given. Can be done twice. */
  remove(repositoryId: string, object: StoredObject): Promise<void>;
  /** All objects of a kind, in the order of their names, without the trash. */
  list(repositoryId: string, type: Folder): AsyncIterable<FoundObject>;
  /** Removes parts of uploads that were written by nobody for `idleMs`. */
  sweep(idleMs: number): Promise<void>;
  /** Throws `storage_full` where there is no room for so much. */
  assertRoom(bytes: number): Promise<void>;
  /** What objects may still take; `undefined` where that is not known. */
  freeBytes(): Promise<number | undefined>;
}

export interface StoredObject extends ObjectName {
  trashedAt: Date | null;
}

export interface Announced {
  size: number;
  /** `undefined` of the configuration, whose name says nothing of its content. */
  sha256: string | undefined;
}

export interface FoundObject {
  name: string;
  size: number;
  writtenAt: Date;
}

export const storageFull = (cause?: unknown) =>
  new AppError('storage_full', 'There is no room for this object. Nothing of it was stored.', { cause });

export const notAnnounced = (what: string) =>
  new AppError('validation_failed', `${what} Nothing of it was stored.`);
