import { type Caller, type Context, holds } from '../../platform/context.ts';
import { beginningWith, containing } from '../../platform/db/statement.ts';
import { BETWEEN_TEXTS, BETWEEN_WORDS, type Rank, type Ranked, type SearchSource } from './search.schema.ts';

/** Queries all sources in one statement; each returns its best results. */
export async function storedResults(
  ctx: Context,
  q: string,
  limit: number,
  allSources: readonly SearchSource[],
): Promise<Ranked[][]> {
  const sources = allSources.filter(({ permission }) => holds(ctx.caller.permissions, permission));
  if (sources.length === 0) return [];
  const { rows } = await ctx.tx.raw<{ rows: FoundRow[] }>(
    sources.map((source) => `(${bestOf(source, ctx.caller)})`).join(' union all '),
    {
      anywhere: containing(q),
      beginning: beginningWith(q),
      q,
      betweenTexts: BETWEEN_TEXTS,
      words: BETWEEN_WORDS.map((sign) => containing(sign + q)),
      limit,
      partnerId: ctx.caller.partnerId,
    },
  );
  return sources.map(({ type }) => rows.filter((row) => row.type === type).map(toRanked));
}

interface FoundRow {
  type: SearchSource['type'];
  id: string;
  title: string;
  description: string | null;
  rank: Rank;
}

/**
 * Ranks by the indexed text and reads only the best records. If results that begin with the search text fill the page,
 * the more expensive search for words within a name never runs.
 */
function bestOf(
  { type, table, where, haystack, title, description, order }: SearchSource,
  caller: Caller,
): string {
  const best = (rank: string, condition: string) =>
    `(select id, sort_key, ${rank} as rank from found where ${condition} order by rank, sort_key, id limit :limit)`;
  return `
  with found as materialized (
    select s.id, ${haystack} as haystack, ${order} as sort_key from ${table} s
    where ${where(caller)} and ${haystack} like lower(:anywhere)
  )
  select '${type}' as type, s.id::text as id, ${title} as title, ${description} as description, best.rank
  from (${best(RANK_OF_BEGINNING, BEGINS)} union all ${best(RANK_WITHIN, `not ${BEGINS}`)} limit :limit) best
  join ${table} s on s.id = best.id
  order by best.rank, best.sort_key, s.id`;
}

const BEGINS = `(haystack like lower(:beginning) or position(:betweenTexts || lower(:q) in haystack) > 0)`;

/** `rankOf` in SQL. */
const RANK_OF_BEGINNING = `case when starts_with(haystack, lower(:q) || :betweenTexts)
  or right(haystack, length(lower(:q)) + 1) = :betweenTexts || lower(:q) then 0 else 1 end`;

const RANK_WITHIN = `case when haystack like any(array(select lower(word) from unnest(:words::text[]) word)) then 2 else 3 end`;

const toRanked = ({ rank, type, id, title, description }: FoundRow): Ranked => ({
  rank,
  result: { id, type, title, ...(description === null || description === '' ? {} : { description }) },
});
