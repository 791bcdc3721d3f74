import { createHash } from 'node:crypto';
import { EngineError } from '../engine-error.ts';
import { BlobIndex } from './blob-index.ts';
import type { ObjectKey } from './decrypt.ts';
import { contentOf, type FileContent, type FileParts, findParts } from './file-content.ts';
import type { ObjectSource } from './object-source.ts';
import { Turns } from './turns.ts';
import type { FolderEntry, TreeReader, WholeEntry } from './tree.ts';
import { damaged } from './unpack.ts';

/** What lies at a path of a snapshot, to be read: a file, or a folder with everything in it. */

export interface ContentQuery {
  /** More entries or parts of files than these are not opened: `too_large`. */
  limits: { entries: number; parts: number };
  /** Why an entry of a folder is not read, and nothing in it either. */
  leaveOut?: (entry: LeftOutQuery) => string | undefined;
  signal: AbortSignal;
}
export type LeftOutQuery = Pick<FolderEntry, 'name' | 'type'> & { path: string };

export interface OpenedFile {
  type: 'file';
  entry: FolderEntry;
  /** Changes with the content. */
  contentId: string;
  content: FileContent;
}

export interface OpenedFolder {
  type: 'dir';
  /** `undefined`: the root of the snapshot. */
  entry: FolderEntry | undefined;
  entries: number;
  bytes: number;
  /** Each folder before its content. Can be called again. */
  read(): AsyncGenerator<FolderItem, void>;
}

export interface FolderItem {
  /** From the folder that was opened: `inner/file`. */
  path: string;
  entry: WholeEntry;
  /** Of files that are not left out. */
  content: FileContent | null;
  leftOut: string | undefined;
}

interface Parts {
  source: ObjectSource;
  key: ObjectKey;
  trees: TreeReader;
}

/** Deeper than any file system allows paths to be. */
const DEPTH_MAX = 4096;

export async function openFile(
  { source, key }: Parts,
  entry: WholeEntry,
  { limits }: ContentQuery,
): Promise<OpenedFile | 'too_large'> {
  const { content: ids, ...shown } = entry;
  if (ids.length > limits.parts) return 'too_large';
  const wanted = new BlobIndex();
  for (const id of ids) wanted.want(id);
  const content = await contentOf(await findParts(source, key, wanted), ids);
  const hash = createHash('sha256');
  for (const id of ids) hash.update(id);
  return { type: 'file', entry: shown, contentId: hash.digest('hex'), content };
}

/** Walks the folder twice: now, for what has to be looked up in the index, and again when it is read. */
export async function openFolder(
  parts: Parts,
  { id, entry }: { id: string; entry: FolderEntry | undefined },
  query: ContentQuery,
): Promise<OpenedFolder | 'too_large'> {
  const { limits, signal } = query;
  const wanted = new BlobIndex();
  const turns = new Turns();
  let entries = 0;
  let bytes = 0;
  for await (const found of walkWhole(parts.trees, id, query)) {
    entries += 1;
    if (found.leftOut === undefined && found.entry.type === 'file') {
      bytes += found.entry.sizeBytes;
      for (const part of found.entry.content) wanted.want(part);
    }
    if (entries > limits.entries || wanted.size > limits.parts) return 'too_large';
    if (signal.aborted) throw new EngineError('CANCELLED');
    await turns.next();
  }
  const located = await findParts(parts.source, parts.key, wanted);
  return {
    type: 'dir',
    entry,
    entries,
    bytes,
    async *read() {
      for await (const found of walkWhole(parts.trees, id, query)) yield withContent(located, found);
    },
  };
}

/** A file of which a part is missing is left out, so that the others can be read. */
async function withContent(located: FileParts, { path, entry, leftOut }: Found): Promise<FolderItem> {
  if (leftOut !== undefined || entry.type !== 'file') return { path, entry, leftOut, content: null };
  try {
    return { path, entry, leftOut, content: await contentOf(located, entry.content) };
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    return { path, entry, leftOut: 'damaged', content: null };
  }
}

interface Found {
  path: string;
  entry: WholeEntry;
  leftOut: string | undefined;
}

/** Folder by folder, so that what is kept in memory is one folder and the names of those to come. */
async function* walkWhole(
  trees: TreeReader,
  root: string,
  { leaveOut = () => undefined }: Pick<ContentQuery, 'leaveOut'>,
): AsyncGenerator<Found, void> {
  const open = [{ id: root, above: '', depth: 0 }];
  for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
    const { id, above, depth } = folder;
    if (depth > DEPTH_MAX) throw damaged(`The snapshot is deeper than ${DEPTH_MAX} folders.`);
    const names = new Set<string>();
    const inner: typeof open = [];
    for (const entry of await trees.readWhole(id)) {
      const path = above === '' ? entry.name : `${above}/${entry.name}`;
      // restic writes no name twice, but those who know the password can.
      const leftOut = names.has(entry.name) ? 'same name' : leaveOut({ ...entry, path });
      names.add(entry.name);
      yield { path, entry, leftOut };
      if (entry.type === 'dir' && entry.subtree !== null && leftOut === undefined) {
        inner.push({ id: entry.subtree, above: path, depth: depth + 1 });
      }
    }
    for (const each of inner.reverse()) open.push(each);
  }
}
