import { pathText } from '../../protocol/index.ts';
import { EngineError } from '../engine-error.ts';
import { EventLoopYield } from '../repository/event-loop-yield.ts';
import type { FileContent } from '../repository/file-content.ts';
import type { Inode } from './ext-inode.ts';
import { unsupportedFileSystem, brokenFileSystem } from './volume-bytes.ts';

/** Walks a whole volume, with everything needed to restore it elsewhere. */

export interface VolumeEntry {
  /** From the root of the volume, as `pathText` writes it: `/etc/hostname`. */
  path: string;
  /** The bytes of the name, which contains no slash. */
  name: Buffer;
  /** Depth below the root. */
  depth: number;
  type: Inode['type'];
  sizeBytes: number;
  /** `null` if it cannot be read. */
  inode: Pick<Inode, 'number' | 'mode' | 'uid' | 'gid' | 'links' | 'modifiedAt'> | null;
  /** Target of a symbolic link, in bytes. */
  linkTarget: Buffer | null;
  /** Only for files that are not left out. */
  content: FileContent | null;
  /** Why the entry and its content cannot be read. */
  leftOut: string | undefined;
}

export interface TreeQuery {
  /** Whether the content of a folder is wanted. */
  enters?: (path: string) => boolean;
  signal: AbortSignal;
}

interface TreeParts {
  root: Inode;
  names: (folder: Inode) => Promise<FolderName[]>;
  inodeOf: (number: number) => Promise<Inode>;
  linkTarget: (inode: Inode) => Promise<Buffer | null>;
  contentOf: (inode: Inode) => FileContent;
}

interface OpenFolder {
  path: string;
  names: FolderName[];
  next: number;
}

/** Limits the names of all open folders: a forged volume can nest long folders. */
const HELD_NAMES_MAX = 500_000;
const ENTRIES_MAX = 50_000_000;
const DEPTH_MAX = 4096;

/** Each folder is followed by its content. A folder that is reached twice means a loop. */
export async function* walkTree(parts: TreeParts, query: TreeQuery): AsyncGenerator<VolumeEntry, void> {
  const { enters = () => true, signal } = query;
  const seen = new Set([parts.root.number]);
  const open: OpenFolder[] = [{ path: '', names: await parts.names(parts.root), next: 0 }];
  const eventLoop = new EventLoopYield();
  let entries = 0;
  for (let folder = open.at(-1); folder !== undefined; folder = open.at(-1)) {
    const at = folder.next;
    const named = folder.names[at];
    if (named === undefined) {
      open.pop();
      continue;
    }
    folder.next += 1;
    entries += 1;
    if (entries > ENTRIES_MAX) throw unsupportedFileSystem('The file system has too many files.');
    if (signal.aborted) throw new EngineError('CANCELLED');
    await eventLoop.yield();
    const path = `${folder.path}/${named.name}`;
    const inode = await ifReadable(parts.inodeOf(named.inode));
    const isFolder = inode?.type === 'dir';
    let leftOut = whyNot(named, folder.names[at - 1], inode);
    if (isFolder && seen.has(named.inode)) leftOut ??= 'damaged';
    let inner: FolderName[] | undefined;
    if (isFolder && leftOut === undefined) {
      seen.add(named.inode);
      if (enters(path)) {
        if (open.length > DEPTH_MAX) throw unsupportedFileSystem('The file system has too many folders.');
        const names = await parts.names(inode).catch(whyUnreadable);
        if (typeof names === 'string') leftOut = names;
        else inner = names;
      }
    }
    const linkTarget =
      inode?.type === 'symlink' ? ((await ifReadable(parts.linkTarget(inode))) ?? null) : null;
    if (inode?.type === 'symlink' && linkTarget === null) leftOut ??= 'damaged';
    yield {
      path,
      name: Buffer.from(named.key, 'latin1'),
      depth: open.length - 1,
      type: inode?.type ?? 'irregular',
      sizeBytes: inode?.type === 'file' ? inode.sizeBytes : 0,
      inode: inode ?? null,
      linkTarget,
      content: inode?.type === 'file' && leftOut === undefined ? parts.contentOf(inode) : null,
      leftOut,
    };
    if (inner === undefined) continue;
    const held = open.reduce((sum, { names }) => sum + names.length, inner.length);
    if (held > HELD_NAMES_MAX) throw unsupportedFileSystem('The folders have too many names.');
    open.push({ path, names: inner, next: 0 });
  }
}

/** Sorted by their bytes, so that equal names are adjacent. */
function whyNot(
  { key }: FolderName,
  before: FolderName | undefined,
  inode: Inode | undefined,
): string | undefined {
  if (/[/\0]/.test(key)) return 'no possible name';
  if (before?.key === key) return 'same name';
  if (inode === undefined) return 'damaged';
  return inode.isEncrypted ? 'encrypted' : undefined;
}

const ifReadable = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((error: unknown) => {
    whyUnreadable(error);
    return undefined;
  });

/** An unreadable folder does not stop the walk. */
function whyUnreadable(error: unknown): string {
  const code = error instanceof EngineError ? error.code : undefined;
  if (code === 'FILE_SYSTEM_UNSUPPORTED') return 'a folder with too many names';
  if (code === 'FILE_SYSTEM_DAMAGED' || code === 'REPOSITORY_DAMAGED') return 'damaged';
  throw error;
}

/** The names in the blocks of a folder. An index, if there is one, is hidden in entries without names. */

export interface FolderName {
  /** As `pathText` writes it. */
  name: string;
  /** Its bytes, each as one character, so that comparing the text compares the bytes. */
  key: string;
  inode: number;
}

const HEAD = 8;

export function* namesIn(block: Buffer): Generator<FolderName, void> {
  for (let at = 0; at + HEAD <= block.length; ) {
    const inode = block.readUInt32LE(at);
    const length = lengthOf(block.readUInt16LE(at + 4), block.length);
    const nameLength = block[at + 6] ?? 0;
    if (length % 4 !== 0 || length < HEAD + nameLength || at + length > block.length) {
      throw brokenFileSystem('A folder is damaged.');
    }
    const bytes = block.subarray(at + HEAD, at + HEAD + nameLength);
    // No system creates such a name. A replacement character keeps it a single file name and not a path.
    const name = pathText(bytes).replace(/[/\0]/g, '\ufffd');
    at += length;
    if (inode === 0 || name === '.' || name === '..') continue;
    if (name === '') throw brokenFileSystem('A folder has an entry without a name.');
    yield { name, key: bytes.toString('latin1'), inode };
  }
}

/** With blocks of 64 KiB, the length of a whole block does not fit into its field. */
const lengthOf = (written: number, blockBytes: number): number =>
  blockBytes === 65_536 && (written === 0xffff || written === 0) ? 65_536 : written;

export const pathMissing = () =>
  new EngineError('PATH_MISSING', { message: 'The file system does not contain this path.' });
