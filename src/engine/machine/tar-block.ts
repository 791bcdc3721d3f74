/** Headers of a tar archive with a fixed set of members: plain files whose names are short, of any size. */

export const BLOCK = 512;
/** The largest number that eleven octal digits hold. */
const OCTAL_MAX = 0o77777777777;
const NAME = /^[\x21-\x7e]{1,100}$/;

export interface TarHeader {
  name: string;
  size: number;
}

/** A size that eleven octal digits do not hold stands in base 256, as GNU tar writes it. Every tar of today reads it. */
export function encodeHeader({ name, size }: TarHeader, modifiedAt: Date): Buffer {
  if (!NAME.test(name)) throw new Error(`${name} cannot be the name of a member.`);
  if (!Number.isSafeInteger(size) || size < 0) throw new Error(`${size} cannot be the size of a member.`);
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, digits: number) =>
    block.write(`${value.toString(8).padStart(digits, '0')}\0`, at, 'latin1');
  block.write(name, 0, 'latin1');
  octal(0o600, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  if (size <= OCTAL_MAX) octal(size, 124, 11);
  else {
    block[124] = 0x80;
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  octal(Math.min(Math.max(0, Math.floor(modifiedAt.getTime() / 1000)), OCTAL_MAX), 136, 11);
  block.write('        0', 148, 'latin1');
  block.write('ustar\x0000', 257, 'latin1');
  block.write(`${sumOf(block).toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

/** `undefined`: the end of the archive. Throws for what is no header of a plain file. */
export function decodeHeader(block: Uint8Array): TarHeader | undefined {
  const bytes = Buffer.from(block);
  if (bytes.length !== BLOCK) throw new Error('The archive ends within a header.');
  if (bytes.every((byte) => byte === 0)) return undefined;
  const sum = octalOf(bytes, 148, 8);
  bytes.write('        ', 148, 'latin1');
  if (sum !== sumOf(bytes)) throw new Error('A header of the archive is damaged.');
  const kind = bytes[156];
  if (kind !== 0 && kind !== 0x30) throw new Error('The archive has a member that is no plain file.');
  const name = untilZero(bytes.subarray(0, 100));
  if (!NAME.test(name)) throw new Error('The archive has a member with a strange name.');
  return { name, size: sizeOf(bytes) };
}

/** What follows the content of a member. */
export const paddingOf = (size: number): number => (BLOCK - (size % BLOCK)) % BLOCK;

const sumOf = (block: Uint8Array) => block.reduce((total, byte) => total + byte, 0);

function sizeOf(block: Buffer): number {
  if ((block[124] ?? 0) < 0x80) return octalOf(block, 124, 12);
  const size = block.readBigUInt64BE(128);
  const isSmall = block.subarray(125, 128).every((byte) => byte === 0);
  if (block[124] !== 0x80 || !isSmall || size > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new Error('A header of the archive names an impossible size.');
  }
  return Number(size);
}

function octalOf(block: Buffer, at: number, length: number): number {
  const text = untilZero(block.subarray(at, at + length)).trim();
  if (!/^[0-7]{1,12}$/.test(text)) throw new Error('A header of the archive is damaged.');
  return Number.parseInt(text, 8);
}

function untilZero(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  return bytes.toString('latin1', 0, end === -1 ? bytes.length : end);
}
