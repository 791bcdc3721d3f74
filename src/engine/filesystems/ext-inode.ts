import { brokenFileSystem, unsupportedFileSystem, type VolumeBytes } from './volume-bytes.ts';

/** One file, folder or other entry of an ext file system, without its name. */
export interface Inode {
  number: number;
  mode: number;
  type: 'file' | 'dir' | 'symlink' | 'dev' | 'chardev' | 'fifo' | 'socket' | 'irregular';
  sizeBytes: number;
  uid: number;
  gid: number;
  /** The number of its hard links. */
  links: number;
  /** In microseconds, the precision with which Node sets times. */
  modifiedAt: string;
  hasExtents: boolean;
  isEncrypted: boolean;
  /** 60 bytes: the block map, or the target of a short link. */
  map: Buffer;
}

const TYPES: Readonly<Record<number, Inode['type']>> = {
  0x1: 'fifo',
  0x2: 'chardev',
  0x4: 'dir',
  0x6: 'dev',
  0x8: 'file',
  0xa: 'symlink',
  0xc: 'socket',
};

const FLAGS = { encrypted: 0x800, extents: 0x80000 } as const;

/** Throws if the number or its location is impossible. */
export async function readInode(volume: VolumeBytes, fs: Superblock, number: number): Promise<Inode> {
  if (number < 1 || number > fs.inodes) throw brokenFileSystem(`There is no inode ${number}.`);
  const group = Math.floor((number - 1) / fs.inodesPerGroup);
  if (group >= fs.groups) throw brokenFileSystem(`The inode ${number} is in no group.`);
  const descriptor = await volume.readAt(descriptorPlace(fs, group), fs.descriptorBytes);
  if (descriptor === undefined) throw brokenFileSystem(`The group ${group} lies beyond the volume.`);
  const high = fs.descriptorBytes >= 64 ? descriptor.readUInt32LE(0x28) : 0;
  const table = descriptor.readUInt32LE(8) + high * 2 ** 32;
  const place = table * fs.blockBytes + ((number - 1) % fs.inodesPerGroup) * fs.inodeBytes;
  const bytes = await volume.readAt(place, fs.inodeBytes);
  if (bytes === undefined) throw brokenFileSystem(`The inode ${number} lies beyond the volume.`);
  return parseInode(number, bytes);
}

function descriptorPlace(fs: Superblock, group: number): number {
  const perBlock = fs.blockBytes / fs.descriptorBytes;
  const block = Math.floor(group / perBlock);
  const within = (group % perBlock) * fs.descriptorBytes;
  if (fs.firstMetaGroup === null || block < fs.firstMetaGroup) {
    return (fs.firstDataBlock + 1 + block) * fs.blockBytes + within;
  }
  // The descriptors of a meta group are in its first group, behind the copy of the superblock if there is one.
  const first = block * perBlock;
  const start = fs.firstDataBlock + first * fs.blocksPerGroup;
  return (start + (hasSuperblock(first) ? 1 : 0)) * fs.blockBytes + within;
}

/** Copies of the superblock are in the groups 0 and 1, and in those that are powers of 3, 5 and 7. */
function hasSuperblock(group: number): boolean {
  if (group <= 1) return true;
  return [3, 5, 7].some((base) => {
    let power = base;
    while (power < group) power *= base;
    return power === group;
  });
}

function parseInode(number: number, bytes: Buffer): Inode {
  const mode = bytes.readUInt16LE(0);
  const type = TYPES[mode >> 12] ?? 'irregular';
  const flags = bytes.readUInt32LE(32);
  // Only for files and folders; for others the field once had another meaning.
  const high = type === 'file' || type === 'dir' ? bytes.readUInt32LE(108) : 0;
  const sizeBytes = bytes.readUInt32LE(4) + high * 2 ** 32;
  if (!Number.isSafeInteger(sizeBytes)) throw brokenFileSystem(`The inode ${number} has an impossible size.`);
  const isEncrypted = (flags & FLAGS.encrypted) !== 0;
  return {
    number,
    mode: mode & 0o7777,
    type: isEncrypted && type !== 'dir' ? 'irregular' : type,
    sizeBytes,
    uid: bytes.readUInt16LE(2) + bytes.readUInt16LE(120) * 2 ** 16,
    gid: bytes.readUInt16LE(24) + bytes.readUInt16LE(122) * 2 ** 16,
    links: bytes.readUInt16LE(26),
    modifiedAt: modifiedAt(bytes),
    hasExtents: (flags & FLAGS.extents) !== 0,
    isEncrypted,
    map: Buffer.from(bytes.subarray(40, 100)),
  };
}

