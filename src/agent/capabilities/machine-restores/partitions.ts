import { open, type FileHandle } from 'node:fs/promises';

/** The partitions of a disk in a file, with the file systems on them. The kernel of the host may know none of it. */

export interface Partition {
  start: number;
  type: 'ext' | 'swap' | 'xfs' | 'other';
  /** In lower case. */
  uuid: string | undefined;
}

const SECTOR = 512;
const PARTITIONS_MAX = 128;

export async function partitionsOf(file: string): Promise<Partition[]> {
  const handle = await open(file, 'r');
  try {
    const starts = await startsOf(handle);
    return await Promise.all(starts.map(async (start) => ({ start, ...(await contentAt(handle, start)) })));
  } finally {
    await handle.close();
  }
}

/** A disk without a table is one file system. */
async function startsOf(handle: FileHandle): Promise<number[]> {
  const first = await bytesAt(handle, 0, 2 * SECTOR);
  if (first.toString('latin1', SECTOR, SECTOR + 8) === 'EFI PART') {
    return gptStarts(handle, first.subarray(SECTOR));
  }
  if (first.readUInt16LE(510) !== 0xaa55) return [0];
  const starts = [446, 462, 478, 494].map((at) => first.readUInt32LE(at + 8) * SECTOR);
  return starts.filter((start) => start > 0);
}

async function gptStarts(handle: FileHandle, header: Buffer): Promise<number[]> {
  const table = Number(header.readBigUInt64LE(72)) * SECTOR;
  const count = Math.min(header.readUInt32LE(80), PARTITIONS_MAX);
  const size = header.readUInt32LE(84);
  if (!Number.isSafeInteger(table) || size < 128 || size > 4096) return [];
  const entries = await bytesAt(handle, table, count * size);
  return Array.from({ length: count }, (_none, index) => index * size).flatMap((at) => {
    const isUsed = entries.subarray(at, at + 16).some((byte) => byte !== 0);
    const start = Number(entries.readBigUInt64LE(at + 32)) * SECTOR;
    return isUsed && Number.isSafeInteger(start) ? [start] : [];
  });
}

async function contentAt(handle: FileHandle, start: number): Promise<Pick<Partition, 'type' | 'uuid'>> {
  const bytes = await bytesAt(handle, start, 4096);
  if (bytes.readUInt16LE(1024 + 56) === 0xef53) return { type: 'ext', uuid: uuidAt(bytes, 1024 + 104) };
  if (bytes.toString('latin1', 0, 4) === 'XFSB') return { type: 'xfs', uuid: uuidAt(bytes, 32) };
  if (bytes.toString('latin1', 4086, 4096) === 'SWAPSPACE2') {
    return { type: 'swap', uuid: uuidAt(bytes, 1024 + 12) };
  }
  // The serial number of a FAT file system, as fstab has it.
  if (bytes.toString('latin1', 82, 87) === 'FAT32') {
    const serial = bytes.readUInt32LE(67).toString(16).padStart(8, '0');
    return { type: 'other', uuid: `${serial.slice(0, 4)}-${serial.slice(4)}` };
  }
  return { type: 'other', uuid: undefined };
}

function uuidAt(bytes: Buffer, at: number): string {
  const hex = bytes.toString('hex', at, at + 16);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/** Zeros beyond the end of the file. */
async function bytesAt(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  await handle.read(bytes, 0, length, position);
  return bytes;
}
