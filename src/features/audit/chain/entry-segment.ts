import { chainOf, checksumOf, type SealedEntry } from './chain.ts';

/**
 * Consecutive entries of one chain whose contents match their checksums and whose links are correct. This much can be
 * verified without the rest of the chain, and so in parallel; `ChainCheck` then only verifies where the segment belongs.
 */
export interface EntrySegment {
  first: SealedEntry;
  count: number;
  /** The checksums of all entries, concatenated; 64 hex digits each. */
  checksums: string;
}

/** The segment that the entries form; undefined if any of them has a fault, which `ChainCheck` then finds one by one. */
export function segmentOf(entries: readonly (SealedEntry | undefined)[]): EntrySegment | undefined {
  const first = entries[0];
  if (first === undefined) return undefined;
  const chainId = chainOf(first);
  const checksums: string[] = [];
  for (const entry of entries) {
    if (entry === undefined || chainOf(entry) !== chainId) return undefined;
    if (!Number.isSafeInteger(entry.seq) || entry.seq !== first.seq + checksums.length) return undefined;
    const before = checksums.at(-1);
    if (before !== undefined && entry.prevChecksum !== before) return undefined;
    if (checksumOf(entry) !== entry.checksum) return undefined;
    checksums.push(entry.checksum);
  }
  return { first, count: checksums.length, checksums: checksums.join('') };
}
