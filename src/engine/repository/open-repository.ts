import { createHash } from 'node:crypto';
import { EngineError } from '../engine-error.ts';
import { EngineSnapshot, SnapshotId } from '../process/documents.ts';
import { type IndexLimits, readIndex } from './blob-index.ts';
import {
  type ComparedFolder,
  compareFolders,
  type ContentQuery,
  openFile,
  type OpenedFile,
  openFolder,
  type OpenedFolder,
} from './contents.ts';
import { type ObjectKey, damaged, unpackJson, type ObjectSource } from './object-encoding.ts';
import { type KeyQuery, openMasterKey } from './keys.ts';
import { type FolderEntry, TREE_CACHE_BYTES, TreeReader } from './tree.ts';

const USUAL_LIMITS: IndexLimits = { maxBlobs: 5_000_000, maxFiles: 20_000 };
const SNAPSHOT_MAX = 16 * 1024 * 1024;
/** Deeper than the paths of any file system. */
const DEPTH_MAX = 4096;

export interface FolderQuery {
  snapshotId: string;
  /** The path in the snapshot, from its root. */
  path: string;
  offset: number;
  limit: number;
}

export type ListedEntry = Omit<FolderEntry, 'subtree'>;

export interface FolderPage {
  entries: ListedEntry[];
  /** Entries of the whole folder. */
  total: number;
}

export interface WalkQuery {
  snapshotId: string;
  path?: string;
  maxEntries: number;
}

export interface WalkedEntry extends ListedEntry {
  path: string;
}

export interface CompareQuery {
  before: string;
  after: string;
  /** A folder that exists in at least one of them. */
  path: string;
}

/** Reads folders of snapshots without restic, which would walk a whole snapshot for each of them. */
export interface RepositoryReader {
  listFolder(query: FolderQuery): Promise<FolderPage>;
  /** The entry at a path; `undefined` for the root, which has no entry. Throws PATH_MISSING. */
  findEntry(snapshotId: string, path: string): Promise<ListedEntry | undefined>;
  /** The snapshot's own description. */
  readSnapshot(snapshotId: string): Promise<Omit<EngineSnapshot, 'id'>>;
  /**
   * Everything in a folder of a snapshot, by default in the whole snapshot, each folder before its content. Ends with
   * REPOSITORY_DAMAGED after `maxEntries`.
   */
  walk(query: WalkQuery): AsyncGenerator<WalkedEntry, void>;
  /** The differences of two snapshots, folder by folder. The cost depends on their number. */
  compare(query: CompareQuery): AsyncGenerator<ComparedFolder, void>;
  /** Opens a file or folder for reading. Throws PATH_MISSING, also if it is neither. */
  openContent(
    place: { snapshotId: string; path: string },
    query: ContentQuery,
  ): Promise<OpenedFile | OpenedFolder | 'too_large'>;
  /** The memory limit of the reader. */
  readonly memoryBytes: number;
}

/** Reads only the descriptions of snapshots, without the index and folders. */
export async function openDescriptions(
  source: ObjectSource,
  query: KeyQuery,
): Promise<Pick<RepositoryReader, 'readSnapshot'>> {
  const key = await openMasterKey(source, query);
  return { readSnapshot: (snapshotId) => readSnapshot(source, key, snapshotId) };
}

