import { brokenFileSystem, unsupportedFileSystem } from '../file-system-error.ts';
import type { VolumeBytes } from '../volume-bytes.ts';

/** What an ext2, ext3 or ext4 file system says of itself. The layout is that of the documentation of the Linux kernel. */

const SUPERBLOCK_AT = 1024;
const SUPERBLOCK_BYTES = 1024;
const MAGIC = 0xef53;
/** Of its state: it was unmounted in good order. */
const CLEAN = 1;

/** Features that change the form of what is read here. */
const INCOMPATIBLE = {
  needsRecovery: 0x4,
  metaGroups: 0x10,
  is64Bit: 0x80,
  /** What is read is the same with them: types in names, extents, the multiple mount protection, and others. */
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
  /** From this group of descriptors on, each lies in its own part of the volume. */
  firstMetaGroup: number | null;
  /** False: the file system was in use. What its journal holds was not written to its place yet. */
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
