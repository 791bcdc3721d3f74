import type { SearchResult } from './search.schema.ts';

/** How well a text fits what was searched for, best first: it is that, begins with it, has a word that does, has it. */
export type Rank = 0 | 1 | 2 | 3;

/** What stands between two texts that are looked into as one; nobody types it. */
export const BETWEEN_TEXTS = '\u001f';

/** What stands before a word within a name. */
export const BETWEEN_WORDS = [' ', '-', '_', '.', '/', '(', '@'];

/** Of a text that is in small letters, as the needle is; undefined where it has it nowhere. */
export function rankOf(folded: string, needle: string): Rank | undefined {
  if (folded === needle) return 0;
  if (folded.startsWith(needle)) return 1;
  if (!folded.includes(needle)) return undefined;
  return BETWEEN_WORDS.some((sign) => folded.includes(sign + needle)) ? 2 : 3;
}

export interface Ranked {
  rank: Rank;
  result: SearchResult;
}

/**
 * One list of several, each of which is in order. The best come first; but where there are more than there is room
 * for, none of the lists is left out for another's sake: each brings its best quarter page.
 */
export function mix(lists: readonly (readonly Ranked[])[], limit: number): SearchResult[] {
  const share = Math.floor(limit / Math.max(4, lists.length));
  const sure = lists.flatMap((list) => list.slice(0, share));
  const rest = byRank(lists.flatMap((list) => list.slice(share)));
  return byRank([...sure, ...rest.slice(0, limit - sure.length)]).map(({ result }) => result);
}

/** Stable: within a rank the lists stay in their order. */
const byRank = (found: readonly Ranked[]) => [...found].sort((a, b) => a.rank - b.rank);
