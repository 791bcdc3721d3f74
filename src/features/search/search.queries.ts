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
  const { caller } = ctx;
  const sources = allSources
    .filter(({ permission }) => permission === undefined || holds(caller.permissions, permission))
    .map(({ type, find }) => ({ type, ...find({ caller, q }) }));
  if (sources.length === 0) return [];
  const { rows } = await ctx.tx.raw<{ rows: FoundRow[] }>(
    sources
      .map(({ type, sql }) => `(select '${type}' as type, one.id::text, one.title, one.description, one.rank from (${sql}) one)`)
      .join(' union all '),
    {
      anywhere: containing(q),
      beginning: beginningWith(q),
      q,
      betweenTexts: BETWEEN_TEXTS,
      words: BETWEEN_WORDS.map((sign) => containing(sign + q)),
      limit,
      partnerId: caller.partnerId,
      ...Object.assign({}, ...sources.map(({ values }) => values)),
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

const toRanked = ({ rank, type, id, title, description }: FoundRow): Ranked => ({
  rank,
  result: { id, type, title, ...(description === null || description === '' ? {} : { description }) },
});

/** Records with two texts that are searched: all SQL, in which `s` is a row of the table. */
interface Records {
  /** A table, or a query in parentheses. Each row has an `id`. */
  table: string;
  /** Whether the caller can see the row. `:partnerId` is the partner of the caller. */
  where: string;
  /** The two texts, in lower case and joined by `BETWEEN_TEXTS`. */
  haystack: string;
  title: string;
  description: string;
  /** Orders equally good results. */
  order: string;
}

/**
 * A source that ranks by the texts and reads only the best records. If results that begin with the search text fill the
 * page, the more expensive search for words within a name never runs.
 */
export const searchOf = (
  source: Pick<SearchSource, 'type' | 'permission'>,
  recordsOf: (caller: Caller) => Records,
): SearchSource => ({
  ...source,
  find({ caller }) {
    const { table, where, haystack, title, description, order } = recordsOf(caller);
    const best = (rank: string, condition: string) =>
      `(select id, sort_key, ${rank} as rank from found where ${condition} order by rank, sort_key, id limit :limit)`;
    return {
      sql: `
        with found as materialized (
          select s.id, ${haystack} as haystack, ${order} as sort_key from ${table} s
          where ${where} and ${haystack} like lower(:anywhere)
        )
        select s.id, ${title} as title, ${description} as description, best.rank
        from (${best(RANK_OF_BEGINNING, BEGINS)} union all ${best(RANK_WITHIN, `not ${BEGINS}`)} limit :limit) best
        join ${table} s on s.id = best.id
        order by best.rank, best.sort_key, s.id`,
    };
  },
});

const BEGINS = `(haystack like lower(:beginning) or position(:betweenTexts || lower(:q) in haystack) > 0)`;

/** `rankOf` in SQL. */
const RANK_OF_BEGINNING = `case when starts_with(haystack, lower(:q) || :betweenTexts)
  or right(haystack, length(lower(:q)) + 1) = :betweenTexts || lower(:q) then 0 else 1 end`;

const RANK_WITHIN = `case when haystack like any(array(select lower(word) from unnest(:words::text[]) word)) then 2 else 3 end`;

/** SQL: a haystack of two columns. */
export const haystackOf = (first: string, second: string): string =>
  `lower(${first} || chr(${BETWEEN_TEXTS.charCodeAt(0)}) || coalesce(${second}, ''))`;
