import type { Extent } from './free-blocks.ts';
import type { ReadAt } from './read-at.ts';

/** The bytes of a disk in order, with zeros in place of what holds nothing. */

const PIECE_BYTES = 1024 * 1024;

export interface DiskRead {
  read: ReadAt;
  sizeBytes: number;
  /** Parts that are not read: ascending, apart from each other. */
  empty: readonly Extent[];
}

/** Throws where the disk ends before its size. */
export async function* readDisk({ read, sizeBytes, empty }: DiskRead): AsyncGenerator<Buffer, void> {
  const zeros = Buffer.alloc(PIECE_BYTES);
  let at = 0;
  let next = 0;
  while (at < sizeBytes) {
    while ((empty[next]?.end ?? Number.POSITIVE_INFINITY) <= at) next += 1;
    const hole = empty[next];
    const isHole = hole !== undefined && hole.start <= at;
    const until = Math.min(sizeBytes, isHole ? hole.end : (hole?.start ?? sizeBytes), at + PIECE_BYTES);
    const length = until - at;
    const bytes = isHole ? zeros.subarray(0, length) : await read(at, length);
    if (bytes.length !== length) {
      throw new Error(`The disk ends at byte ${at + bytes.length} of ${sizeBytes}.`);
    }
    yield bytes;
    at = until;
  }
}
