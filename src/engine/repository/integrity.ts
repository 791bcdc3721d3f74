import { createHash } from 'node:crypto';
import { z } from 'zod';
import { BlobIndex, parseIndexFile, wantedOf, type FoundBlob } from './blob-index.ts';
import {
  type ObjectKey,
  damaged,
  unpackBlob,
  unpackJson,
  type ObjectSource,
  decryptObject,
} from './object-encoding.ts';
import { type KeyQuery, openMasterKey } from './keys.ts';
import { EventLoopYield } from './event-loop-yield.ts';
import { EngineError } from '../engine-error.ts';

/**
 * Finds snapshots that need data which never existed. restic does not prune a repository with such a snapshot, and an
 * attacker with the password can write one at any time.
 */

const INDEX_FILE_MAX = 64 * 1024 * 1024;
const SNAPSHOT_MAX = 16 * 1024 * 1024;
const TREE_MAX = 128 * 1024 * 1024;
/** The largest index and folders that are checked: they take some hundred MB. A larger repository is not checked. */
const BLOBS_MAX = 3_000_000;
const FOLDERS_MAX = 1_000_000;
const DEPTH_MAX = 4096;

const Hash = z.string().regex(/^[0-9a-f]{64}$/);
const Snapshot = z.object({ tree: Hash });
/** Only the references to other blobs are parsed; names and rights do not matter here. */
const Tree = z.object({
  nodes: z.array(z.object({ subtree: Hash.nullish(), content: z.array(Hash).nullish() })).nullable(),
});

/**
 * Returns the snapshots that cannot be complete. The index must be one that restic has just rebuilt from the headers
 * of the packs. Throws REPOSITORY_DAMAGED if an object does not match its name: then the storage has lost data, and
 * the affected snapshots are genuine, so the rest of them can be restored.
 */
export async function findIncompleteSnapshots(
  source: ObjectSource,
  query: KeyQuery,
  { signal }: { signal?: AbortSignal | undefined } = {},
): Promise<string[]> {
  const key = await openMasterKey(source, query);
  const { index, packs } = await readWholeIndex(source, key);
  for await (const { name } of source.list('data')) {
    signal?.throwIfAborted();
    // Its header is unreadable: it was written so, or was damaged later.
    if (!packs.has(name)) await assertIntact(source, name);
  }
  const folders = new Folders(source, key, index, signal);
  const incomplete: string[] = [];
  for await (const { name } of source.list('snapshot')) {
    const root = await rootOf(source, key, name);
    if (root === undefined || !(await folders.isWhole(root))) incomplete.push(name);
  }
  return incomplete;
}

async function readWholeIndex(source: ObjectSource, key: ObjectKey) {
  const index = new BlobIndex();
  const packs = new Set<string>();
  const eventLoop = new EventLoopYield();
  for await (const { name } of source.list('index')) {
    for (const pack of parseIndexFile(unpackJson(key, await source.get('index', name), INDEX_FILE_MAX))) {
      packs.add(pack.id);
      index.addPack(
        pack.id,
        wantedOf(pack.blobs, () => true),
      );
      if (index.size > BLOBS_MAX) throw damaged(`The index names more than ${BLOBS_MAX} blobs.`);
      await eventLoop.yield();
    }
  }
  return { index, packs };
}

async function assertIntact(source: ObjectSource, pack: string): Promise<void> {
  if (sha256(await source.get('data', pack)) !== pack) throw damaged(`The pack ${pack} was changed.`);
}

/** `undefined` if the snapshot was written without a folder. */
async function rootOf(source: ObjectSource, key: ObjectKey, name: string): Promise<string | undefined> {
  const object = await source.get('snapshot', name);
  if (sha256(object) !== name) throw damaged(`The snapshot ${name} was changed.`);
  try {
    return parsed(Snapshot, unpackJson(key, object, SNAPSHOT_MAX))?.tree;
  } catch {
    return undefined;
  }
}

class Folders {
  readonly #source: ObjectSource;
  readonly #key: ObjectKey;
  readonly #index: BlobIndex;
  readonly #signal: AbortSignal | undefined;
  /** Whether everything that a folder needs exists. */
  readonly #known = new Map<string, boolean>();
  readonly #eventLoop = new EventLoopYield();

  constructor(source: ObjectSource, key: ObjectKey, index: BlobIndex, signal: AbortSignal | undefined) {
    this.#source = source;
    this.#key = key;
    this.#index = index;
    this.#signal = signal;
  }

  /** Snapshots share most of their folders, and each is read once. */
  async isWhole(id: string, depth = 0): Promise<boolean> {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    if (depth > DEPTH_MAX || this.#known.size >= FOLDERS_MAX) {
      throw damaged('The snapshots have more folders than are looked at.');
    }
    const isWhole = await this.#look(id, depth);
    this.#known.set(id, isWhole);
    return isWhole;
  }

