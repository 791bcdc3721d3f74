import type { MachineDisk, MachinePartitionTable, MachineVolume } from '../../../engine/index.ts';
import { describeDos } from './dos.ts';
import { describeGpt, findGpt } from './gpt.ts';
import type { ReadAt } from './read-at.ts';

/** What lies on a disk: its partition table, and the file system of each partition. */

/** Enough for the heads of all file systems that are known here. */
export const HEAD_BYTES = 68 * 1024;

type Found = Pick<MachineVolume, 'type' | 'uuid' | 'label'>;

export async function describeTable(
  read: ReadAt,
  sectorBytes: number,
): Promise<MachinePartitionTable | undefined> {
  const gpt = await findGpt(read, sectorBytes);
  return gpt === undefined ? describeDos(read, sectorBytes) : describeGpt(gpt);
}

/** A disk without a table is one volume. Extended partitions hold others, and are none. */
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

/** By the signatures that the file systems themselves look for. */
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
