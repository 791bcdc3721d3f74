import type { FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import type { MachineDisk, MachinePartitionTable, MachineVolume } from '../../engine/index.ts';
import { readOutput, findProgram } from './child-process.ts';
import { type ReadAt, readFrom } from './read-disk.ts';
import { shortened } from '../../protocol/index.ts';

/** Reads the partition table of a disk (GPT or MBR), and recognizes the file system of each partition. */

/** Enough bytes for the signatures of all known file systems. */
export const HEAD_BYTES = 68 * 1024;

type Found = Pick<MachineVolume, 'type' | 'uuid' | 'label'>;

export async function describeTable(
  read: ReadAt,
  sectorBytes: number,
): Promise<MachinePartitionTable | undefined> {
  const gpt = await findGpt(read, sectorBytes);
  return gpt === undefined ? describeDos(read, sectorBytes) : describeGpt(gpt);
}

/** A disk without a table is one volume. Extended partitions contain others, and are not listed. */
export async function describeVolumes(
  read: ReadAt,
  { sizeBytes, partitionTable: table }: Pick<MachineDisk, 'sizeBytes' | 'partitionTable'>,
): Promise<MachineVolume[]> {
  const places =
    table === null
      ? [{ partition: null, offset: 0, sizeBytes }]
      : table.partitions
          .filter(({ type }) => table.label === 'gpt' || !['5', 'f', '85'].includes(type))
          .map(({ number, start, size }) => ({
            partition: number,
            offset: start * table.sectorsize,
            sizeBytes: size * table.sectorsize,
          }));
  const volumes: MachineVolume[] = [];
  for (const place of places) {
    if (place.offset + place.sizeBytes > sizeBytes) continue;
    const head = await read(place.offset, Math.min(HEAD_BYTES, place.sizeBytes));
    volumes.push({ ...place, ...recognize(head), content: 'whole' });
  }
  return volumes;
}

/** Detected by the signatures that the file systems define. */
export function recognize(head: Buffer): Found {
  const has = (at: number, signature: string) =>
    head.toString('latin1', at, at + signature.length) === signature;
  if (head.length >= 2048 && head.readUInt16LE(1024 + 56) === 0xef53) {
    return { type: 'ext', uuid: uuidAt(head, 1024 + 104), label: textAt(head, 1024 + 120, 16) };
  }
  if (has(4086, 'SWAPSPACE2')) {
    return { type: 'swap', uuid: uuidAt(head, 1036), label: textAt(head, 1052, 16) };
  }
  if (has(0, 'XFSB')) return { type: 'xfs', uuid: uuidAt(head, 32), label: textAt(head, 108, 12) };
  if (has(65_600, '_BHRfS_M')) {
    return { type: 'btrfs', uuid: uuidAt(head, 65_568), label: textAt(head, 65_835, 256) };
  }
  if (has(0, 'LUKS\xba\xbe')) return { type: 'luks', uuid: textAt(head, 168, 40), label: null };
  if (has(512, 'LABELONE')) return { type: 'lvm', uuid: textAt(head, 544, 32), label: null };
  if (has(3, 'NTFS    ')) return { type: 'ntfs', uuid: turnedHex(head, 72, 8), label: null };
  if (has(82, 'FAT32')) return { type: 'vfat', uuid: turnedHex(head, 67, 4), label: textAt(head, 71, 11) };
  if (has(54, 'FAT')) return { type: 'vfat', uuid: turnedHex(head, 39, 4), label: textAt(head, 43, 11) };
  return { type: 'unknown', uuid: null, label: null };
}

function uuidAt(head: Buffer, at: number): string | null {
  const hex = head.toString('hex', at, at + 16);
  if (/^0*$/.test(hex)) return null;
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

const turnedHex = (head: Buffer, at: number, length: number) =>
  Buffer.from(head.subarray(at, at + length))
    .reverse()
    .toString('hex')
    .toUpperCase();

function textAt(head: Buffer, at: number, length: number): string | null {
  const text = head
    .toString('utf8', at, at + length)
    .replace(/\0.*$/s, '')
    .trim();
  return text === '' ? null : text;
}

/** The partition table of UEFI (GPT). Numbers are in sectors. */

const SIGNATURE = 'EFI PART';
const HEADER_MIN = 92;
const GPT_ENTRY_BYTES = 128;
const ENTRIES_MAX = 256;
const UNUSED = '00000000-0000-0000-0000-000000000000';
const LEGACY_BOOT = 2n ** 2n;

/** Offsets of the fields of a header. */
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

interface Gpt {
  header: Buffer;
  entries: Buffer;
  sectorBytes: number;
}

/** The first valid one of the two tables; `undefined` if neither is valid. */
export async function findGpt(read: ReadAt, sectorBytes: number): Promise<Gpt | undefined> {
  const header = await read(sectorBytes, sectorBytes);
  if (header.length < sectorBytes || header.toString('latin1', 0, 8) !== SIGNATURE) return undefined;
  const headerBytes = header.readUInt32LE(AT.headerBytes);
  const count = header.readUInt32LE(AT.entryCount);
  const isUsual =
    headerBytes >= HEADER_MIN &&
    headerBytes <= sectorBytes &&
    header.readUInt32LE(AT.entryBytes) === GPT_ENTRY_BYTES &&
    count <= ENTRIES_MAX;
  if (!isUsual || header.readUInt32LE(AT.headerSum) !== headerSum(header)) return undefined;
  const entries = await read(numberAt(header, AT.entries) * sectorBytes, count * GPT_ENTRY_BYTES);
  const isWhole =
    entries.length === count * GPT_ENTRY_BYTES && crc32(entries) === header.readUInt32LE(AT.entriesSum);
  return isWhole ? { header, entries, sectorBytes } : undefined;
}

function describeGpt({ header, entries, sectorBytes }: Gpt): MachinePartitionTable {
  return {
    label: 'gpt',
    id: guidAt(header, AT.id),
    unit: 'sectors',
    firstlba: numberAt(header, AT.firstUsable),
    lastlba: numberAt(header, AT.lastUsable),
    sectorsize: sectorBytes,
    partitions: [...gptEntries(entries)].flatMap(({ entry, number }) => {
      const type = guidAt(entry, 0);
      const [start, end] = [numberAt(entry, 32), numberAt(entry, 40)];
      if (type === UNUSED || end < start) return [];
      const name = entry.toString('utf16le', 56, GPT_ENTRY_BYTES).replace(/\0.*$/s, '');
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

interface Written {
  offset: number;
  bytes: Buffer;
}

export interface MovedTable {
  writes: Written[];
  /** The partition that was made larger, in bytes. */
  grown: { number: number; offset: number; sizeBytes: number } | undefined;
}

/**
 * The writes that adapt a copied table to a larger disk: the backup table at its end, both headers, and the size in
 * the protective MBR.
 * @param protective  the first sector of the disk
 * @param grow  also grows the last partition to the end
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
  // The first entry of the protective MBR covers the whole disk, as far as 32 bits allow.
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
  const [furthest] = [...gptEntries(entries)]
    .filter(({ entry }) => guidAt(entry, 0) !== UNUSED)
    .sort((one, other) => numberAt(other.entry, 40) - numberAt(one.entry, 40));
  if (furthest === undefined || numberAt(furthest.entry, 40) >= lastUsable) return undefined;
  const { entry, number } = furthest;
  entry.writeBigUInt64LE(BigInt(lastUsable), 40);
  const start = numberAt(entry, 32);
  return { number, offset: start * sectorBytes, sizeBytes: (lastUsable - start + 1) * sectorBytes };
}

function* gptEntries(entries: Buffer): Generator<{ entry: Buffer; number: number }> {
  for (let at = 0; at < entries.length; at += GPT_ENTRY_BYTES) {
    yield { entry: entries.subarray(at, at + GPT_ENTRY_BYTES), number: at / GPT_ENTRY_BYTES + 1 };
  }
}

function headerSum(header: Buffer): number {
  const copy = Buffer.from(header.subarray(0, header.readUInt32LE(AT.headerBytes)));
  copy.writeUInt32LE(0, AT.headerSum);
  return crc32(copy);
}

/** More sectors than any disk has, so byte offsets are exact numbers. A later sector is not a valid position. */
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

/** The partition table of PCs before UEFI (MBR). Numbers are in sectors. */

const FIRST_ENTRY = 446;
const DOS_ENTRY_BYTES = 16;
const LOGICAL_MAX = 60;
const EXTENDED = new Set([0x05, 0x0f, 0x85]);
const PROTECTIVE = 0xee;

type Partition = MachinePartitionTable['partitions'][number];

interface Entry {
  bootable: boolean;
  kind: number;
  start: number;
  size: number;
}

async function describeDos(read: ReadAt, sectorBytes: number): Promise<MachinePartitionTable | undefined> {
  const record = await read(0, sectorBytes);
  if (!isRecord(record)) return undefined;
  const primary = dosEntries(record);
  // The boot sector of a file system has the same signature, but no entries that are valid partitions.
  const isTable = primary.every(({ kind, start }) => kind === 0 || start > 0);
  if (!isTable || primary.some(({ kind }) => kind === PROTECTIVE)) return undefined;
  const partitions = primary.flatMap((entry, index) => described(entry, 0, index + 1));
  for (const { kind, start } of primary) {
    if (EXTENDED.has(kind)) partitions.push(...(await logical(read, start, sectorBytes)));
  }
  const id = record.readUInt32LE(440).toString(16).padStart(8, '0');
  return { label: 'dos', id: `0x${id}`, unit: 'sectors', sectorsize: sectorBytes, partitions };
}

/** A chain of records in the extended partition, each with one partition and a link to the next record. */
async function logical(read: ReadAt, extended: number, sectorBytes: number): Promise<Partition[]> {
  const found: Partition[] = [];
  let at = extended;
  for (let number = 5; number < 5 + LOGICAL_MAX; number += 1) {
    const record = await read(at * sectorBytes, sectorBytes);
    if (!isRecord(record)) break;
    const [own, next] = dosEntries(record);
    if (own !== undefined) found.push(...described(own, at, number));
    if (next === undefined || !EXTENDED.has(next.kind) || next.start === 0) break;
    at = extended + next.start;
  }
  return found;
}

function described({ bootable, kind, start, size }: Entry, base: number, number: number): Partition[] {
  if (kind === 0 || size === 0) return [];
  const type = kind.toString(16);
  return [{ number, start: base + start, size, type, ...(bootable ? { bootable } : {}) }];
}

const isRecord = (record: Buffer) => record.length >= 512 && record.readUInt16LE(510) === 0xaa55;

const dosEntries = (record: Buffer): Entry[] =>
  [0, 1, 2, 3].map((index) => {
    const at = FIRST_ENTRY + index * DOS_ENTRY_BYTES;
    return {
      bootable: record[at] === 0x80,
      kind: record[at + 4] ?? 0,
      start: record.readUInt32LE(at + 8),
      size: record.readUInt32LE(at + 12),
    };
  });

/** What changes on a disk whose content came from a smaller one. */

interface DiskSize {
  sizeBytes: number;
  sectorBytes: number;
}

/** On a larger disk, the second partition table belongs at the new end; with `grow`, the last partition reaches it. */
export async function fitTable(
  handle: FileHandle,
  disk: DiskSize,
  targetBytes: number,
  grow: boolean,
): Promise<MovedTable['grown']> {
  if (targetBytes === disk.sizeBytes) return undefined;
  const read = readFrom(handle);
  const gpt = await findGpt(read, disk.sectorBytes);
  if (gpt === undefined) return undefined;
  const { writes, grown } = moveGpt(gpt, await read(0, disk.sectorBytes), targetBytes, grow);
  for (const { offset, bytes } of writes) await handle.write(bytes, 0, bytes.length, offset);
  await handle.sync();
  return grown;
}

const GROW_MS = 60 * 60_000;
const SECTOR = 512;
const SUPERBLOCK = 1024;
const MAGIC = 0xef53;
const NEEDS_RECOVERY = 4;

/** The loop device ends when the last program that has it open ends, for any reason. */
const ON_LOOP_DEVICE = `PATH="$PATH:/usr/sbin:/sbin"
device=$(losetup --find --show --offset "$2" --sizelimit "$3" "$1")
exec 9<>"$device"
losetup --detach "$device"
"$4" -f "$device"`;

/**
 * Grows the ext file system of an enlarged partition. Returns a message for people if that is left to the machine;
 * then nothing was changed.
 */
export async function growFileSystem(
  handle: FileHandle,
  path: string,
  { offset, sizeBytes }: { offset: number; sizeBytes: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  const superblock = await readFrom(handle)(offset + SUPERBLOCK, 128);
  if (superblock.length < 128 || superblock.readUInt16LE(56) !== MAGIC) {
    return 'The last partition was made larger, and the file system in it was not.';
  }
  const later = 'Run resize2fs in the machine to make the file system larger';
  if ((superblock.readUInt32LE(96) & NEEDS_RECOVERY) !== 0) {
    return `${later}: its journal was not replayed yet.`;
  }
  const where = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;
  const [check, resize] = [await findProgram(['e2fsck'], where), await findProgram(['resize2fs'], where)];
  // The programs parse text after a question mark as options.
  if (check === undefined || resize === undefined || path.includes('?')) {
    return `${later}: e2fsprogs is not on this machine.`;
  }
  const place = `${path}?offset=${offset}`;
  const options = { signal, timeoutMs: GROW_MS };
  try {
    // A file system with errors is not changed.
    await readOutput(check, ['-fn', place], options);
    if ((await handle.stat()).isFile()) {
      // resize2fs would truncate the disk file at the end of the file system, as if that began at offset 0.
      const words = [path, String(offset), String(sizeBytes), resize];
      await readOutput('sh', ['-euc', ON_LOOP_DEVICE, 'sh', ...words], options);
    } else {
      await readOutput(resize, ['-f', place, `${Math.floor(sizeBytes / SECTOR)}s`], options);
    }
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    return `${later}: ${shortened(error instanceof Error ? error.message : String(error), 200)}`;
  }
}
