import { createHash, type Hash, randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { AppError } from '../../platform/errors.ts';
import type { ByteRange } from '../../platform/http/stream-answer.ts';
import type { S3Objects } from '../../platform/s3-objects.ts';
import { S3Error } from '../../platform/s3.ts';
import {
  type Announced,
  assertFree,
  asStorageError,
  checkedBytes,
  type FoundObject,
  type ObjectStorage,
  removeIdleParts,
  RESERVE_BYTES,
  type StoredObject,
  writePart,
} from './storage.ts';
import { type Folder, type ObjectName, placeOf } from './store-protocol.ts';

interface Places {
  /** Below which the repositories are in the bucket. */
  prefix: string;
  /** Folder of this server for what is about to be sent. */
  spool: string;
  reserveBytes?: number;
}

/**
 * Objects in the operator's bucket. Each is first written to a local file and checked there: what is wrong never reaches
 * the bucket, whatever the storage checks by itself, and what is right can be sent again if the storage fails.
 * Deleted objects keep their place, because a bucket can only move them by copying them.
 */
export class S3Storage implements ObjectStorage {
  readonly kind = 's3';
  readonly #objects: S3Objects;
  readonly #prefix: string;
  readonly #spool: string;
  readonly #reserveBytes: number;

  constructor(objects: S3Objects, { prefix, spool, reserveBytes = RESERVE_BYTES }: Places) {
    this.#objects = objects;
    this.#prefix = prefix;
    this.#spool = spool;
    this.#reserveBytes = reserveBytes;
  }

  async write(
    repositoryId: string,
    object: ObjectName,
    pieces: AsyncIterable<Buffer>,
    announced: Announced,
  ): Promise<'written' | 'existed'> {
    const part = path.join(this.#spool, randomUUID());
    const hash = createHash('sha256');
    try {
      await mkdir(this.#spool, { recursive: true, mode: 0o700 });
      await writePart(part, hashed(checkedBytes(pieces, announced), hash));
      const file = { path: part, size: announced.size, sha256: hash.digest('hex') };
      return await asking(this.#objects.putFile(this.#key(repositoryId, object), file));
    } catch (error) {
      throw asStorageError(error);
    } finally {
      await rm(part, { force: true });
    }
  }

  read(
    repositoryId: string,
    object: StoredObject,
    range: ByteRange | undefined,
  ): Promise<Readable | undefined> {
    const header = range === undefined ? undefined : `bytes=${range.first}-${range.last}`;
    return asking(this.#objects.read(this.#key(repositoryId, object), header));
  }

  async setAside(): Promise<void> {}

  async bringBack(): Promise<void> {}

  has(repositoryId: string, object: ObjectName): Promise<boolean> {
    return asking(this.#objects.has(this.#key(repositoryId, object)));
  }

  remove(repositoryId: string, object: StoredObject): Promise<void> {
    return asking(this.#objects.remove(this.#key(repositoryId, object)));
  }

  async *list(repositoryId: string, type: Folder): AsyncGenerator<FoundObject> {
    for await (const { key, size, modifiedAt } of this.#objects.list(
      `${this.#prefix}/${repositoryId}/${type}/`,
    )) {
      const name = path.posix.basename(key);
      if (/^[0-9a-f]{64}$/.test(name)) yield { name, size, writtenAt: modifiedAt };
    }
  }

  sweep(idleMs: number): Promise<void> {
    return removeIdleParts(this.#spool, idleMs);
  }

  async assertRoom(bytes: number): Promise<void> {
    await mkdir(this.#spool, { recursive: true, mode: 0o700 });
    await assertFree(this.#spool, bytes, this.#reserveBytes);
  }

  // A bucket does not say what it takes; what is spooled is gone again at once.
  freeBytes(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  #key(repositoryId: string, object: ObjectName): string {
    return `${this.#prefix}/${repositoryId}/${placeOf(object)}`;
  }
}

async function* hashed(pieces: AsyncIterable<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    hash.update(piece);
    yield piece;
  }
}

/** If the storage cannot do it now, restic tries again later. */
async function asking<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof S3Error)) throw error;
    throw new AppError('unavailable', 'The storage of the backup store does not answer as it should.', {
      cause: error,
      retryAfterMs: 5000,
    });
  }
}
