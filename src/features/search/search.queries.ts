import { createHash } from 'node:crypto';
import { type Caller, type Context, holds } from '../../platform/context.ts';
import { beginningWith, containing } from '../../platform/db/statement.ts';
import { runPrepared, type Tx } from '../../platform/db/transaction.ts';
import { BETWEEN_TEXTS, BETWEEN_WORDS, type Rank, type Ranked, type SearchSource } from './search.schema.ts';

/**
 * The best results of each source. Each has a prepared statement: planning them took longer than running them, because
 * the policies of all tables are planned along.
 */
export async function storedResults(
  ctx: Context,
  text: string,
  limit: number,
  allSources: readonly SearchSource[],
): Promise<Ranked[][]> {
  const { caller, tx } = ctx;
  // It is between the texts of every record, and in none of them.
  if (text.includes(BETWEEN_TEXTS)) return [];
  const q = await inLowerCase(tx, text);
  const shared = {
    q,
    anywhere: containing(q),
    beginning: beginningWith(q),
    second: BETWEEN_TEXTS + q,
    equals: [beginningWith(q + BETWEEN_TEXTS), endingWith(BETWEEN_TEXTS + q)],
    words: BETWEEN_WORDS.map((sign) => containing(sign + q)),
    limit,
    partnerId: caller.partnerId,
  };
  const results: Ranked[][] = [];
  for (const { type, permission, find } of allSources) {
    if (permission !== undefined && !holds(caller.permissions, permission)) continue;
    const { sql, values } = find({ caller, q });
    const { statement, parameters } = numbered(`search-${type}`, sql, { ...shared, ...values });
    const rows = await runPrepared<FoundRow>(tx, statement, parameters);
    results.push(rows.map((row) => toRanked(type, row)));
  }
  return results;
}

const endingWith = (text: string) => containing(text).slice(0, -1);

/**
 * By the rules of the database, in which the searched texts are in lower case. Statements that follow in the transaction
 * keep their plans, whatever the search text is: what they read is found by organization.
 */
async function inLowerCase(tx: Tx, text: string): Promise<string> {
  const [row] = await runPrepared<{ lower: string }>(
    tx,
    {
      name: 'search-text',
      text: `select lower($1), set_config('plan_cache_mode', 'force_generic_plan', true)`,
    },
    [text],
  );
  return row?.lower ?? text;
}

/** The statement with numbers in place of the names of its bindings. It is named by its text. */
function numbered(name: string, sql: string, values: Readonly<Record<string, unknown>>) {
  const names: string[] = [];
  const text = sql.replaceAll(/(?<!:):([a-z]\w*)/gi, (_whole, binding: string) => {
    if (!names.includes(binding)) names.push(binding);
    return `$${names.indexOf(binding) + 1}`;
  });
  const digest = createHash('sha256').update(text).digest('base64url').slice(0, 12);
  return { statement: { name: `${name}-${digest}`, text }, parameters: names.map((one) => values[one]) };
}

interface FoundRow {
  id: string;
  title: string;
  description: string | null;
  rank: Rank;
}

const toRanked = (type: SearchSource['type'], { rank, id, title, description }: FoundRow): Ranked => ({
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
          where ${where} and ${haystack} like :anywhere
        )
        select s.id, ${title} as title, ${description} as description, best.rank
        from (${best(RANK_OF_BEGINNING, BEGINS)} union all ${best(RANK_WITHIN, `not ${BEGINS}`)} limit :limit) best
        join ${table} s on s.id = best.id
        order by best.rank, best.sort_key, s.id`,
    };
  },
});

const BEGINS = `(haystack like :beginning or position(:second in haystack) > 0)`;

/** `rankOf` in SQL. */
const RANK_OF_BEGINNING = `case when haystack like any(:equals::text[]) then 0 else 1 end`;
const RANK_WITHIN = `case when haystack like any(:words::text[]) then 2 else 3 end`;

/** SQL: a haystack of two columns. */
export const haystackOf = (first: string, second: string): string =>
  `lower(${first} || chr(${BETWEEN_TEXTS.charCodeAt(0)}) || coalesce(${second}, ''))`;
