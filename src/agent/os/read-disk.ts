import type { FileHandle } from 'node:fs/promises';

/** The bytes of a disk in order, with zeros for its skipped parts. */

const PIECE_BYTES = 1024 * 1024;

export interface DiskRead {
  read: ReadAt;
  sizeBytes: number;
  /** Skipped parts: ascending, not overlapping. */
  empty: readonly Extent[];
}

/** Throws if the disk ends before its size. */
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

/** Reads bytes of a disk or a disk file. Returns fewer at the end. */
export type ReadAt = (offset: number, length: number) => Promise<Buffer>;

export function readFrom(handle: FileHandle): ReadAt {
  return async (offset, length) => {
    const bytes = Buffer.alloc(length);
    let done = 0;
    while (done < length) {
      const { bytesRead } = await handle.read(bytes, done, length - done, offset + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
    return bytes.subarray(0, done);
  };
}

/** The free blocks of an ext file system, from the output of `dumpe2fs`. */

interface FreeBlocks {
  /** In bytes, from the start of the file system. Ascending, apart from each other; the end is excluded. */
  free: Extent[];
}

export interface Extent {
  start: number;
  end: number;
}

const EXTENTS_MAX = 4_000_000;

/**
 * `undefined` if the file system's own records cannot be trusted: it was not cleanly unmounted, its journal has
 * pending entries, it uses clusters, or its parts contradict each other.
 */
export async function parseFreeBlocks(lines: AsyncIterable<string>): Promise<FreeBlocks | undefined> {
  const facts = new Map<string, string>();
  const free: Extent[] = [];
  let blocks = 0;
  let isInHead = true;
  for await (const line of lines) {
    if (line.startsWith('Group ')) isInHead = false;
    if (isInHead) {
      const [, name, value] = /^([A-Z][^:]+):\s+(.*)$/.exec(line) ?? [];
      if (name !== undefined && value !== undefined && !facts.has(name)) facts.set(name, value.trim());
      continue;
    }
    const [, list] = /^ {2}Free blocks: (.*)$/.exec(line) ?? [];
    for (const range of list?.split(', ').filter((each) => each !== '') ?? []) {
      const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(range.trim()) ?? [];
      if (first === undefined) return undefined;
      const extent = { start: Number(first), end: Number(last) + 1 };
      const before = free.at(-1);
      if (extent.end <= extent.start || extent.start < (before?.end ?? 0)) return undefined;
      blocks += extent.end - extent.start;
      if (before?.end === extent.start) before.end = extent.end;
      else free.push(extent);
      if (free.length > EXTENTS_MAX) return undefined;
    }
  }
  const number = (name: string) => Number(facts.get(name) ?? Number.NaN);
  const blockBytes = number('Block size');
  const features = facts.get('Filesystem features')?.split(' ') ?? ['bigalloc'];
  const isTrusted =
    facts.get('Filesystem state') === 'clean' &&
    !features.includes('needs_recovery') &&
    !features.includes('bigalloc') &&
    number('Free blocks') === blocks &&
    blockBytes >= 1024 &&
    (free.at(-1)?.end ?? 0) <= number('Block count');
  if (!isTrusted) return undefined;
  return { free: free.map(({ start, end }) => ({ start: start * blockBytes, end: end * blockBytes })) };
}
