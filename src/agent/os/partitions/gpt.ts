import { crc32 } from 'node:zlib';
import type { MachinePartitionTable } from '../../../engine/index.ts';
import type { ReadAt } from './read-at.ts';

/** The partition table of UEFI (GPT). Numbers are in sectors. */

const SIGNATURE = 'EFI PART';
const HEADER_MIN = 92;
const ENTRY_BYTES = 128;
const ENTRIES_MAX = 256;
const UNUSED = '00000000-0000-0000-0000-000000000000';
const LEGACY_BOOT = 2n ** 2n;

/** Where the fields of a header stand. */
const AT = {
  headerBytes: 12,
  headerSum: 16,
  own: 24,
  other: 32,
  firstUsable: 40,
  lastUsable: 48,
  id: 56,
  entries: 72,
  entryCount: 80,
  entryBytes: 84,
  entriesSum: 88,
} as const;

export interface Gpt {
  header: Buffer;
  entries: Buffer;
  sectorBytes: number;
}

/** The first of the two tables; `undefined` where there is none that is whole. */
export async function findGpt(read: ReadAt, sectorBytes: number): Promise<Gpt | undefined> {
  const header = await read(sectorBytes, sectorBytes);
  if (header.length < sectorBytes || header.toString('latin1', 0, 8) !== SIGNATURE) return undefined;
  const headerBytes = header.readUInt32LE(AT.headerBytes);
  const count = header.readUInt32LE(AT.entryCount);
  const isUsual =
    headerBytes >= HEADER_MIN &&
    headerBytes <= sectorBytes &&
    header.readUInt32LE(AT.entryBytes) === ENTRY_BYTES &&
    count <= ENTRIES_MAX;
  if (!isUsual || header.readUInt32LE(AT.headerSum) !== headerSum(header)) return undefined;
  const entries = await read(numberAt(header, AT.entries) * sectorBytes, count * ENTRY_BYTES);
  const isWhole =
    entries.length === count * ENTRY_BYTES && crc32(entries) === header.readUInt32LE(AT.entriesSum);
  return isWhole ? { header, entries, sectorBytes } : undefined;
}

export function describeGpt({ header, entries, sectorBytes }: Gpt): MachinePartitionTable {
  return {
    label: 'gpt',
    id: guidAt(header, AT.id),
    unit: 'sectors',
    firstlba: numberAt(header, AT.firstUsable),
    lastlba: numberAt(header, AT.lastUsable),
    sectorsize: sectorBytes,
    partitions: [...entriesOf(entries)].flatMap(({ entry, number }) => {
      const type = guidAt(entry, 0);
      const [start, end] = [numberAt(entry, 32), numberAt(entry, 40)];
      if (type === UNUSED || end < start) return [];
      const name = entry.toString('utf16le', 56, ENTRY_BYTES).replace(/\0.*$/s, '');
      return [
        {
          number,
          start,
          size: end - start + 1,
          type,
          uuid: guidAt(entry, 16),
          ...(name === '' ? {} : { name }),
          ...((entry.readBigUInt64LE(48) & LEGACY_BOOT) === 0n ? {} : { bootable: true }),
        },
      ];
    }),
  };
}

export interface Written {
  offset: number;
  bytes: Buffer;
}

export interface MovedTable {
  writes: Written[];
  /** The partition that was made larger, in bytes. */
  grown: { number: number; offset: number; sizeBytes: number } | undefined;
}

/**
 * What has to be written so that a table that was copied to a larger disk is right there: the second table at its end,
 * both headers, and the size that the protective record of old programs names.
 * @param protective  the first sector of the disk
 * @param grow  also makes the last partition reach the end
 */
export function moveGpt(gpt: Gpt, protective: Buffer, diskBytes: number, grow: boolean): MovedTable {
  const { sectorBytes } = gpt;
  const sectors = Math.floor(diskBytes / sectorBytes);
  const entries = Buffer.from(gpt.entries);
  const entrySectors = Math.ceil(entries.length / sectorBytes);
  const last = sectors - 1;
  const lastUsable = last - entrySectors - 1;
  const grown = grow ? growLast(entries, lastUsable, sectorBytes) : undefined;

  const first = Buffer.from(gpt.header);
  first.writeBigUInt64LE(1n, AT.own);
  first.writeBigUInt64LE(BigInt(last), AT.other);
  first.writeBigUInt64LE(BigInt(lastUsable), AT.lastUsable);
  first.writeUInt32LE(crc32(entries), AT.entriesSum);
  const second = Buffer.from(first);
  second.writeBigUInt64LE(BigInt(last), AT.own);
  second.writeBigUInt64LE(1n, AT.other);
  second.writeBigUInt64LE(BigInt(last - entrySectors), AT.entries);
  for (const header of [first, second]) header.writeUInt32LE(headerSum(header), AT.headerSum);

  const record = Buffer.from(protective);
  // The first entry of the old table stands for the whole disk, as far as 32 bits can say it.
  if (record[450] === 0xee) record.writeUInt32LE(Math.min(last, 0xffff_ffff), 458);
  const padded = Buffer.alloc(entrySectors * sectorBytes);
  entries.copy(padded);
  const writes = [
    { offset: 0, bytes: record },
    { offset: sectorBytes, bytes: first },
    { offset: numberAt(first, AT.entries) * sectorBytes, bytes: padded },
    { offset: (last - entrySectors) * sectorBytes, bytes: padded },
    { offset: last * sectorBytes, bytes: second },
  ];
  return { writes, grown };
}

function growLast(entries: Buffer, lastUsable: number, sectorBytes: number): MovedTable['grown'] {
  const [furthest] = [...entriesOf(entries)]
    .filter(({ entry }) => guidAt(entry, 0) !== UNUSED)
    .sort((one, other) => numberAt(other.entry, 40) - numberAt(one.entry, 40));
  if (furthest === undefined || numberAt(furthest.entry, 40) >= lastUsable) return undefined;
  const { entry, number } = furthest;
  entry.writeBigUInt64LE(BigInt(lastUsable), 40);
  const start = numberAt(entry, 32);
  return { number, offset: start * sectorBytes, sizeBytes: (lastUsable - start + 1) * sectorBytes };
}

function* entriesOf(entries: Buffer): Generator<{ entry: Buffer; number: number }> {
  for (let at = 0; at < entries.length; at += ENTRY_BYTES) {
    yield { entry: entries.subarray(at, at + ENTRY_BYTES), number: at / ENTRY_BYTES + 1 };
  }
}

function headerSum(header: Buffer): number {
  const copy = Buffer.from(header.subarray(0, header.readUInt32LE(AT.headerBytes)));
  copy.writeUInt32LE(0, AT.headerSum);
  return crc32(copy);
}

/** More sectors than any disk has, so that bytes are numbers that are exact. What names a later one is no place on a disk. */
const SECTORS_MAX = 2n ** 37n;

function numberAt(bytes: Buffer, at: number): number {
  const value = bytes.readBigUInt64LE(at);
  return value >= SECTORS_MAX ? 0 : Number(value);
}

/** The first three parts are little-endian. */
function guidAt(bytes: Buffer, at: number): string {
  const part = (from: number, to: number) => bytes.toString('hex', at + from, at + to);
  const turned = (from: number, to: number) =>
    Buffer.from(bytes.subarray(at + from, at + to))
      .reverse()
      .toString('hex');
  return [turned(0, 4), turned(4, 6), turned(6, 8), part(8, 10), part(10, 16)].join('-').toUpperCase();
}
