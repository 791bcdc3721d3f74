import { brokenFileSystem } from '../file-system-error.ts';
import type { VolumeBytes } from '../volume-bytes.ts';
import type { Superblock } from './superblock.ts';

/** One file, folder or other thing of an ext file system, without its name. */
export interface Inode {
  number: number;
  mode: number;
  type: 'file' | 'dir' | 'symlink' | 'dev' | 'chardev' | 'fifo' | 'socket' | 'irregular';
  sizeBytes: number;
  uid: number;
  gid: number;
  /** How many names it has. */
  links: number;
  /** To the microsecond, which is how exactly Node sets times. */
  modifiedAt: string;
  hasExtents: boolean;
  isEncrypted: boolean;
  /** 60 bytes: where the content lies, or the target of a short link. */
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

/** Throws where the number or its place cannot be. */
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
  // Only of files and folders; of others the field has had another meaning.
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
  // What is more than a second is damaged.
  const micros = Math.min(999_999, Math.floor((extra >>> 2) / 1000));
  const [toSeconds = ''] = new Date(seconds * 1000).toISOString().split('.');
  return `${toSeconds}.${String(micros).padStart(6, '0')}Z`;
}
