import { EngineError } from '../engine-error.ts';
import { type FoundBlob, parseIndexFile, wantedOf } from '../reader/blob-index.ts';
import { decryptObject, type ObjectKey } from '../reader/decrypt.ts';
import { type KeyQuery, openMasterKey } from '../reader/keys.ts';
import type { ObjectSource } from '../reader/object-source.ts';
import { unpackBlob, unpackJson } from '../reader/unpack.ts';

/**
 * What somebody who knows the password can have written to lead restic astray. restic believes the header of a pack, and
 * of two packs that claim the same data it keeps one: if that one lies, a prune deletes the data.
 */

const INDEX_FILE_MAX = 64 * 1024 * 1024;
const CONTENT_MAX = 128 * 1024 * 1024;
const SNAPSHOT_MAX = 16 * 1024 * 1024;
/** So many blobs are compared at once, which takes some 100 MB. A larger index is read several times. */
const AT_ONCE = 300_000;

interface Place {
  pack: string;
  blob: FoundBlob;
}

/**
 * Reads every blob that several packs claim to hold, and answers the packs that do not hold it. The index has to be one
 * that restic has just made from the headers of the packs.
 */
export async function findFalsePacks(
  source: ObjectSource,
  query: KeyQuery,
  { signal }: { signal?: AbortSignal | undefined } = {},
): Promise<string[]> {
  const key = await openMasterKey(source, query);
  let blobs = 0;
  for await (const { blobs: some } of indexedPacks(source, key)) blobs += some.length;
  const shares = Math.max(1, Math.ceil(blobs / AT_ONCE));
  const lying = new Set<string>();
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
        if (!lying.has(pack) && !(await holds(source, key, { pack, blob }))) lying.add(pack);
      }
    }
  }
  return [...lying];
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
  // restic refuses a blob whose MAC is wrong, be its content right.
  if (decryptObject(key, bytes) === undefined) return false;
  try {
    unpackBlob(key, bytes, { id, length: plain });
    return true;
  } catch (error) {
    if (error instanceof EngineError) return false;
    throw error;
  }
}

/** Snapshots of which nothing can be read. restic does not prune a repository that has one. */
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
