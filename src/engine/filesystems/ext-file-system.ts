import { createHash } from 'node:crypto';
import { pathText } from '../../protocol/index.ts';
import { EngineError } from '../engine-error.ts';
import type { ContentQuery, FolderItem, OpenedFile, OpenedFolder } from '../repository/contents.ts';
import type { FileContent } from '../repository/file-content.ts';
import type { FolderEntry, WholeEntry } from '../repository/tree.ts';
import { EventLoopYield } from '../repository/event-loop-yield.ts';
import { brokenFileSystem, unsupportedFileSystem, type VolumeBytes } from './volume-bytes.ts';
import { runsOf, type Inode, readInode, readSuperblock, type Superblock } from './ext-inode.ts';
import {
  type FolderName,
  namesIn,
  pathMissing,
  type TreeQuery,
  type VolumeEntry,
  walkTree,
} from './ext-tree.ts';

/** Lists the files of a volume, as `openRepository` lists those of a snapshot. */
export interface FileSystemReader {
  /** False: the volume was in use, and changes in its journal are missing. */
  isSettled: boolean;
  listFolder(query: { path: string; offset: number; limit: number }): Promise<{
    entries: Omit<FolderEntry, 'subtree'>[];
    total: number;
  }>;
  /** Throws PATH_MISSING, also if the entry is neither a file nor a folder. Links are never followed. */
  openContent(path: string, query: ContentQuery): Promise<OpenedFile | OpenedFolder | 'too_large'>;
  /** The entry at a path, including links; `undefined` for the root. Throws PATH_MISSING. */
  findEntry(path: string): Promise<Omit<FolderEntry, 'subtree'> | undefined>;
  /** All entries, with everything needed to restore them. */
  tree(query: TreeQuery): AsyncGenerator<VolumeEntry, void>;
}

const ROOT = 2;
const FOLDER_BYTES_MAX = 64 * 1024 * 1024;
const NAMES_MAX = 200_000;
const DEPTH_MAX = 4096;
/** The part size that limits are counted in. */
const PART_BYTES = 1024 * 1024;
/** Longer reads are not cached. */
const KEPT_RUN_BYTES = 128 * 1024;
const ZEROS = Buffer.alloc(64 * 1024);

/**
 * Reads ext2, ext3 and ext4 without mounting and without another program: the content of an image is untrusted. Throws
 * FILE_SYSTEM_UNSUPPORTED for other volumes.
 */
export async function openExt(volume: VolumeBytes): Promise<FileSystemReader> {
  const fs = await readSuperblock(volume);
  return new ExtReader(volume, fs);
}

interface Found {
  path: string;
  entry: WholeEntry;
  inode: Inode | undefined;
  leftOut: string | undefined;
}

class ExtReader implements FileSystemReader {
  readonly #volume: VolumeBytes;
  readonly #fs: Superblock;

  constructor(volume: VolumeBytes, fs: Superblock) {
    this.#volume = volume;
    this.#fs = fs;
  }

  get isSettled(): boolean {
    return this.#fs.isSettled;
  }

