import { brokenFileSystem } from '../file-system-error.ts';
import type { VolumeBytes } from '../volume-bytes.ts';
import type { Inode } from './inode.ts';
import type { Superblock } from './superblock.ts';

/** Where the content of an inode lies. What is not in any run is a hole, which reads as zeros. */
export interface Run {
  /** In blocks, from the beginning of the file. */
  logical: number;
  /** In blocks, from the beginning of the volume. Null: reserved and not written, which reads as zeros. */
  physical: number | null;
  count: number;
}

/**
 * Ascending, and apart from each other, from the block `from` on. The file system can have been forged: each step goes
 * forward in the file, and a map that does not is refused, so that reading ends.
 */
export async function* runsOf(
  volume: VolumeBytes,
  fs: Superblock,
  inode: Inode,
  { from, until }: { from: number; until: number },
): AsyncGenerator<Run, void> {
  let end = 0;
  const runs = inode.hasExtents
    ? extents({ volume, fs, from, until }, inode.map, { depth: undefined, first: 0, end: 2 ** 32 })
    : pointers({ volume, fs, from, until }, inode.map);
  for await (const run of runs) {
    if (run.logical < end) throw brokenFileSystem(`The inode ${inode.number} has parts that overlap.`);
    end = run.logical + run.count;
    if (run.physical !== null && run.physical + run.count > fs.blocks) {
      throw brokenFileSystem(`The inode ${inode.number} has parts beyond the volume.`);
    }
    if (end > from && run.logical < until) yield run;
    if (end >= until) return;
  }
}

interface Search {
  volume: VolumeBytes;
  fs: Superblock;
  from: number;
  until: number;
}

const EXTENT_MAGIC = 0xf30a;
const ENTRY = 12;
const DEPTH_MAX = 5;
/** Longer ones are reserved and not written: zeros. */
const WRITTEN_MAX = 32_768;

async function* extents(
  search: Search,
  node: Buffer,
  { depth: expected, first, end }: { depth: number | undefined; first: number; end: number },
): AsyncGenerator<Run, void> {
  const entries = node.readUInt16LE(2);
  const depth = node.readUInt16LE(6);
  const isNode =
    node.readUInt16LE(0) === EXTENT_MAGIC &&
    (entries + 1) * ENTRY <= node.length &&
    (expected === undefined ? depth <= DEPTH_MAX : depth === expected && entries > 0);
  if (!isNode) throw brokenFileSystem('A map of a file is damaged.');
  const starts = Array.from({ length: entries }, (_none, index) => node.readUInt32LE((index + 1) * ENTRY));
  // No node is good at two places of a map, so that a forged one cannot stand for more nodes than there are.
  const isInOrder = starts.every(
    (start, index) => start >= (index === 0 ? first : (starts[index - 1] ?? 0) + 1),
  );
  if (!isInOrder || (starts.at(-1) ?? first) >= end) {
    throw brokenFileSystem('A map of a file is not in order.');
  }
  for (const [index, logical] of starts.entries()) {
    if (logical >= search.until) return;
    const at = (index + 1) * ENTRY;
    if (depth > 0) {
      // What begins later than the first wanted block can hold it, unless the next one begins before it as well.
      const next = starts[index + 1] ?? end;
      if (next <= search.from) continue;
      const block = node.readUInt32LE(at + 4) + node.readUInt16LE(at + 8) * 2 ** 32;
      const child = await readBlock(search, block);
      yield* extents(search, child, { depth: depth - 1, first: logical, end: next });
      continue;
    }
    const length = node.readUInt16LE(at + 4);
    if (length === 0) throw brokenFileSystem('A part of a file is empty.');
    const physical = node.readUInt32LE(at + 8) + node.readUInt16LE(at + 6) * 2 ** 32;
    yield length > WRITTEN_MAX
      ? { logical, physical: null, count: length - WRITTEN_MAX }
      : { logical, physical, count: length };
  }
}

const DIRECT = 12;

/** The map of ext2 and ext3: twelve blocks, then blocks of numbers of blocks, up to three deep. */
async function* pointers(search: Search, map: Buffer): AsyncGenerator<Run, void> {
  const perBlock = search.fs.blockBytes / 4;
  for (let index = 0; index < DIRECT; index += 1) {
    yield* pointer(search, map.readUInt32LE(index * 4), { logical: index, depth: 0 });
  }
  let logical = DIRECT;
  for (let depth = 1; depth <= 3; depth += 1) {
    yield* pointer(search, map.readUInt32LE((DIRECT + depth - 1) * 4), { logical, depth });
    logical += perBlock ** depth;
  }
}

async function* pointer(
  search: Search,
  block: number,
  { logical, depth }: { logical: number; depth: number },
): AsyncGenerator<Run, void> {
  const step = (search.fs.blockBytes / 4) ** depth;
  if (block === 0 || logical >= search.until || logical + step <= search.from) return;
  if (depth === 0) {
    yield { logical, physical: block, count: 1 };
    return;
  }
  const numbers = await readBlock(search, block);
  const inner = step / (search.fs.blockBytes / 4);
  let run: (Run & { physical: number }) | undefined;
  for (let at = 0; at < numbers.length; at += 4) {
    const place = { logical: logical + (at / 4) * inner, depth: depth - 1 };
    if (place.logical >= search.until) break;
    const next = numbers.readUInt32LE(at);
    if (depth > 1) {
      yield* pointer(search, next, place);
    } else if (run !== undefined && next === run.physical + run.count) {
      run.count += 1;
    } else {
      if (run !== undefined) yield run;
      run = next === 0 ? undefined : { logical: place.logical, physical: next, count: 1 };
    }
  }
  if (run !== undefined) yield run;
}

async function readBlock({ volume, fs }: Search, block: number): Promise<Buffer> {
  const bytes = await volume.readAt(block * fs.blockBytes, fs.blockBytes);
  if (bytes === undefined || block === 0) throw brokenFileSystem('A map of a file lies beyond the volume.');
  return bytes;
}
