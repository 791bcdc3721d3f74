import { isUtf8 } from 'node:buffer';
import { shortened } from '../protocol/index.ts';

/**
 * The tar archives that Muster writes and reads: downloads of folders, backups of an installation, images of machines,
 * and base backups of PostgreSQL. Written in the form of POSIX.1-2001 (pax), which every tar of today reads. Why no library
 * does this: docs/decisions/tar.md.
 */

export const TAR_BLOCK = 512;

/** The end mark of an archive. */
export const TAR_END = Buffer.alloc(2 * TAR_BLOCK);

/** An archive that cannot be read, or an entry that cannot be written. The message is a sentence. */
export class TarError extends Error {}

/** Makes the error of a reader from its sentence, for callers with error classes of their own. */
type Fault = (sentence: string) => Error;
const tarError: Fault = (sentence) => new TarError(sentence);

/** The number of zeros that follow a content of `size` bytes, so that the next header begins a block. */
export const tarPaddingOf = (size: number): number => (TAR_BLOCK - (size % TAR_BLOCK)) % TAR_BLOCK;

/** The largest number that eleven octal digits hold. */
const OCTAL_MAX = 0o77777777777;
const NAME_BYTES = 100;
const PREFIX_BYTES = 155;

const [NAME, MODE, OWNER, GROUP, SIZE, MODIFIED, CHECKSUM] = [0, 100, 108, 116, 124, 136, 148];
const [TYPE, MAGIC, PREFIX] = [156, 257, 345];

export interface TarEntry {
  /** Relative, with slashes and without one at the end. Bytes if it may not be UTF-8. */
  path: string | Uint8Array;
  type: 'file' | 'directory';
  size: number;
  mode?: number | null;
  modifiedAt?: Date | null;
}

/**
 * The header of an entry: one block, or several if its path is not plain ASCII or is too long for one block. A size above
 * 8 GiB is written in base 256, as GNU tar does.
 */
export function encodeTarHeader({ path, type, size, mode, modifiedAt }: TarEntry): Buffer {
  if (!Number.isSafeInteger(size) || size < 0) throw new TarError(`An entry cannot have ${size} bytes.`);
  const given = typeof path === 'string' ? Buffer.from(path) : path;
  const bytes = Buffer.concat([given, Buffer.from(type === 'directory' ? '/' : '')]);
  const plain = plainNameOf(bytes);
  const fields = {
    size,
    seconds: Math.min(Math.max(0, Math.floor((modifiedAt?.getTime() ?? 0) / 1000)), OCTAL_MAX),
  };
  const own = encodeBlock({
    ...fields,
    ...(plain ?? { name: 'see-the-header-before', prefix: '' }),
    // Without the rights of the owner a folder could neither be filled nor removed.
    mode: ((mode ?? 0) & 0o777) | (type === 'directory' ? 0o700 : 0o600),
    type: type === 'directory' ? '5' : '0',
  });
  if (plain !== undefined) return own;
  const records = Buffer.concat([
    // Without this record a reader may convert bytes that have no encoding to its own.
    ...(isUtf8(bytes) ? [] : [encodeRecord('hdrcharset', Buffer.from('BINARY'))]),
    encodeRecord('path', bytes),
  ]);
  const extended = encodeBlock({
    ...fields,
    name: 'PaxHeader',
    prefix: '',
    type: 'x',
    mode: 0o600,
    size: records.length,
  });
  return Buffer.concat([extended, records, Buffer.alloc(tarPaddingOf(records.length)), own]);
}

/** The two fields for a path of printable ASCII that fits into them. */
function plainNameOf(bytes: Buffer): { name: string; prefix: string } | undefined {
  const path = bytes.toString('latin1');
  if (!/^[\x20-\x7e]+$/.test(path)) return undefined;
  if (path.length <= NAME_BYTES) return { name: path, prefix: '' };
  const at = path.lastIndexOf('/', PREFIX_BYTES);
  const name = path.slice(at + 1);
  if (at <= 0 || name === '' || name.length > NAME_BYTES) return undefined;
  return { name, prefix: path.slice(0, at) };
}

interface BlockFields {
  name: string;
  prefix: string;
  type: '0' | '5' | 'x';
  mode: number;
  size: number;
  seconds: number;
}

function encodeBlock({ name, prefix, type, mode, size, seconds }: BlockFields): Buffer {
  const block = Buffer.alloc(TAR_BLOCK);
  const octal = (value: number, at: number, digits: number) =>
    block.write(`${value.toString(8).padStart(digits, '0')}\0`, at, 'latin1');
  block.write(name, NAME, NAME_BYTES, 'latin1');
  octal(mode, MODE, 7);
  octal(0, OWNER, 7);
  octal(0, GROUP, 7);
  if (size <= OCTAL_MAX) octal(size, SIZE, 11);
  else {
    block[SIZE] = 0x80;
    block.writeBigUInt64BE(BigInt(size), SIZE + 4);
  }
  octal(seconds, MODIFIED, 11);
  block.write(type, TYPE, 'latin1');
  block.write('ustar\x0000', MAGIC, 'latin1');
  block.write(prefix, PREFIX, PREFIX_BYTES, 'latin1');
  octal(checksumOf(block), CHECKSUM, 6);
  block.write(' ', CHECKSUM + 7, 'latin1');
  return block;
}

/** `<length> <key>=<value>\n`, where the length counts its own digits. */
function encodeRecord(key: string, value: Buffer): Buffer {
  const rest = Buffer.concat([Buffer.from(` ${key}=`), value, Buffer.from('\n')]);
  let length = rest.length;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}