  async listFolder({ path, offset, limit }: { path: string; offset: number; limit: number }) {
    const names = await this.#names(await this.#at(path));
    const entries = [];
    for (const { name, inode } of names.slice(offset, offset + limit)) {
      const { subtree: _none, ...entry } = entryOf(name, await this.#inodeIfReadable(inode));
      entries.push(entry);
    }
    return { entries, total: names.length };
  }

  async findEntry(path: string) {
    const inode = await this.#at(path);
    const name = path.split('/').findLast((each) => each !== '');
    if (name === undefined) return undefined;
    const { subtree: _none, ...entry } = entryOf(name, inode);
    return entry;
  }

  async *tree(query: TreeQuery): AsyncGenerator<VolumeEntry, void> {
    const parts = {
      root: await readInode(this.#volume, this.#fs, ROOT),
      names: (folder: Inode) => this.#names(folder),
      inodeOf: (number: number) => readInode(this.#volume, this.#fs, number),
      linkTarget: (inode: Inode) => this.#linkTarget(inode),
      contentOf: (inode: Inode) => this.#contentOf(inode),
    };
    yield* walkTree(parts, query);
  }

  async openContent(path: string, query: ContentQuery): Promise<OpenedFile | OpenedFolder | 'too_large'> {
    const inode = await this.#at(path);
    const name = path.split('/').findLast((each) => each !== '');
    if (inode.type === 'dir') {
      return this.#openFolder(inode, name === undefined ? undefined : entryOf(name, inode), query);
    }
    if (inode.type !== 'file' || name === undefined) throw pathMissing();
    if (inode.sizeBytes > query.limits.parts * PART_BYTES) return 'too_large';
    return {
      type: 'file',
      entry: entryOf(name, inode),
      contentId: contentIdOf(inode),
      content: this.#contentOf(inode),
    };
  }

  async #openFolder(root: Inode, entry: FolderEntry | undefined, query: ContentQuery) {
    const { limits, signal } = query;
    const eventLoop = new EventLoopYield();
    let entries = 0;
    let bytes = 0;
    for await (const { inode, leftOut } of this.#walk(root, query)) {
      entries += 1;
      if (inode?.type === 'file' && leftOut === undefined) bytes += inode.sizeBytes;
      if (entries > limits.entries || bytes > limits.parts * PART_BYTES) return 'too_large';
      if (signal.aborted) throw new EngineError('CANCELLED');
      await eventLoop.yield();
    }
    const read = async function* (this: ExtReader): AsyncGenerator<FolderItem, void> {
      for await (const { inode, ...found } of this.#walk(root, query)) {
        const isRead = inode?.type === 'file' && found.leftOut === undefined;
        yield { ...found, content: isRead ? this.#contentOf(inode) : null };
      }
    };
    return { type: 'dir' as const, entry, entries, bytes, read: read.bind(this) };
  }

  /** Each folder before its content. A folder that is reached twice means a loop. */
  async *#walk(root: Inode, { leaveOut = () => undefined }: Pick<ContentQuery, 'leaveOut'>) {
    const open = [{ inode: root, entry: await this.#wholeEntry('', root), above: '', depth: 0 }];
    const seen = new Set([root.number]);
    for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
      if (folder.depth > DEPTH_MAX) throw brokenFileSystem(`It is deeper than ${DEPTH_MAX} folders.`);
      const names = new Set<string>();
      const inner: typeof open = [];
      const listed = await this.#names(folder.inode).catch(orNothing);
      if (listed === undefined) {
        yield {
          path: folder.above,
          entry: folder.entry,
          inode: undefined,
          leftOut: 'damaged',
        } satisfies Found;
        continue;
      }
      for (const { name, inode: number } of listed) {
        const path = folder.above === '' ? name : `${folder.above}/${name}`;
        const inode = await this.#inodeIfReadable(number);
        const entry = await this.#wholeEntry(name, inode);
        const leftOut =
          inode === undefined || (inode.type === 'dir' && seen.has(number))
            ? 'damaged'
            : names.has(name)
              ? 'same name'
              : inode.isEncrypted
                ? 'encrypted'
                : leaveOut({ ...entry, path });
        names.add(name);
        yield { path, entry, inode, leftOut } satisfies Found;
        if (inode?.type === 'dir' && leftOut === undefined) {
          seen.add(number);
          inner.push({ inode, entry, above: path, depth: folder.depth + 1 });
        }
      }
      for (const each of inner.reverse()) open.push(each);
    }
  }

  async #at(path: string): Promise<Inode> {
    let inode = await readInode(this.#volume, this.#fs, ROOT);
    for (const wanted of path.split('/').filter((name) => name !== '')) {
      if (inode.type !== 'dir') throw pathMissing();
      const found = (await this.#names(inode)).find(({ name }) => name === wanted);
      if (found === undefined) throw pathMissing();
      inode = await readInode(this.#volume, this.#fs, found.inode);
    }
    return inode;
  }

  /** Sorted by the bytes of the names. */
  async #names(folder: Inode): Promise<FolderName[]> {
    if (folder.type !== 'dir') throw pathMissing();
    if (folder.isEncrypted) throw unsupportedFileSystem('The folder is encrypted.');
    const { blockBytes } = this.#fs;
    if (folder.sizeBytes > FOLDER_BYTES_MAX || folder.sizeBytes % blockBytes !== 0) {
      throw brokenFileSystem('A folder has an impossible size.');
    }
    const found: FolderName[] = [];
    let block: Buffer = Buffer.alloc(0);
    const eventLoop = new EventLoopYield();
    for await (const piece of this.#contentOf(folder).read()) {
      block = block.length === 0 ? piece : Buffer.concat([block, piece]);
      while (block.length >= blockBytes) {
        const whole = block.subarray(0, blockBytes);
        block = block.subarray(blockBytes);
        // A hole in a folder contains no names.
        if (whole.readUInt16LE(4) === 0 && blockBytes < 65_536) continue;
        for (const name of namesIn(whole)) found.push(name);
        if (found.length > NAMES_MAX) throw unsupportedFileSystem('The folder has too many names.');
      }
      await eventLoop.yield();
    }
    return found.sort((one, other) => (one.key < other.key ? -1 : 1));
  }

  /** Unreadable entries are reported, and do not stop the reading of others. */
  #inodeIfReadable(number: number): Promise<Inode | undefined> {
    return readInode(this.#volume, this.#fs, number).catch(orNothing);
  }

  async #wholeEntry(name: string, inode: Inode | undefined): Promise<WholeEntry> {
    const linkTarget = inode?.type === 'symlink' ? await this.#linkTarget(inode).catch(orNothing) : undefined;
    return {
      ...entryOf(name, inode),
      content: [],
      linkTarget: linkTarget == null ? null : pathText(linkTarget),
    };
  }

  async #linkTarget(inode: Inode): Promise<Buffer | null> {
    if (inode.sizeBytes < inode.map.length && !inode.hasExtents) {
      return inode.map.subarray(0, inode.sizeBytes);
    }
    if (inode.sizeBytes > this.#fs.blockBytes) return null;
    const pieces: Buffer[] = [];
    for await (const piece of this.#contentOf(inode).read()) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  #contentOf(inode: Inode): FileContent {
    const length = inode.sizeBytes;
    return { length, read: (range = { first: 0, last: length - 1 }) => this.#read(inode, range) };
  }

  async *#read(inode: Inode, { first, last }: { first: number; last: number }): AsyncGenerator<Buffer, void> {
    const { blockBytes } = this.#fs;
    let at = first;
    const end = Math.min(last + 1, inode.sizeBytes);
    if (at >= end) return;
    const wanted = { from: Math.floor(first / blockBytes), until: Math.ceil(end / blockBytes) };
    for await (const { logical, physical, count } of runsOf(this.#volume, this.#fs, inode, wanted)) {
      const start = Math.max(at, logical * blockBytes);
      const until = Math.min(end, (logical + count) * blockBytes);
      yield* zeros(start - at);
      if (physical === null) yield* zeros(until - start);
      else yield* this.#bytes(physical * blockBytes + start - logical * blockBytes, until - start);
      at = until;
    }
    yield* zeros(end - at);
  }

  async *#bytes(offset: number, length: number): AsyncGenerator<Buffer, void> {
    if (length > KEPT_RUN_BYTES) {
      yield* this.#volume.stream(offset, length);
      return;
    }
    const bytes = await this.#volume.readAt(offset, length);
    if (bytes === undefined) throw brokenFileSystem('A part of a file lies beyond the volume.');
    yield bytes;
  }
}

function entryOf(name: string, inode: Inode | undefined): FolderEntry {
  return {
    name,
    type: inode?.type ?? 'irregular',
    sizeBytes: inode?.type === 'file' ? inode.sizeBytes : 0,
    mode: inode?.mode ?? null,
    modifiedAt: inode?.modifiedAt ?? null,
    subtree: null,
  };
}

/** Belongs to one image, which the caller knows. */
const contentIdOf = ({ number, sizeBytes, modifiedAt, map }: Inode): string =>
  createHash('sha256').update(`${number} ${sizeBytes} ${modifiedAt} `).update(map).digest('hex');

function orNothing(error: unknown): undefined {
  if (error instanceof EngineError && error.code === 'FILE_SYSTEM_DAMAGED') return undefined;
  throw error;
}

function* zeros(length: number): Generator<Buffer, void> {
  for (let left = length; left > 0; left -= ZEROS.length) {
    yield ZEROS.subarray(0, Math.min(left, ZEROS.length));
  }
}
