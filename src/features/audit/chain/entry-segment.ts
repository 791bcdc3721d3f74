import { chainOf, checksumOf, type SealedEntry } from './chain.ts';

/**
 * Entries of one chain that follow each other without a gap, each with the content that was sealed. That much can be
 * seen of them alone, and so beside the check of the chain, which then only looks at where they stand in it.
 */
export interface EntrySegment {
  first: SealedEntry;
  count: number;
  /** Of all of them, one after the other, each of 64 hex digits. */
  checksums: string;
}

/** The run that the entries are; none where anything is wrong with any of them, which whoever looks at each will find. */
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
