import type { SearchResult } from './search.schema.ts';

/** How well a text matches, best first: it equals the search text, begins with it, has a word that does, contains it. */
export type Rank = 0 | 1 | 2 | 3;

/** Separates two texts that are searched as one. Nobody types this character. */
export const BETWEEN_TEXTS = '\u001f';

/** Characters that precede a word within a name. */
export const BETWEEN_WORDS = [' ', '-', '_', '.', '/', '(', '@'];

/** Both texts must be in lower case. Undefined if the text does not contain the needle. */
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
 * Merges several sorted lists, best results first. If there are more results than fit, each list still contributes its
 * best quarter page, so that no list crowds out another.
 */
export function mix(lists: readonly (readonly Ranked[])[], limit: number): SearchResult[] {
  const share = Math.floor(limit / Math.max(4, lists.length));
  const sure = lists.flatMap((list) => list.slice(0, share));
  const rest = byRank(lists.flatMap((list) => list.slice(share)));
  return byRank([...sure, ...rest.slice(0, limit - sure.length)]).map(({ result }) => result);
}

/** Stable: results of the same rank keep the order of the lists. */
const byRank = (found: readonly Ranked[]) => [...found].sort((a, b) => a.rank - b.rank);
