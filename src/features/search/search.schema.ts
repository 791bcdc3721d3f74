import { z } from 'zod';
import { nfcText, wholeNumber } from '../../platform/http/fields.ts';
import type { Caller } from '../../platform/context.ts';

export const SearchQuery = z.object({
  q: z
    .string()
    .transform((words) => words.trim())
    .pipe(nfcText(100))
    .describe(
      'Part of a name, title, description or address, case-insensitive. Wildcards are matched literally. A hardware address may be written in any way.',
    ),
  limit: wholeNumber(20, 1, 50).meta({ description: '1 to 50; default 20.' }),
});
export type SearchQuery = z.infer<typeof SearchQuery>;

export const SearchResult = z
  .object({
    id: z.string(),
    type: z.enum([
      'devices',
      'users',
      'sites',
      'organizations',
      'groups',
      'filters',
      'scripts',
      'alerts',
      'settings',
    ]),
    title: z.string(),
    description: z
      .string()
      .optional()
      .describe('Of a device that was not found by its name: what matched, such as `Serial number 5CG1234`.'),
    href: z.string().optional().describe('Settings only: the path of the page.'),
  })
  .meta({ id: 'SearchResult' });
export type SearchResult = z.infer<typeof SearchResult>;

export const SearchAnswer = z.object({ results: z.array(SearchResult) });

/** How well a text matches, best first: it equals the search text, begins with it, has a word that does, contains it. */
export type Rank = 0 | 1 | 2 | 3;

/** Separates two texts that are searched as one. No keyboard types this character. */
export const BETWEEN_TEXTS = '\u001f';

/** Characters that precede a word within a name. */
export const BETWEEN_WORDS = [' ', '-', '_', '.', ':', '/', '\\', '(', '@'];

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
 * best quarter page, or an equal part if there are more than four, so that no list crowds out another.
 */
export function mix(lists: readonly (readonly Ranked[])[], limit: number): SearchResult[] {
  const share = Math.floor(limit / Math.max(4, lists.filter(({ length }) => length > 0).length));
  const sure = lists.flatMap((list) => list.slice(0, share));
  const rest = byRank(lists.flatMap((list) => list.slice(share)));
  return byRank([...sure, ...rest.slice(0, limit - sure.length)]).map(({ result }) => result);
}

/** Stable: results of the same rank keep the order of the lists. */
const byRank = (found: readonly Ranked[]) => [...found].sort((a, b) => a.rank - b.rank);

/** How search finds the records of one kind. The feature that owns their table provides it. */
export interface SearchSource {
  type: Exclude<SearchResult['type'], 'settings'>;
  /** Without it, the caller finds none. Left out if everyone may read the records. */
  permission?: string;
  /**
   * The best results that the caller can see, best first, at most `:limit`.
   * @param search.q  the search text, in lower case
   */
  find: (search: { caller: Caller; q: string }) => Finding;
}

export interface Finding {
  /**
   * SQL of rows with `id`, `title`, `description` (may be null) and `rank`. Bindings are written as `:name`. All sources
   * have `:q`, what `search.queries.ts` makes of it, `:limit` and `:partnerId`.
   */
  sql: string;
  /** Further bindings. */
  values?: Readonly<Record<string, string | readonly string[]>>;
}