  async #look(id: string, depth: number): Promise<boolean> {
    this.#signal?.throwIfAborted();
    await this.#eventLoop.yield();
    const content = await this.#read(id);
    const tree = content === undefined ? undefined : parsed(Tree, content);
    if (tree === undefined) return false;
    for (const { subtree, content: blobs } of tree.nodes ?? []) {
      if (blobs?.some((blob) => !this.#index.has(blob)) === true) return false;
      if (subtree != null && !(await this.isWhole(subtree, depth + 1))) return false;
    }
    return true;
  }

  /** `undefined` if no pack contains it. */
  async #read(id: string): Promise<string | undefined> {
    for (const { pack, offset, length, contentLength } of this.#index.find(id)) {
      if (Math.max(length, contentLength ?? 0) > TREE_MAX) throw damaged(`The folder ${id} is too large.`);
      const blob = await this.#source.get('data', pack, { offset, length });
      try {
        return unpackBlob(this.#key, blob, { id, length: contentLength }).toString('utf8');
      } catch {
        await assertIntact(this.#source, pack);
      }
    }
    return undefined;
  }
}

function parsed<S extends z.ZodType>(schema: S, text: string): z.output<S> | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

const CONTENT_MAX = 128 * 1024 * 1024;
/** How many blobs are compared at once, which takes some 100 MB. A larger index is read several times. */
const AT_ONCE = 300_000;

interface Place {
  pack: string;
  blob: FoundBlob;
}

/**
 * Reads every blob that several packs claim to contain, and returns the packs that do not contain it. The index must
 * be one that restic has just rebuilt from the headers of the packs.
 */
export async function findCorruptPacks(
  source: ObjectSource,
  query: KeyQuery,
  { signal }: { signal?: AbortSignal | undefined } = {},
): Promise<string[]> {
  const key = await openMasterKey(source, query);
  let blobs = 0;
  for await (const { blobs: some } of indexedPacks(source, key)) blobs += some.length;
  const shares = Math.max(1, Math.ceil(blobs / AT_ONCE));
  const corrupt = new Set<string>();
  for (let share = 0; share < shares; share++) {
    const places = new Map<string, Place[]>();
    for await (const { id: pack, blobs: some } of indexedPacks(source, key)) {
      const inShare = (_type: unknown, id: unknown) =>
        typeof id !== 'string' || shareOf(id, shares) === share;
      for (const blob of wantedOf(some, inShare)) {
        const known = places.get(blob.id);
        if (known === undefined) places.set(blob.id, [{ pack, blob }]);
        else known.push({ pack, blob });
      }
    }
    for (const claims of places.values()) {
      if (claims.length === 1) continue;
      for (const { pack, blob } of claims) {
        signal?.throwIfAborted();
        if (!corrupt.has(pack) && !(await holds(source, key, { pack, blob }))) corrupt.add(pack);
      }
    }
  }
  return [...corrupt];
}

const shareOf = (id: string, shares: number) => Number.parseInt(id.slice(0, 8), 16) % shares;

async function* indexedPacks(source: ObjectSource, key: ObjectKey) {
  for await (const { name } of source.list('index')) {
    yield* parseIndexFile(unpackJson(key, await source.get('index', name), INDEX_FILE_MAX));
  }
}

async function holds(source: ObjectSource, key: ObjectKey, { pack, blob }: Place): Promise<boolean> {
  const { id, offset, length, uncompressed_length: plain } = blob;
  if (Math.max(length, plain ?? 0) > CONTENT_MAX) return false;
  const bytes = await source.get('data', pack, { offset, length });
  // restic refuses a blob whose MAC is wrong, even if the content is correct.
  if (decryptObject(key, bytes) === undefined) return false;
  try {
    unpackBlob(key, bytes, { id, length: plain });
    return true;
  } catch (error) {
    if (error instanceof EngineError) return false;
    throw error;
  }
}

/** Snapshots that cannot be read at all. restic does not prune a repository that has one. */
export async function findUnreadableSnapshots(
  source: ObjectSource,
  query: KeyQuery,
  { signal }: { signal?: AbortSignal | undefined } = {},
): Promise<string[]> {
  const key = await openMasterKey(source, query);
  const unreadable: string[] = [];
  for await (const { name, size } of source.list('snapshot')) {
    signal?.throwIfAborted();
    if (size > SNAPSHOT_MAX || !isReadable(key, await source.get('snapshot', name))) unreadable.push(name);
  }
  return unreadable;
}

function isReadable(key: ObjectKey, object: Uint8Array): boolean {
  try {
    const content: unknown = JSON.parse(unpackJson(key, object, SNAPSHOT_MAX));
    return typeof content === 'object' && content !== null && 'tree' in content;
  } catch (error) {
    if (error instanceof EngineError || error instanceof SyntaxError) return false;
    throw error;
  }
}
