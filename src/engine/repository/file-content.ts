import { type BlobIndex, readIndex } from './blob-index.ts';
import { type ObjectKey, OVERHEAD, damaged, unpackBlob, type ObjectSource } from './object-encoding.ts';

/** restic splits files into parts of at most 8 MiB. */
const PART_MAX = 16 * 1024 * 1024;
const INDEX_FILES_MAX = 20_000;
/**
 * A forged index names locations without content. With more of them for one part, the whole index counts as
 * unreadable.
 */
const PLACES_MAX = 4;

const HASH = /^[0-9a-f]{64}$/;

/** Locations of the parts of files in an open repository. */
export interface FileParts {
  source: ObjectSource;
  key: ObjectKey;
  index: BlobIndex;
}

/** Looks up all needed parts. That reads the whole index, once for many files. */
export async function findParts(source: ObjectSource, key: ObjectKey, wanted: BlobIndex): Promise<FileParts> {
  const limits = { maxBlobs: PLACES_MAX * wanted.size + 1000, maxFiles: INDEX_FILES_MAX };
  const isWanted = (type: unknown, id: unknown) =>
    type === 'data' && typeof id === 'string' && HASH.test(id) && wanted.has(id);
  return { source, key, index: await readIndex(source, key, limits, { into: wanted, isWanted }) };
}

export interface FileContent {
  length: number;
  /** Part by part, so that a file of any size needs the memory of one part. Both ends are included. */
  read(range?: { first: number; last: number }): AsyncGenerator<Buffer, void>;
}

/** Throws REPOSITORY_DAMAGED if a part is missing. */
export async function contentOf(parts: FileParts, ids: readonly string[]): Promise<FileContent> {
  const packed = Buffer.from(ids.join(''), 'hex');
  const idAt = (at: number) => packed.toString('hex', at * 32, at * 32 + 32);
  /** The end offset of each part. */
  const ends = new Float64Array(ids.length);
  let length = 0;
  for (const [at, id] of ids.entries()) {
    length += await lengthOf(parts, id);
    ends[at] = length;
  }
  return {
    length,
    async *read({ first, last } = { first: 0, last: length - 1 }) {
      for (let at = firstAfter(ends, first); at < ends.length; at += 1) {
        const from = ends[at - 1] ?? 0;
        if (from > last) return;
        const size = (ends[at] ?? 0) - from;
        if (size === 0) continue;
        const content = await readPart(parts, idAt(at));
        if (content.length !== size) throw damaged('A part of a file is longer or shorter than it was.');
        yield content.subarray(Math.max(0, first - from), Math.min(size, last - from + 1));
      }
    },
  };
}

/** The index of the first of ascending numbers that is greater. */
function firstAfter(ascending: Float64Array, value: number): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] ?? 0) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

const readPart = (parts: FileParts, id: string) =>
  readBlob(parts, { id, maxBytes: PART_MAX, what: 'a part of a file' });

/** The length in the index. If its entries disagree, one of them is forged, and the part itself is read. */
async function lengthOf(parts: FileParts, id: string): Promise<number> {
  const said = new Set<number>();
  for (const { length, contentLength } of parts.index.find(id)) said.add(contentLength ?? length - OVERHEAD);
  const [length] = said;
  if (length === undefined) throw damaged('The index does not name a part of a file.');
  return said.size === 1 ? length : (await readPart(parts, id)).length;
}

interface BlobQuery {
  id: string;
  /** A larger blob is refused before it is read. */
  maxBytes: number;
  /** Description for the error message. */
  what: string;
}

/** The content of a blob, from the first location that really has it: a forged index can contain wrong locations. */
export async function readBlob(
  { source, key, index }: { source: ObjectSource; key: ObjectKey; index: BlobIndex },
  { id, maxBytes, what }: BlobQuery,
): Promise<Buffer> {
  let failure: unknown = damaged(`The index does not name ${what} of the snapshot.`);
  for (const { pack, offset, length, contentLength } of index.find(id)) {
    if (Math.max(length, contentLength ?? 0) > maxBytes) {
      failure = damaged(`The index names ${what} that is too large to be read.`);
      continue;
    }
    try {
      const blob = await source.get('data', pack, { offset, length });
      return unpackBlob(key, blob, { id, length: contentLength });
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}
