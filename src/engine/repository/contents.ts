import type { FolderEntry, TreeReader, WholeEntry } from './tree.ts';
import { damaged, type ObjectKey, type ObjectSource } from './object-encoding.ts';
import { createHash } from 'node:crypto';
import { EngineError } from '../engine-error.ts';
import { BlobIndex } from './blob-index.ts';
import { contentOf, type FileContent, type FileParts, findParts } from './file-content.ts';
import { EventLoopYield } from './event-loop-yield.ts';

/** Compares two folders by their ids: folders that are equal in both are not read. */

export interface Difference {
  path: string;
  kind: 'added' | 'removed' | 'changed' | 'type_changed';
  before: FolderEntry | undefined;
  after: FolderEntry | undefined;
}

export interface ComparedFolder {
  /** Entries that were compared. */
  compared: number;
  differences: Difference[];
}

interface ComparedIds {
  /** `undefined`: this side does not exist, so everything in the other was added or removed. */
  before: string | undefined;
  after: string | undefined;
  /** Common path of both sides, without a trailing slash. */
  path: string;
}

const DEPTH_MAX = 4096;

/** Folder by folder; in each, first the existing entries and then the removed ones. */
export async function* compareFolders(
  trees: TreeReader,
  root: ComparedIds,
): AsyncGenerator<ComparedFolder, void> {
  const open = [{ ...root, depth: 0 }];
  for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
    const { before, after, path, depth } = folder;
    if (before === after) continue;
    if (depth > DEPTH_MAX) throw damaged(`The snapshot is deeper than ${DEPTH_MAX} folders.`);
    const [old, now] = [await entriesOf(trees, before), await entriesOf(trees, after)];
    const pairs = pairsOf(old, now);
    yield {
      compared: old.length + now.length,
      differences: pairs.flatMap((pair) => differenceOf(pair, path)),
    };
    const inner = pairs.flatMap((pair) => {
      const ids = { before: subtreeOf(pair.before), after: subtreeOf(pair.after) };
      const name = (pair.after ?? pair.before)?.name ?? '';
      return ids.before === ids.after ? [] : [{ ...ids, path: `${path}/${name}`, depth: depth + 1 }];
    });
    for (const each of inner.reverse()) open.push(each);
  }
}

interface Pair {
  before: WholeEntry | undefined;
  after: WholeEntry | undefined;
}

const entriesOf = async (trees: TreeReader, id: string | undefined): Promise<readonly WholeEntry[]> =>
  id === undefined ? [] : trees.readWhole(id);

/** By name. A forged folder can contain a name twice: those are paired in order. */
function pairsOf(old: readonly WholeEntry[], now: readonly WholeEntry[]): Pair[] {
  const left = new Map<string, WholeEntry[]>();
  for (const entry of old) {
    const same = left.get(entry.name);
    if (same === undefined) left.set(entry.name, [entry]);
    else same.push(entry);
  }
  for (const same of left.values()) same.reverse();
  const pairs = now.map((after): Pair => ({ before: left.get(after.name)?.pop(), after }));
  const removed = [...left.values()].flatMap((same) => same.reverse());
  return [...pairs, ...removed.map((before): Pair => ({ before, after: undefined }))];
}

function differenceOf({ before, after }: Pair, above: string): Difference[] {
  const kind = kindOf(before, after);
  const name = (after ?? before)?.name ?? '';
  return kind === undefined
    ? []
    : [{ path: `${above}/${name}`, kind, before: asEntry(before), after: asEntry(after) }];
}

function kindOf(
  before: WholeEntry | undefined,
  after: WholeEntry | undefined,
): Difference['kind'] | undefined {
  if (before === undefined) return 'added';
  if (after === undefined) return 'removed';
  if (before.type !== after.type) return 'type_changed';
  const isSame =
    before.sizeBytes === after.sizeBytes &&
    before.linkTarget === after.linkTarget &&
    before.content.length === after.content.length &&
    before.content.every((id, at) => id === after.content[at]);
  // For folders, the content has its own differences.
  return isSame || after.type === 'dir' ? undefined : 'changed';
}

const subtreeOf = (entry: WholeEntry | undefined): string | undefined =>
  entry?.type === 'dir' ? (entry.subtree ?? undefined) : undefined;

/** Drops the parts of files, to save memory. */
function asEntry(entry: WholeEntry | undefined): FolderEntry | undefined {
  if (entry === undefined) return undefined;
  const { content: _content, linkTarget: _linkTarget, ...shown } = entry;
  return shown;
}

/** Opens a path of a snapshot for reading: a file, or a folder with everything in it. */

export interface ContentQuery {
  /** Limit of entries or parts of files. Above it: `too_large`. */
  limits: { entries: number; parts: number };
  /** Why an entry of a folder, with its content, is not read. */
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
  /** Each folder before its content. Can be iterated again. */
  read(): AsyncGenerator<FolderItem, void>;
}

export interface FolderItem {
  /** Relative to the opened folder: `inner/file`. */
  path: string;
  entry: WholeEntry;
  /** Only for files that are not left out. */
  content: FileContent | null;
  leftOut: string | undefined;
}

interface Parts {
  source: ObjectSource;
  key: ObjectKey;
  trees: TreeReader;
}

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

/** Walks the folder twice: now, to collect the blobs to look up in the index, and again when it is read. */
export async function openFolder(
  parts: Parts,
  { id, entry }: { id: string; entry: FolderEntry | undefined },
  query: ContentQuery,
): Promise<OpenedFolder | 'too_large'> {
  const { limits, signal } = query;
  const wanted = new BlobIndex();
  const eventLoop = new EventLoopYield();
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
    await eventLoop.yield();
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

/** A file with a missing part is left out, so that the others can be read. */
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

/** Folder by folder, so that only one folder and the names of pending ones are in memory. */
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
      // restic writes no name twice, but an attacker with the password can.
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