/** Derives the key and reads the index. That takes about a second and is done once for many folders. */
export async function openRepository(
  source: ObjectSource,
  query: KeyQuery,
  limits: Partial<IndexLimits> = {},
): Promise<RepositoryReader> {
  const key = await openMasterKey(source, query);
  const index = await readIndex(source, key, { ...USUAL_LIMITS, ...limits });
  const trees = new TreeReader(source, key, index);
  const rootOf = async (snapshotId: string) => (await readSnapshot(source, key, snapshotId)).tree ?? '';

  const idAt = async (snapshotId: string, names: readonly string[]) => {
    let id = await rootOf(snapshotId);
    for (const name of names) id = folderIn(await trees.read(id), name);
    return id;
  };
  const folderAt = async (snapshotId: string, names: readonly string[]) =>
    trees.read(await idAt(snapshotId, names));

  /** `undefined` if there is no such folder. */
  const idIfThere = (snapshotId: string, names: readonly string[]) =>
    idAt(snapshotId, names).catch((error: unknown) => {
      if (error instanceof EngineError && error.code === 'PATH_MISSING') return undefined;
      throw error;
    });

  return {
    memoryBytes: index.memoryBytes + TREE_CACHE_BYTES,
    readSnapshot: (snapshotId) => readSnapshot(source, key, snapshotId),
    async findEntry(snapshotId, path) {
      const names = namesOf(path);
      const last = names.pop();
      const within = await folderAt(snapshotId, names);
      if (last === undefined) return undefined;
      const found = within.find(({ name }) => name === last);
      if (found === undefined) throw new EngineError('PATH_MISSING');
      return withoutSubtree(found);
    },
    async listFolder({ snapshotId, path, offset, limit }) {
      const all = await folderAt(snapshotId, namesOf(path));
      return { entries: all.slice(offset, offset + limit).map(withoutSubtree), total: all.length };
    },
    async *compare({ before, after, path }) {
      const names = namesOf(path);
      const [old, now] = [await idIfThere(before, names), await idIfThere(after, names)];
      if (old === undefined && now === undefined) throw new EngineError('PATH_MISSING');
      const above = names.map((name) => `/${name}`).join('');
      yield* compareFolders(trees, { before: old, after: now, path: above });
    },
    async openContent({ snapshotId, path }, query) {
      const parts = { source, key, trees };
      const names = namesOf(path);
      const last = names.pop();
      const within = await idAt(snapshotId, names);
      if (last === undefined) return openFolder(parts, { id: within, entry: undefined }, query);
      const entry = (await trees.readWhole(within)).find(({ name }) => name === last);
      if (entry?.type === 'file') return openFile(parts, entry, query);
      if (entry?.subtree == null) throw new EngineError('PATH_MISSING');
      return openFolder(parts, { id: entry.subtree, entry }, query);
    },
    async *walk({ snapshotId, path = '/', maxEntries }) {
      const names = namesOf(path);
      const above = names.map((name) => `/${name}`).join('');
      let left = maxEntries;
      for await (const entry of walkFolder(trees, await idAt(snapshotId, names), above, names.length)) {
        left -= 1;
        if (left < 0) throw damaged(`The snapshot has more than ${maxEntries} entries.`);
        yield entry;
      }
    },
  };
}

/**
 * One object can stand for many folders, so a small repository can claim more folders than can ever be listed. Depth
 * and number of entries are limited; a loop is impossible, because each id is a hash of the content.
 */
async function* walkFolder(
  trees: TreeReader,
  id: string,
  above: string,
  depth: number,
): AsyncGenerator<WalkedEntry, void> {
  if (depth > DEPTH_MAX) throw damaged(`The snapshot is deeper than ${DEPTH_MAX} folders.`);
  for (const entry of await trees.read(id)) {
    const path = `${above}/${entry.name}`;
    yield { ...withoutSubtree(entry), path };
    if (entry.type === 'dir' && entry.subtree !== null) {
      yield* walkFolder(trees, entry.subtree, path, depth + 1);
    }
  }
}

async function readSnapshot(source: ObjectSource, key: ObjectKey, snapshotId: string) {
  const id = SnapshotId.parse(snapshotId);
  const object = await source.get('snapshot', id).catch((error: unknown) => {
    throw new EngineError('SNAPSHOT_MISSING', { cause: error });
  });
  if (createHash('sha256').update(object).digest('hex') !== id) throw damaged('A snapshot was changed.');
  let content: unknown;
  try {
    content = JSON.parse(unpackJson(key, object, SNAPSHOT_MAX));
  } catch (error) {
    if (error instanceof EngineError) throw error;
    throw damaged('A snapshot is not JSON.');
  }
  const parsed = EngineSnapshot.omit({ id: true }).safeParse(content);
  if (!parsed.success || parsed.data.tree === undefined) throw damaged('A snapshot has an unknown form.');
  return parsed.data;
}

function folderIn(entries: readonly FolderEntry[], name: string): string {
  const found = entries.find((entry) => entry.name === name && entry.type === 'dir');
  if (found?.subtree == null) throw new EngineError('PATH_MISSING');
  return found.subtree;
}

const namesOf = (path: string) => path.split('/').filter((name) => name !== '');

const withoutSubtree = ({ name, type, sizeBytes, mode, modifiedAt }: FolderEntry) => ({
  name,
  type,
  sizeBytes,
  mode,
  modifiedAt,
});
