import { databaseError } from './database-error.ts';

/** An archive in the format of `tar`, read as a stream. Only files and folders are accepted, with names below the root. */

const BLOCK = 512;
const NAME_MAX = 255;

export interface TarEntry {
  type: 'file' | 'folder';
  names: string[];
  size: number;
  /** Of a file: everything has to be read before the next entry. */
  content: AsyncIterable<Uint8Array>;
}

const damaged = (why: string) => databaseError('BACKUP_DAMAGED', `The backup cannot be unpacked: ${why}.`);

/** Throws where the archive ends before its end mark, or has something else than files and folders. */
export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncGenerator<TarEntry, void> {
  const bytes = new ByteReader(source);
  for (;;) {
    const header = await bytes.exactly(BLOCK);
    if (header.every((byte) => byte === 0)) break;
    const { type, names, size } = parseHeader(header);
    let left = size;
    async function* content() {
      while (left > 0) {
        const part = await bytes.atMost(left);
        left -= part.length;
        yield part;
      }
    }
    yield { type, names, size, content: content() };
    while (left > 0) left -= (await bytes.atMost(left)).length;
    await bytes.exactly((BLOCK - (size % BLOCK)) % BLOCK);
  }
  await bytes.rest();
}

function parseHeader(header: Buffer): Pick<TarEntry, 'type' | 'names' | 'size'> {
  if (numberIn(header, 148, 8) !== checksumOf(header)) throw damaged('a header is wrong');
  const prefix = header.toString('latin1', 257, 262) === 'ustar' ? textIn(header, 345, 155) : '';
  const name = textIn(header, 0, 100);
  const whole = prefix === '' ? name : `${prefix}/${name}`;
  const flag = String.fromCharCode(header[156] ?? 0);
  const type = flag === '0' || flag === '\0' ? 'file' : flag === '5' ? 'folder' : undefined;
  const shown = JSON.stringify(whole.slice(0, 200));
  if (type === undefined) throw damaged(`${shown} is neither a file nor a folder`);
  const names = whole.replace(/^\.\//, '').replace(/\/$/, '').split('/');
  const isBad = (each: string) => each === '' || each === '.' || each === '..' || each.length > NAME_MAX;
  if (whole.startsWith('/') || names.some(isBad)) throw damaged(`${shown} is no name below the folder`);
  return { type, names, size: type === 'file' ? numberIn(header, 124, 12) : 0 };
}

function textIn(header: Buffer, at: number, length: number): string {
  const field = header.subarray(at, at + length);
  const end = field.indexOf(0);
  return field.subarray(0, end === -1 ? length : end).toString('utf8');
}

/** Octal digits, or 64 bits where the first bit is set: PostgreSQL writes files of 8 GiB so. */
function numberIn(header: Buffer, at: number, length: number): number {
  if (((header[at] ?? 0) & 0x80) !== 0) {
    const value = header.readBigUInt64BE(at + length - 8);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw damaged('a file is too large');
    return Number(value);
  }
  const digits = textIn(header, at, length).trim();
  if (!/^[0-7]*$/.test(digits)) throw damaged('a number is wrong');
  return digits === '' ? 0 : Number.parseInt(digits, 8);
}

/** The field of the checksum counts as spaces. */
const checksumOf = (header: Buffer): number =>
  header.reduce((sum, byte, index) => sum + (index >= 148 && index < 156 ? 32 : byte), 0);

/** Gives the bytes of a stream in the portions that a reader wants. */
class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #held: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** At least one byte, and not more than `max`. */
  async atMost(max: number): Promise<Buffer> {
    while (this.#held.length === 0) {
      const next = await this.#source.next();
      if (next.done === true) throw damaged('it ends too early');
      this.#held = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
    }
    const part = this.#held.subarray(0, max);
    this.#held = this.#held.subarray(part.length);
    return part;
  }

  async exactly(count: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let left = count; left > 0; ) {
      const part = await this.atMost(left);
      left -= part.length;
      parts.push(part);
    }
    return Buffer.concat(parts);
  }

  /** Reads to the end, because only there the source says whether it was whole. */
  async rest(): Promise<void> {
    while ((await this.#source.next()).done !== true);
  }
}
