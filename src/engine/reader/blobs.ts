import type { BlobIndex } from './blob-index.ts';
import type { ObjectKey } from './decrypt.ts';
import type { ObjectSource } from './object-source.ts';
import { damaged, unpackBlob } from './unpack.ts';

export interface BlobQuery {
  id: string;
  /** A larger one is refused before anything of it is read. */
  maxBytes: number;
  /** What it is, for the message about a damage. */
  what: string;
}

/** The content of a blob, from the first place that really holds it: a false index can name places that do not. */
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
