import { createHash } from 'node:crypto';
import { z } from 'zod';
import { BlobIndex, parseIndexFile, wantedOf } from '../reader/blob-index.ts';
import type { ObjectKey } from '../reader/decrypt.ts';
import { type KeyQuery, openMasterKey } from '../reader/keys.ts';
import type { ObjectSource } from '../reader/object-source.ts';
import { Turns } from '../reader/turns.ts';
import { damaged, unpackBlob, unpackJson } from '../reader/unpack.ts';

/**
 * Snapshots that need data which was never there. restic does not prune a repository that has one, and somebody who knows
 * the password can write one at any time.
 */

const INDEX_FILE_MAX = 64 * 1024 * 1024;
const SNAPSHOT_MAX = 16 * 1024 * 1024;
const TREE_MAX = 128 * 1024 * 1024;
/** Of the index, and of folders: they take some hundred MB. A larger repository is left as it is. */
const BLOBS_MAX = 3_000_000;
const FOLDERS_MAX = 1_000_000;
const DEPTH_MAX = 4096;

const Hash = z.string().regex(/^[0-9a-f]{64}$/);
const Snapshot = z.object({ tree: Hash });
/** Only what other blobs follow from: names and rights do not matter here. */
const Tree = z.object({
  nodes: z.array(z.object({ subtree: Hash.nullish(), content: z.array(Hash).nullish() })).nullable(),
});

/**
 * Answers the snapshots that cannot be whole. The index has to be one that restic has just made from the headers of the
 * packs. Throws REPOSITORY_DAMAGED where an object is not what its name says: then the storage has lost something, and the
 * snapshots that miss it are honest ones, of which the rest can be restored.
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
    // Nobody could read its header: because it was written so, or because it has changed since.
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
  const turns = new Turns();
  for await (const { name } of source.list('index')) {
    for (const pack of parseIndexFile(unpackJson(key, await source.get('index', name), INDEX_FILE_MAX))) {
      packs.add(pack.id);
      index.addPack(
        pack.id,
        wantedOf(pack.blobs, () => true),
      );
      if (index.size > BLOBS_MAX) throw damaged(`The index names more than ${BLOBS_MAX} blobs.`);
      await turns.next();
    }
  }
  return { index, packs };
}

async function assertIntact(source: ObjectSource, pack: string): Promise<void> {
  if (sha256(await source.get('data', pack)) !== pack) throw damaged(`The pack ${pack} was changed.`);
}

/** `undefined` where the snapshot names none, and was written so. */
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
  /** Whether everything is there that a folder needs. */
  readonly #known = new Map<string, boolean>();
  readonly #turns = new Turns();

  constructor(source: ObjectSource, key: ObjectKey, index: BlobIndex, signal: AbortSignal | undefined) {
    this.#source = source;
    this.#key = key;
    this.#index = index;
    this.#signal = signal;
  }

  /** Snapshots have most of their folders in common, and each is read once. */
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
    await this.#turns.next();
    const content = await this.#read(id);
    const tree = content === undefined ? undefined : parsed(Tree, content);
    if (tree === undefined) return false;
    for (const { subtree, content: blobs } of tree.nodes ?? []) {
      if (blobs?.some((blob) => !this.#index.has(blob)) === true) return false;
      if (subtree != null && !(await this.isWhole(subtree, depth + 1))) return false;
    }
    return true;
  }

  /** `undefined` where no pack has ever held it. */
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