function modifiedAt(bytes: Buffer): string {
  const hasExtra = bytes.length >= 140 && bytes.readUInt16LE(128) >= 12;
  const extra = hasExtra ? bytes.readUInt32LE(136) : 0;
  const seconds = bytes.readInt32LE(16) + (extra & 3) * 2 ** 32;
  // A value above one second is corrupt.
  const micros = Math.min(999_999, Math.floor((extra >>> 2) / 1000));
  const [toSeconds = ''] = new Date(seconds * 1000).toISOString().split('.');
  return `${toSeconds}.${String(micros).padStart(6, '0')}Z`;
}

/** The superblock of an ext2, ext3 or ext4 file system. The layout is documented by the Linux kernel. */

const SUPERBLOCK_AT = 1024;
const SUPERBLOCK_BYTES = 1024;
const MAGIC = 0xef53;
/** Set if it was cleanly unmounted. */
const CLEAN = 1;

/** Features that change the format of what is read here. */
const INCOMPATIBLE = {
  needsRecovery: 0x4,
  metaGroups: 0x10,
  is64Bit: 0x80,
  /**
   * Supported features, which do not change what is read here: types in names, extents, the multiple mount protection,
   * and others.
   */
  known: 0x2 | 0x4 | 0x10 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x2000 | 0x4000 | 0x1_0000 | 0x2_0000,
} as const;

export interface Superblock {
  blockBytes: number;
  blocks: number;
  inodes: number;
  inodeBytes: number;
  inodesPerGroup: number;
  blocksPerGroup: number;
  groups: number;
  firstDataBlock: number;
  descriptorBytes: number;
  /** From this group on, each group of descriptors lies in its own part of the volume. */
  firstMetaGroup: number | null;
  /** False: the file system was in use. Changes in its journal have not been written to their place yet. */
  isSettled: boolean;
}

export async function readSuperblock(volume: VolumeBytes): Promise<Superblock> {
  const block = await volume.readAt(SUPERBLOCK_AT, SUPERBLOCK_BYTES);
  if (block?.readUInt16LE(56) !== MAGIC) {
    throw unsupportedFileSystem('Files are read from file systems of ext2, ext3 and ext4 only.');
  }
  const u32 = (at: number) => block.readUInt32LE(at);
  const isOld = u32(76) === 0;
  const features = isOld ? 0 : u32(96);
  if ((features & ~INCOMPATIBLE.known) !== 0) {
    throw unsupportedFileSystem('The file system has features that cannot be read here.');
  }
  const has64Bit = (features & INCOMPATIBLE.is64Bit) !== 0;
  const found: Superblock = {
    blockBytes: 2 ** (10 + Math.min(u32(24), 30)),
    blocks: u32(4) + (has64Bit ? u32(0x150) * 2 ** 32 : 0),
    inodes: u32(0),
    inodeBytes: isOld ? 128 : block.readUInt16LE(88),
    inodesPerGroup: u32(40),
    blocksPerGroup: u32(32),
    groups: 0,
    firstDataBlock: u32(20),
    descriptorBytes: has64Bit ? block.readUInt16LE(254) : 32,
    firstMetaGroup: (features & INCOMPATIBLE.metaGroups) === 0 ? null : u32(0x104),
    isSettled: (features & INCOMPATIBLE.needsRecovery) === 0 && (block.readUInt16LE(58) & CLEAN) !== 0,
  };
  const { blockBytes, blocks, inodeBytes, blocksPerGroup, descriptorBytes, inodesPerGroup } = found;
  const isPossible =
    blockBytes <= 65_536 &&
    isPowerOfTwo(inodeBytes) &&
    inodeBytes >= 128 &&
    inodeBytes <= blockBytes &&
    isPowerOfTwo(descriptorBytes) &&
    descriptorBytes >= 32 &&
    descriptorBytes <= 1024 &&
    blocksPerGroup > 0 &&
    inodesPerGroup > 0 &&
    found.firstDataBlock <= 1 &&
    blocks > 0 &&
    blocks * blockBytes <= volume.length;
  if (!isPossible) throw brokenFileSystem('The superblock contradicts itself or its volume.');
  return { ...found, groups: Math.ceil((blocks - found.firstDataBlock) / blocksPerGroup) };
}

const isPowerOfTwo = (value: number) => value > 0 && (value & (value - 1)) === 0;

/** The location of an inode's content. Blocks outside every run are a hole, which reads as zeros. */
interface Run {
  /** In blocks, from the beginning of the file. */
  logical: number;
  /** In blocks, from the beginning of the volume. Null: reserved and not written, which reads as zeros. */
  physical: number | null;
  count: number;
}

/**
 * Ascending and not overlapping, from the block `from` on. The file system may be forged: a map that does not advance
 * is refused, so that reading ends.
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
/** Longer extents are reserved and not written: zeros. */
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
  // No node may appear twice in a map, so that a forged map cannot have more nodes than the volume.
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
      // A run that begins after the first requested block may contain it, unless the next one begins before it as
      // well.
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

/** The block map of ext2 and ext3: twelve direct blocks, then indirect blocks, up to three levels. */
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
