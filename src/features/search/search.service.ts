// Every kind of record has a source, which the feature that owns it gives. Each kind with matches keeps its part of the page.
// How devices are found, and what bounds the cost: docs/decisions/search.md.
import { type Caller, type Context, holds } from '../../platform/context.ts';
import {
  mix,
  type Rank,
  type Ranked,
  rankOf,
  type SearchSource,
  type SearchQuery,
  type SearchResult,
} from './search.schema.ts';
import { SETTINGS_PAGES } from './settings-pages.ts';
import { storedResults } from './search.queries.ts';

/** SPEC 4.7. */
export async function search(
  ctx: Context,
  { q, limit }: SearchQuery,
  sources: readonly SearchSource[],
): Promise<SearchResult[]> {
  const stored = await storedResults(ctx, q, limit, sources);
  return mix([...stored, settingsPages(ctx.caller, q, limit)], limit);
}

function settingsPages(caller: Caller, q: string, limit: number): Ranked[] {
  const needle = q.toLowerCase();
  const found: Ranked[] = [];
  for (const { id, title, description, href, permission } of SETTINGS_PAGES) {
    if (permission !== undefined && !holds(caller.permissions, permission)) continue;
    const ranks = [title, description].map((words) => rankOf(words.toLowerCase(), needle));
    const rank = bestRank(ranks);
    if (rank !== undefined) found.push({ rank, result: { id, type: 'settings', title, description, href } });
  }
  return found.sort((a, b) => a.rank - b.rank).slice(0, limit);
}

const bestRank = (ranks: readonly (Rank | undefined)[]): Rank | undefined =>
  ranks.reduce((a, b) => (a === undefined || (b !== undefined && b < a) ? b : a), undefined);
