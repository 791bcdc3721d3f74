import { EngineError } from '../../engine-error.ts';
import type { FileContent } from '../../reader/file-content.ts';
import { Turns } from '../../reader/turns.ts';
import { unsupportedFileSystem } from '../file-system-error.ts';
import type { FolderName } from './folder.ts';
import type { Inode } from './inode.ts';

/** Everything in a volume, with what is needed to make it again somewhere else. */

export interface VolumeEntry {
  /** From the root of the volume, as `pathText` writes it: `/etc/hostname`. */
  path: string;
  /** The bytes of the name, which is never a path. */
  name: Buffer;
  /** How many folders it is in. */
  depth: number;
  type: Inode['type'];
  sizeBytes: number;
  /** `null` where it cannot be read. */
  inode: Pick<Inode, 'number' | 'mode' | 'uid' | 'gid' | 'links' | 'modifiedAt'> | null;
  /** Of a symbolic link, in bytes. */
  linkTarget: Buffer | null;
  /** Of files that are not left out. */
  content: FileContent | null;
  /** Why it cannot be read, and nothing in it either. */
  leftOut: string | undefined;
}

export interface TreeQuery {
  /** Whether what is in a folder is wanted. */
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

/** Those of all folders on the way to one: a forged volume can have long folders in each other. */
const HELD_NAMES_MAX = 500_000;
const ENTRIES_MAX = 50_000_000;
const DEPTH_MAX = 4096;

/** Each folder is followed by all that is in it. One that is named at two places is a circle, or will be one. */
export async function* walkTree(parts: TreeParts, query: TreeQuery): AsyncGenerator<VolumeEntry, void> {
  const { enters = () => true, signal } = query;
  const seen = new Set([parts.root.number]);
  const open: OpenFolder[] = [{ path: '', names: await parts.names(parts.root), next: 0 }];
  const turns = new Turns();
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
    await turns.next();
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

/** Names are in the order of their bytes, so that the same ones follow each other. */
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

/** What cannot be read does not keep the rest from being read. */
function whyUnreadable(error: unknown): string {
  const code = error instanceof EngineError ? error.code : undefined;
  if (code === 'FILE_SYSTEM_UNSUPPORTED') return 'a folder with too many names';
  if (code === 'FILE_SYSTEM_DAMAGED' || code === 'REPOSITORY_DAMAGED') return 'damaged';
  throw error;
}
