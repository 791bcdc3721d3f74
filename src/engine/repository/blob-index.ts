import { z } from 'zod';
import { type ObjectKey, damaged, unpackJson, type ObjectSource } from './object-encoding.ts';
import { EventLoopYield } from './event-loop-yield.ts';

/**
 * The locations of blobs: those of folders (`tree`), which are cached while a repository is browsed, or those of the
 * files that are being read. All blobs of files would be too many to cache. An entry takes 56 bytes, in arrays without
 * objects.
 */

const INDEX_FILE_MAX = 64 * 1024 * 1024;
const PACK_MAX = 512 * 1024 * 1024;
const BLOB_MAX = 256 * 1024 * 1024;

const Hash = z.string().regex(/^[0-9a-f]{64}$/);
const Blob = z.object({
  id: Hash,
  type: z.enum(['data', 'tree']),
  offset: z.number().int().min(0).max(PACK_MAX),
  length: z.number().int().min(32).max(BLOB_MAX),
  uncompressed_length: z.number().int().min(0).max(BLOB_MAX).optional(),
});
const IndexFile = z.object({ packs: z.array(z.object({ id: Hash, blobs: z.array(z.unknown()) })).nullish() });

export type FoundBlob = z.output<typeof Blob>;

export interface BlobPlace {
  pack: string;
  offset: number;
  length: number;
  /** Uncompressed length, if the blob is compressed. */
  contentLength: number | undefined;
}

export interface IndexLimits {
  /** The most locations of blobs. A larger index is refused. */
  maxBlobs: number;
  /** The most files of the index. */
  maxFiles: number;
}

const HASH_BYTES = 32;
const FIRST_CAPACITY = 1024;
const UNCOMPRESSED = 0xffffffff;
/** Replaces the pack number of a requested blob that was not found yet. */
const NOWHERE = 0xffffffff;
const EMPTY = -1;
/** A sound index names each blob once, or a few times after interrupted runs. */
const SAME_MAX = 8;
const FIRST_SLOT_BITS = 12;

/**
 * Simple tabulation hashing: a random number for each value of each byte of an id. Secret, because the ids of a forged
 * index are chosen: an attacker could aim many of them at one slot. One random multiplier for each word would not do: one
 * in 256 of them makes a byte of its word count for nothing.
 */
const RANDOM_OF_BYTES = crypto.getRandomValues(new Uint32Array(HASH_BYTES * 256));

export class BlobIndex {
  readonly #packs: string[] = [];
  #size = 0;
  #ids = new Uint8Array(FIRST_CAPACITY * HASH_BYTES);
  /** For each entry: pack, offset, length, uncompressed length. */
  #places = new Uint32Array(FIRST_CAPACITY * 4);
  /** Open addressing: entry numbers by the first bytes of their ids. At most half full. */
  #slotBits = FIRST_SLOT_BITS;
  #slots = new Int32Array(2 ** FIRST_SLOT_BITS).fill(EMPTY);

  get size(): number {
    return this.#size;
  }

  get memoryBytes(): number {
    return this.#ids.byteLength + this.#places.byteLength + this.#slots.byteLength;
  }

  addPack(pack: string, blobs: readonly FoundBlob[]): void {
    if (blobs.length === 0) return;
    const number = this.#packs.push(pack) - 1;
    for (const { id, offset, length, uncompressed_length } of blobs) {
      this.#add(Buffer.from(id, 'hex'), [number, offset, length, uncompressed_length ?? UNCOMPRESSED]);
    }
  }

