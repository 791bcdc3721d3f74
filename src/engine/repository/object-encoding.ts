import { open, opendir, stat } from 'node:fs/promises';
import path from 'node:path';
import { createHash, createCipheriv, createDecipheriv, timingSafeEqual, randomBytes } from 'node:crypto';
import { poly1305 } from '@noble/ciphers/_poly1305.js';
import { decompress } from 'fzstd';
import { EngineError } from '../engine-error.ts';

/** Source of a repository's objects: a folder, Muster's own store, or an S3 bucket. */

export type ObjectType = 'index' | 'key' | 'snapshot' | 'data';

interface ObjectRange {
  offset: number;
  length: number;
}

export interface ObjectSource {
  /** The names of all objects of a type, in any order. */
  list(type: ObjectType): AsyncIterable<{ name: string; size: number }>;
  /** One object, or a part of it. Rejects if it does not exist. */
  get(type: ObjectType, name: string, range?: ObjectRange): Promise<Uint8Array>;
}

const FOLDERS: Readonly<Record<ObjectType, string>> = {
  index: 'index',
  key: 'keys',
  snapshot: 'snapshots',
  data: 'data',
};
const NAME = /^[0-9a-f]{64}$/;
/** Larger than every object that restic writes: a pack has at most 128 MiB and its last blob. */
const OBJECT_MAX = 512 * 1024 * 1024;

/** A repository in a folder, as restic lays it out. */
export function folderSource(folder: string): ObjectSource {
  const pathOf = (type: ObjectType, name: string) => {
    if (!NAME.test(name)) throw new Error(`${name} is not the name of an object.`);
    return path.join(folder, FOLDERS[type], ...(type === 'data' ? [name.slice(0, 2)] : []), name);
  };
  return {
    async *list(type) {
      for await (const file of namesIn(path.join(folder, FOLDERS[type]), type === 'data')) {
        const name = path.basename(file);
        if (NAME.test(name)) yield { name, size: (await stat(file)).size };
      }
    },
    async get(type, name, range) {
      const handle = await open(pathOf(type, name), 'r');
      try {
        const { offset, length } = range ?? (await wholeRange(handle));
        if (length > OBJECT_MAX) throw new Error(`${name} is too large.`);
        const bytes = new Uint8Array(length);
        for (let done = 0; done < length; ) {
          const { bytesRead } = await handle.read(bytes, done, length - done, offset + done);
          if (bytesRead === 0) throw new Error(`${name} ends before byte ${offset + length}.`);
          done += bytesRead;
        }
        return bytes;
      } finally {
        await handle.close();
      }
    },
  };
}

async function wholeRange(handle: Awaited<ReturnType<typeof open>>): Promise<ObjectRange> {
  return { offset: 0, length: (await handle.stat()).size };
}

async function* namesIn(folder: string, isNested: boolean): AsyncGenerator<string, void> {
  for await (const entry of await opendir(folder)) {
    const file = path.join(folder, entry.name);
    if (isNested && entry.isDirectory()) yield* namesIn(file, false);
    else if (!isNested && entry.isFile()) yield file;
  }
}

/** restic's encryption of objects: AES-256 in counter mode, and Poly1305-AES over the result. */

export interface ObjectKey {
  encrypt: Uint8Array;
  /** The two halves of the key of Poly1305-AES. */
  macK: Uint8Array;
  macR: Uint8Array;
}

const IV_LENGTH = 16;
const MAC_LENGTH = 16;
export const OVERHEAD = IV_LENGTH + MAC_LENGTH;

/** The plain text of `IV ‖ cipher text ‖ MAC`. `undefined` if the key is another one or a byte was changed. */
export function decryptObject(key: ObjectKey, object: Uint8Array): Uint8Array | undefined {
  if (object.byteLength < OVERHEAD) return undefined;
  const { iv, sealed } = partsOf(object);
  const mac = object.subarray(object.byteLength - MAC_LENGTH);
  return timingSafeEqual(macOf(key, iv, sealed), mac) ? decryptUnproved(key, object) : undefined;
}

/** Decrypts without checking the MAC, which takes ten times as long: for content that is compared with its hash. */
function decryptUnproved(key: ObjectKey, object: Uint8Array): Uint8Array {
  const { iv, sealed } = partsOf(object);
  return createDecipheriv('aes-256-ctr', key.encrypt, iv).update(sealed);
}

const partsOf = (object: Uint8Array) => ({
  iv: object.subarray(0, IV_LENGTH),
  sealed: object.subarray(IV_LENGTH, object.byteLength - MAC_LENGTH),
});

