import type { ReadAt } from '../../../os/partitions/read-at.ts';

/** A part of a disk that is read from somewhere else, which stands still. */
export interface Region {
  /** On the disk, in bytes. */
  start: number;
  length: number;
  read: ReadAt;
  /** In what is read. */
  from: number;
}

/** A disk with some of its parts replaced. Regions may not overlap. */
export function splice(read: ReadAt, regions: readonly Region[]): ReadAt {
  const sorted = [...regions].sort((one, other) => one.start - other.start);
  for (const [index, { start }] of sorted.entries()) {
    const before = sorted[index - 1];
    if (before !== undefined && before.start + before.length > start) throw new Error('regions overlap');
  }
  if (sorted.length === 0) return read;
  return async (offset, length) => {
    const parts: Buffer[] = [];
    for (let at = offset; at < offset + length; ) {
      const region = sorted.find((each) => each.start + each.length > at);
      const isWithin = region !== undefined && region.start <= at;
      const end = isWithin ? region.start + region.length : (region?.start ?? Number.POSITIVE_INFINITY);
      const wanted = Math.min(offset + length, end) - at;
      const bytes = isWithin
        ? await region.read(region.from + at - region.start, wanted)
        : await read(at, wanted);
      parts.push(bytes);
      at += bytes.length;
      if (bytes.length < wanted) break;
    }
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
  };
}