export interface TarHeader {
  name: string;
  type: 'file' | 'directory';
  size: number;
}

/**
 * One block, as Muster and PostgreSQL write it. `undefined`: a block of zeros, which begins the end mark.
 * Throws for any other kind of entry, extended headers among them.
 */
export function decodeTarHeader(bytes: Uint8Array, fault: Fault = tarError): TarHeader | undefined {
  const block = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (block.length !== TAR_BLOCK) throw fault('The archive ends too early, within a header.');
  if (block.every((byte) => byte === 0)) return undefined;
  if (numberIn(block, CHECKSUM, 8) !== checksumOf(block)) throw fault(DAMAGED_HEADER);
  const prefix = block.toString('latin1', MAGIC, MAGIC + 6) === 'ustar\0' ? textIn(block, PREFIX, 155) : '';
  const last = textIn(block, NAME, NAME_BYTES);
  const name = prefix === '' ? last : `${prefix}/${last}`;
  const flag = block[TYPE];
  if (flag === 0 || flag === 0x30) {
    const size = numberIn(block, SIZE, 12);
    if (size === undefined) throw fault(DAMAGED_HEADER);
    return { name, type: 'file', size };
  }
  if (flag === 0x35) return { name, type: 'directory', size: 0 };
  throw fault(`The archive has an entry, ${shownName(name)}, that is neither a file nor a folder.`);
}

const DAMAGED_HEADER = 'A header of the archive is damaged.';

/** The name of an entry, as messages show it. */
export const shownName = (name: string): string => JSON.stringify(shortened(name, 200));

function textIn(block: Buffer, at: number, length: number): string {
  const field = block.subarray(at, at + length);
  const end = field.indexOf(0);
  return field.toString('utf8', 0, end === -1 ? length : end);
}

/** Octal digits, or base 256 if the first bit is set. `undefined` if it is no number that a file can have. */
function numberIn(block: Buffer, at: number, length: number): number | undefined {
  if ((block[at] ?? 0) >= 0x80) {
    const value = BigInt(`0x${block.toString('hex', at + 1, at + length)}`);
    return block[at] === 0x80 && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : undefined;
  }
  const digits = textIn(block, at, length).trim();
  if (!/^[0-7]*$/.test(digits)) return undefined;
  return digits === '' ? 0 : Number.parseInt(digits, 8);
}

/** The sum of all bytes, with the checksum's own field counted as spaces. */
const checksumOf = (block: Buffer): number =>
  block.reduce((sum, byte, at) => sum + (at >= CHECKSUM && at < CHECKSUM + 8 ? 0x20 : byte), 0);

export interface ReadTarEntry extends TarHeader {
  /** Has to be read before the next entry. What was not read is skipped. */
  content: AsyncIterable<Buffer>;
}

/**
 * Reads the entries in their order, once, in constant memory. Throws for an archive that ends before its end mark or
 * goes on after it, so that a part that was cut off or appended does not go unnoticed.
 */
export async function* readTar(
  source: AsyncIterable<Uint8Array>,
  fault: Fault = tarError,
): AsyncGenerator<ReadTarEntry, void> {
  const bytes = new ByteReader(source, fault);
  try {
    for (;;) {
      const header = decodeTarHeader(await bytes.exactly(TAR_BLOCK, 'before its end mark'), fault);
      if (header === undefined) break;
      const content = bytes.atMost(header.size, `in the middle of ${shownName(header.name)}`);
      yield { ...header, content };
      for await (const _skipped of content);
      await bytes.exactly(tarPaddingOf(header.size), `after ${shownName(header.name)}`);
    }
    const second = await bytes.exactly(TAR_BLOCK, 'in its end mark');
    await bytes.expectZeros(second);
  } finally {
    await bytes.close();
  }
}

/** Hands out the bytes of a stream in the portions that a reader asks for. */
class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  readonly #fault: Fault;
  #held: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>, fault: Fault) {
    this.#source = source[Symbol.asyncIterator]();
    this.#fault = fault;
  }

  /** The next `count` bytes, in pieces. If an iteration is left early, the next one continues from there. */
  atMost(count: number, place: string): AsyncIterable<Buffer> {
    let left = count;
    const next = async (): Promise<IteratorResult<Buffer, undefined>> => {
      if (left === 0) return { done: true, value: undefined };
      const value = await this.#some(left, place);
      left -= value.length;
      return { done: false, value };
    };
    return { [Symbol.asyncIterator]: () => ({ next }) };
  }

  async exactly(count: number, place: string): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for await (const piece of this.atMost(count, place)) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  /** Archives may be filled up with zeros behind their end mark. Nothing else may follow. */
  async expectZeros(first: Buffer): Promise<void> {
    let piece = first;
    do {
      if (piece.some((byte) => byte !== 0)) throw this.#fault('The archive goes on after its end mark.');
      piece = this.#held;
      this.#held = Buffer.alloc(0);
    } while (piece.length > 0 || (await this.#fill()));
  }

  async close(): Promise<void> {
    await this.#source.return?.();
  }

  async #some(limit: number, place: string): Promise<Buffer> {
    if (!(await this.#fill())) throw this.#fault(`The archive ends too early, ${place}.`);
    const piece = this.#held.subarray(0, limit);
    this.#held = this.#held.subarray(piece.length);
    return piece;
  }

  /** Whether there is at least one more byte. */
  async #fill(): Promise<boolean> {
    while (this.#held.length === 0) {
      const next = await this.#source.next();
      if (next.done === true) return false;
      this.#held = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
    }
    return true;
  }
}
