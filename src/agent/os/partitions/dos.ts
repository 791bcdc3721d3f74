import type { MachinePartitionTable } from '../../../engine/index.ts';
import type { ReadAt } from './read-at.ts';

/** The partition table of PCs before UEFI (MBR). Numbers are in sectors. */

const FIRST_ENTRY = 446;
const ENTRY_BYTES = 16;
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

export async function describeDos(
  read: ReadAt,
  sectorBytes: number,
): Promise<MachinePartitionTable | undefined> {
  const record = await read(0, sectorBytes);
  if (!isRecord(record)) return undefined;
  const primary = entriesOf(record);
  // A boot sector of a file system has the same signature, and no entries that could be partitions.
  const isTable = primary.every(({ kind, start }) => kind === 0 || start > 0);
  if (!isTable || primary.some(({ kind }) => kind === PROTECTIVE)) return undefined;
  const partitions = primary.flatMap((entry, index) => described(entry, 0, index + 1));
  for (const { kind, start } of primary) {
    if (EXTENDED.has(kind)) partitions.push(...(await logical(read, start, sectorBytes)));
  }
  const id = record.readUInt32LE(440).toString(16).padStart(8, '0');
  return { label: 'dos', id: `0x${id}`, unit: 'sectors', sectorsize: sectorBytes, partitions };
}

/** A chain of records within the extended partition, each with one partition and the way to the next. */
async function logical(read: ReadAt, extended: number, sectorBytes: number): Promise<Partition[]> {
  const found: Partition[] = [];
  let at = extended;
  for (let number = 5; number < 5 + LOGICAL_MAX; number += 1) {
    const record = await read(at * sectorBytes, sectorBytes);
    if (!isRecord(record)) break;
    const [own, next] = entriesOf(record);
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

const entriesOf = (record: Buffer): Entry[] =>
  [0, 1, 2, 3].map((index) => {
    const at = FIRST_ENTRY + index * ENTRY_BYTES;
    return {
      bootable: record[at] === 0x80,
      kind: record[at + 4] ?? 0,
      start: record.readUInt32LE(at + 8),
      size: record.readUInt32LE(at + 12),
    };
  });
