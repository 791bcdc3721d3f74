/** The headers of a tar archive, in the ustar format that every tar reads. */

export const BLOCK = 512;
const NAME_BYTES = 100;
const PREFIX_BYTES = 155;
/** What eleven octal digits hold. */
const OCTAL_MAX = 8 ** 11 - 1;

export class ArchiveError extends Error {}

export interface TarEntry {
  name: string;
  size: number;
}

/** How many bytes of zeros follow `size` bytes, so that the next header begins a block. */
export const paddingAfter = (size: number) => (BLOCK - (size % BLOCK)) % BLOCK;

export function tarHeader({ name, size }: TarEntry): Buffer {
  const block = Buffer.alloc(BLOCK);
  const [prefix, last] = split(name);
  block.write(last, 0);
  block.write('0000600\0', 100);
  block.write('0000000\0', 108);
  block.write('0000000\0', 116);
  writeSize(block, size);
  block.write('00000000000\0', 136);
  block.write('0', 156);
  block.write('ustar\u000000', 257);
  block.write(prefix, 345);
  block.write(checksumOf(block), 148);
  return block;
}

/** `undefined` for a block of zeros, which ends an archive. */
export function readHeader(block: Buffer): TarEntry | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  if (textOf(block, 148, 8).trim() !== checksumOf(block).replace(/\0.*$/, '')) {
    throw new ArchiveError('The file is damaged: one of its headers does not match its checksum.');
  }
  if (textOf(block, 257, 5) !== 'ustar' || block[156] !== 0x30) {
    throw new ArchiveError('The file is not a backup of Muster: it has an entry that is no plain file.');
  }
  const prefix = textOf(block, 345, PREFIX_BYTES);
  const last = textOf(block, 0, NAME_BYTES);
  return { name: prefix === '' ? last : `${prefix}/${last}`, size: readSize(block) };
}

function split(name: string): [prefix: string, last: string] {
  if (Buffer.byteLength(name) <= NAME_BYTES) return ['', name];
  const at = name.lastIndexOf('/', PREFIX_BYTES);
  const [prefix, last] = [name.slice(0, at), name.slice(at + 1)];
  if (at <= 0 || Buffer.byteLength(last) > NAME_BYTES) {
    throw new ArchiveError(`The name ${name} is too long for the backup.`);
  }
  return [prefix, last];
}

function writeSize(block: Buffer, size: number): void {
  if (size <= OCTAL_MAX) {
    block.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
    return;
  }
  // Larger sizes are binary, marked by the highest bit, as GNU tar writes them.
  block.writeUInt8(0x80, 124);
  block.writeBigUInt64BE(BigInt(size), 128);
}

function readSize(block: Buffer): number {
  const first = block[124] ?? 0;
  const size =
    first === 0x80 ? Number(block.readBigUInt64BE(128)) : Number.parseInt(textOf(block, 124, 12).trim(), 8);
  if (Number.isSafeInteger(size) && size >= 0) return size;
  throw new ArchiveError('The file is damaged: one of its headers has no valid size.');
}

/** The sum of all bytes, with the checksum itself counted as spaces. */
function checksumOf(block: Buffer): string {
  let sum = 8 * 0x20;
  for (let at = 0; at < BLOCK; at++) if (at < 148 || at >= 156) sum += block[at] ?? 0;
  return `${sum.toString(8).padStart(6, '0')}\0 `;
}

function textOf(block: Buffer, from: number, length: number): string {
  const field = block.subarray(from, from + length);
  const end = field.indexOf(0);
  return field.toString('utf8', 0, end === -1 ? length : end);
}