function macOf(key: ObjectKey, iv: Uint8Array, sealed: Uint8Array): Uint8Array {
  const cipher = createCipheriv('aes-128-ecb', key.macK, null).setAutoPadding(false);
  const once = new Uint8Array(32);
  once.set(key.macR, 0);
  once.set(cipher.update(iv), 16);
  return poly1305(sealed, once);
}

/** `IV ‖ cipher text ‖ MAC`, as restic encrypts an object. */
export function encryptObject(key: ObjectKey, plain: Uint8Array): Buffer {
  const iv = randomBytes(IV_LENGTH);
  const sealed = createCipheriv('aes-256-ctr', key.encrypt, iv).update(plain);
  return Buffer.concat([iv, sealed, macOf(key, iv, sealed)]);
}

/** Index and snapshot objects begin with a byte for their form. The form of a blob is in the index. */

const COMPRESSED = 2;
const JSON_STARTS = new Set(['{'.charCodeAt(0), '['.charCodeAt(0)]);

/** The JSON text of an index or snapshot object. */
export function unpackJson(key: ObjectKey, object: Uint8Array, maxBytes: number): string {
  const plain = opened(key, object);
  const [form = 0] = plain;
  if (form === COMPRESSED) return inflate(plain.subarray(1), undefined, maxBytes).toString('utf8');
  if (!JSON_STARTS.has(form)) throw damaged('An object has an unknown form.');
  if (plain.byteLength > maxBytes) throw damaged(`An object is larger than ${maxBytes} bytes.`);
  return asBuffer(plain).toString('utf8');
}

/**
 * The content of the blob `id`, which is its hash. The hash proves more than the MAC, which anyone with the key can
 * compute. `length` is the uncompressed length if the blob is compressed.
 */
export function unpackBlob(
  key: ObjectKey,
  blob: Uint8Array,
  { id, length }: { id: string; length: number | undefined },
): Buffer {
  if (blob.byteLength < OVERHEAD) throw damaged('A blob is too short.');
  const plain = decryptUnproved(key, blob);
  const content = length === undefined ? asBuffer(plain) : inflate(plain, length, length);
  if (createHash('sha256').update(content).digest('hex') === id) return content;
  throw damaged('A blob has another content than its name says.');
}

function opened(key: ObjectKey, object: Uint8Array): Uint8Array {
  const plain = decryptObject(key, object);
  if (plain === undefined) throw damaged('An object was changed after it was written.');
  return plain;
}

/** fzstd compares its input with 1. Without this, each comparison would convert all bytes to a text. */
class Unpacked extends Uint8Array {
  [Symbol.toPrimitive](): number {
    return Number.NaN;
  }
}

/**
 * Unpacks into a preallocated buffer, so that no length in the data determines the memory. If the length is unknown,
 * it is read from the header of the data. restic leaves it out below 256 bytes.
 */
function inflate(bytes: Uint8Array, known: number | undefined, maxBytes: number): Buffer {
  const named = known ?? contentLength(bytes);
  const length = named ?? UNNAMED_MAX;
  if (length > maxBytes) throw damaged(`Compressed data says that it has more than ${maxBytes} bytes.`);
  let content: Buffer;
  try {
    content = asBuffer(decompress(bytes, new Unpacked(length)));
  } catch {
    throw damaged('Compressed data cannot be unpacked.');
  }
  if (named !== undefined) return content;
  // The data is JSON, which contains no zeros: they are the unused part of the buffer.
  const end = content.indexOf(0);
  if (end === -1) throw damaged('Compressed data does not say how long it is.');
  return content.subarray(0, end);
}

const UNNAMED_MAX = 64 * 1024;
const ZSTD_MAGIC = 0xfd2fb528;

/** The content length in the header of a Zstandard frame: RFC 8878, 3.1.1.1. */
export function contentLength(bytes: Uint8Array): number | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength < 18 || view.getUint32(0, true) !== ZSTD_MAGIC) return undefined;
  const flags = view.getUint8(4);
  const isSingle = (flags & 0x20) !== 0;
  const dictionaryLength = [0, 1, 2, 4][flags & 3] ?? 0;
  const at = 5 + (isSingle ? 0 : 1) + dictionaryLength;
  switch (flags >> 6) {
    case 0:
      return isSingle ? view.getUint8(at) : undefined;
    case 1:
      return view.getUint16(at, true) + 256;
    case 2:
      return view.getUint32(at, true);
    default:
      return Number(view.getBigUint64(at, true));
  }
}

const asBuffer = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export const damaged = (detail: string) => new EngineError('REPOSITORY_DAMAGED', { detail });
