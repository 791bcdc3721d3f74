import { MessageChannel } from 'node:worker_threads';
import { createHash } from 'node:crypto';
import { type FileHandle, open, readdir, rm, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { clock } from '../../clock.ts';
import { AppError } from '../../platform/errors.ts';
import type { ByteRange } from '../../platform/http/stream-answer.ts';
import type { Folder, ObjectName } from './store-protocol.ts';

/** Where the bytes of objects are: a folder of the server, or the operator's S3. */
export interface ObjectStorage {
  readonly kind: 'folder' | 's3';
  /**
   * Writes an object as it arrives, whole or not at all, so that it survives a power cut. An object of the same name is
   * left as it is: `existed`. Throws if it is not what was announced; nothing is left of it then.
   */
  write(
    repositoryId: string,
    object: ObjectName,
    pieces: AsyncIterable<Buffer>,
    announced: Announced,
  ): Promise<'written' | 'existed'>;
  /** `undefined` if there is no such object. */
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
  /** Removes an object for good, from the trash if `trashedAt` is given. Can be done twice. */
  remove(repositoryId: string, object: StoredObject): Promise<void>;
  /** All objects of a kind, in the order of their names, without the trash. */
  list(repositoryId: string, type: Folder): AsyncIterable<FoundObject>;
  /** Removes parts of uploads that were not written to for `idleMs`. */
  sweep(idleMs: number): Promise<void>;
  /** Throws `storage_full` if there is no room for so much. */
  assertRoom(bytes: number): Promise<void>;
  /** The bytes that objects may still take; `undefined` if that is not known. */
  freeBytes(): Promise<number | undefined>;
}

export interface StoredObject extends ObjectName {
  trashedAt: Date | null;
}

export interface Announced {
  size: number;
  /** `undefined` for the configuration, whose name is not the hash of its content. */
  sha256: string | undefined;
}

export interface FoundObject {
  name: string;
  size: number;
  writtenAt: Date;
}

const storageFull = (cause?: unknown) =>
  new AppError('storage_full', 'There is no room for this object. Nothing of it was stored.', { cause });

export const notAnnounced = (what: string) =>
  new AppError('validation_failed', `${what} Nothing of it was stored.`);

/** Passes the bytes of an object on as they arrive, and fails unless they are what was announced. */
export async function* checkedBytes(
  pieces: AsyncIterable<Buffer>,
  { size, sha256 }: Announced,
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  let received = 0;
  for await (const piece of pieces) {
    received += piece.length;
    if (received > size) throw notAnnounced('The object is longer than its Content-Length.');
    hash.update(piece);
    yield piece;
  }
  if (received < size) throw notAnnounced('The upload ended before the object was complete.');
  const found = hash.digest('hex');
  if (sha256 !== undefined && found !== sha256) {
    throw notAnnounced(`The object has the SHA-256 ${found}, which is not its name.`);
  }
}

/** The bytes that stay free on the disk, on which the database may be as well. */
export const RESERVE_BYTES = 256 << 20;
/** Pieces of the network are small; one write of this size costs hardly more than one of theirs. */
const WRITE_BYTES = 512 << 10;

/**
 * Writes a new file, so that its content survives a power cut. It is for the caller to remove it if this fails.
 *
 * @param pieces  each has to be valid only until the next one is asked for
 */
export async function writePart(part: string, pieces: AsyncIterable<Buffer>): Promise<void> {
  const file = await open(part, 'wx', 0o600);
  const block = Buffer.allocUnsafeSlow(WRITE_BYTES);
  try {
    let filled = 0;
    for await (const piece of pieces) {
      for (let taken = 0; taken < piece.length; ) {
        const copied = piece.copy(block, filled, taken);
        taken += copied;
        filled += copied;
        if (filled < WRITE_BYTES) continue;
        await writeAll(file, block);
        filled = 0;
      }
    }
    await writeAll(file, block.subarray(0, filled));
    await file.sync();
  } finally {
    await file.close();
    releaseMemory(block);
  }
}

/** One write may write a part only, as on a disk that is nearly full. */
async function writeAll(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, written);
    written += bytesWritten;
  }
}

/** Removes the files that were not written to for so long. */
export async function removeIdleParts(folder: string, idleMs: number): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const part = path.join(folder, name);
    const found = await stat(part).catch(() => undefined);
    if (found !== undefined && clock.now() - found.mtimeMs >= idleMs) await rm(part, { force: true });
  }
}

/** Throws `storage_full` unless so much fits, and the reserve is still free then. */
export async function assertFree(folder: string, bytes: number, reserveBytes: number): Promise<void> {
  if ((await freeOn(folder)) - bytes < reserveBytes) throw storageFull();
}

export async function freeOn(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

export const codeOf = (error: unknown): unknown =>
  error instanceof Error && 'code' in error ? error.code : undefined;

export const asStorageError = (error: unknown): unknown =>
  ['ENOSPC', 'EDQUOT'].includes(String(codeOf(error))) ? storageFull(error) : error;

/** Smaller buffers may share the memory of Node's pool, and are collected cheaply. */
const RELEASED_MIN_BYTES = 16 << 10;

/** Messages to a port whose other end is closed are dropped at once, with the memory that was transferred to them. */
const { port1: nowhere, port2: closed } = new MessageChannel();
closed.close();
nowhere.unref();

/**
 * Frees the memory of a buffer now; the buffer is empty afterwards. Only for the one who owns the buffer and has finished
 * with it: nothing may read it any more, neither the kernel nor a stream. A buffer that shares its memory is left as it is.
 *
 * When gigabytes pass through, this saves half of the processor time: V8 counts the memory of buffers, and marks its
 * whole heap each time another 64 MiB of them wait to be collected.
 */
export function releaseMemory({ buffer, byteOffset, byteLength }: Uint8Array): void {
  const isWhole = byteOffset === 0 && byteLength === buffer.byteLength;
  if (!isWhole || byteLength < RELEASED_MIN_BYTES || !(buffer instanceof ArrayBuffer)) return;
  nowhere.postMessage(undefined, [buffer]);
}
