import { decompress } from 'fzstd';
import { createHash } from 'node:crypto';
import { EngineError } from '../engine-error.ts';
import { decryptObject, decryptUnproved, type ObjectKey, OVERHEAD } from './decrypt.ts';

/** Objects of index and snapshots begin with a mark of their form. The form of a blob stands in the index. */

const COMPRESSED = 2;
const JSON_STARTS = new Set(['{'.charCodeAt(0), '['.charCodeAt(0)]);

/** The JSON text of an object of an index or a snapshot. */
export function unpackJson(key: ObjectKey, object: Uint8Array, maxBytes: number): string {
  const plain = opened(key, object);
  const [form = 0] = plain;
  if (form === COMPRESSED) return inflate(plain.subarray(1), undefined, maxBytes).toString('utf8');
  if (!JSON_STARTS.has(form)) throw damaged('An object has an unknown form.');
  if (plain.byteLength > maxBytes) throw damaged(`An object is larger than ${maxBytes} bytes.`);
  return asBuffer(plain).toString('utf8');
}

/**
 * The content of the blob that is named by `id`, the hash of it: that proves more than the MAC, which everyone with the key
 * can make. `length` is that of the content where the blob is compressed.
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

/** fzstd compares what it is given with 1. Without this, each comparison would write all its bytes as a text. */
class Unpacked extends Uint8Array {
  [Symbol.toPrimitive](): number {
    return Number.NaN;
  }
}

/**
 * Unpacks into a buffer that we make, so that no length in the data decides how much memory is taken. Without a known
 * length, the header of the data names it. restic leaves it out below 256 bytes.
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
  // This is JSON, which contains no zeros: they are the part of the buffer that was not used.
  const end = content.indexOf(0);
  if (end === -1) throw damaged('Compressed data does not say how long it is.');
  return content.subarray(0, end);
}

const UNNAMED_MAX = 64 * 1024;
const ZSTD_MAGIC = 0xfd2fb528;

/** The length of the content that the header of a Zstandard frame names: RFC 8878, 3.1.1.1. */
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