  /** Adds an entry without a location, which `addPack` fills in. */
  want(id: string): void {
    const hash = Buffer.from(id, 'hex');
    if (this.#entriesOf(hash).next().done === true) this.#add(hash, [NOWHERE, 0, 0, 0]);
  }

  /** Whether the blob was requested or found. */
  has(id: string): boolean {
    return this.#entriesOf(Buffer.from(id, 'hex')).next().done !== true;
  }

  /** All locations that claim to hold the blob, in the order of the index. A forged index can contain wrong ones. */
  *find(id: string): Generator<BlobPlace, void> {
    for (const entry of this.#entriesOf(Buffer.from(id, 'hex'))) {
      if (this.#isFound(entry)) yield this.#placeOf(entry);
    }
  }

  *#entriesOf(hash: Buffer): Generator<number, void> {
    for (let slot = this.#slotOf(hash); ; slot = (slot + 1) % this.#slots.length) {
      const entry = this.#slots[slot] ?? EMPTY;
      if (entry === EMPTY) return;
      if (hash.equals(this.#idOf(entry))) yield entry;
    }
  }

  #isFound(entry: number): boolean {
    return this.#places[entry * 4] !== NOWHERE;
  }

  #add(hash: Buffer, place: readonly number[]): void {
    const [first] = this.#entriesOf(hash);
    if (first !== undefined && !this.#isFound(first)) {
      this.#places.set(place, first * 4);
      return;
    }
    if (this.#size * HASH_BYTES === this.#ids.length) this.#grow();
    const slot = this.#freeSlot(hash);
    if (slot === undefined) return;
    const entry = this.#size;
    this.#size += 1;
    this.#ids.set(hash, entry * HASH_BYTES);
    this.#places.set(place, entry * 4);
    this.#slots[slot] = entry;
  }

  /** `undefined` if enough locations claim to hold the blob. */
  #freeSlot(hash: Buffer): number | undefined {
    let same = 0;
    let slot = this.#slotOf(hash);
    for (let entry = this.#slots[slot] ?? EMPTY; entry !== EMPTY; entry = this.#slots[slot] ?? EMPTY) {
      if (hash.equals(this.#idOf(entry))) same += 1;
      if (same >= SAME_MAX) return undefined;
      slot = (slot + 1) % this.#slots.length;
    }
    return slot;
  }

  #grow(): void {
    const ids = new Uint8Array(this.#ids.length * 2);
    ids.set(this.#ids);
    this.#ids = ids;
    const places = new Uint32Array(this.#places.length * 2);
    places.set(this.#places);
    this.#places = places;
    this.#slotBits += 1;
    this.#slots = new Int32Array(2 ** this.#slotBits).fill(EMPTY);
    for (let entry = 0; entry < this.#size; entry++) {
      const slot = this.#freeSlot(this.#idOf(entry));
      if (slot !== undefined) this.#slots[slot] = entry;
    }
  }

  #slotOf(hash: Buffer): number {
    let mixed = 0;
    for (let at = 0; at < HASH_BYTES; at++) mixed ^= RANDOM_OF_BYTES[at * 256 + (hash[at] ?? 0)] ?? 0;
    return mixed >>> (32 - this.#slotBits);
  }

  #idOf(entry: number): Buffer {
    return Buffer.from(this.#ids.buffer, entry * HASH_BYTES, HASH_BYTES);
  }

  #placeOf(entry: number): BlobPlace {
    const [pack = 0, offset = 0, length = 0, content = UNCOMPRESSED] = this.#places.subarray(
      entry * 4,
      entry * 4 + 4,
    );
    return {
      pack: this.#packs[pack] ?? '',
      offset,
      length,
      contentLength: content === UNCOMPRESSED ? undefined : content,
    };
  }
}

/** Which blobs are needed. The others, which are most of them, are not parsed further. */
type Wanted = (type: unknown, id: unknown) => boolean;

const OF_FOLDERS: Wanted = (type) => type === 'tree';

/** Reads all files of the index: by default, the blobs of folders. Throws REPOSITORY_DAMAGED if one is not sound. */
export async function readIndex(
  source: ObjectSource,
  key: ObjectKey,
  { maxBlobs, maxFiles }: IndexLimits,
  { into: index, isWanted }: { into: BlobIndex; isWanted: Wanted } = {
    into: new BlobIndex(),
    isWanted: OF_FOLDERS,
  },
): Promise<BlobIndex> {
  const eventLoop = new EventLoopYield();
  let files = 0;
  for await (const { name, size } of source.list('index')) {
    files += 1;
    if (files > maxFiles || size > INDEX_FILE_MAX) throw damaged('The index is larger than it may be.');
    const object = await source.get('index', name);
    await eventLoop.yield();
    const text = unpackJson(key, object, INDEX_FILE_MAX);
    await eventLoop.yield();
    for (const { id, blobs } of parseIndexFile(text)) {
      index.addPack(id, wantedOf(blobs, isWanted));
      if (index.size > maxBlobs) throw damaged(`The index names more than ${maxBlobs} blobs.`);
      await eventLoop.yield();
    }
  }
  return index;
}

/** Throws REPOSITORY_DAMAGED if a needed entry has an unknown form. */
export function wantedOf(blobs: readonly unknown[], isWanted: Wanted): FoundBlob[] {
  const wanted: FoundBlob[] = [];
  for (const blob of blobs) {
    const isBlob = typeof blob === 'object' && blob !== null && 'type' in blob && 'id' in blob;
    if (!isBlob) throw unknownForm();
    if (!isWanted(blob.type, blob.id)) continue;
    const parsed = Blob.safeParse(blob);
    if (!parsed.success) throw unknownForm();
    wanted.push(parsed.data);
  }
  return wanted;
}

/** The packs of one index file, with unparsed blobs. Throws REPOSITORY_DAMAGED. */
export function parseIndexFile(text: string) {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw damaged('A file of the index is not JSON.');
  }
  const parsed = IndexFile.safeParse(value);
  if (!parsed.success) throw unknownForm();
  return parsed.data.packs ?? [];
}

const unknownForm = () => damaged('A file of the index has an unknown form.');
