import type { Caller, Context } from '../../platform/context.ts';
import { holds } from '../../platform/context.ts';
import { beginningWith, containing } from '../../platform/db/like-pattern.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { BETWEEN_TEXTS, BETWEEN_WORDS, mix, type Rank, type Ranked, rankOf } from './rank.ts';
import type { SearchQuery, SearchResult } from './search.schema.ts';
import { SETTINGS_PAGES } from './settings-pages.ts';

/** SPEC 4.7. */
export async function search(ctx: Context, { q, limit }: SearchQuery): Promise<SearchResult[]> {
  const stored = await storedResults(ctx, q, limit);
  return mix([...stored, settingsPages(ctx.caller, q, limit)], limit);
}

interface Source {
  type: Exclude<SearchResult['type'], 'settings'>;
  permission: string;
  table: string;
  /** Of `s`, a row of the table: whether the caller can see it. */
  where: (caller: Caller) => string;
  /** The two texts that are looked into, in small letters, `BETWEEN_TEXTS` between them. */
  haystack: string;
  title: string;
  description: string;
  /** What comes first of equally good ones. */
  place: string;
}

const joined = (first: string, second: string) =>
  `lower(${first} || chr(${BETWEEN_TEXTS.charCodeAt(0)}) || coalesce(${second}, ''))`;

const SOURCES: readonly Source[] = [
  {
    type: 'devices',
    permission: 'devices:read',
    table: 'devices',
    where: (caller) => `${inTenant(caller, 's.org_id')} and s.condition <> 'decommissioned'`,
    haystack: 's.search_text',
    title: `coalesce(s.display_name, s.hostname)`,
    description: `case when s.display_name is null then s.os_version else s.hostname end`,
    place: 's.search_text',
  },
  {
    type: 'scripts',
    permission: 'scripts:read',
    table: 'scripts',
    where: (caller) => `(${inTenant(caller, 's.org_id')} or s.partner_id = :partnerId)`,
    haystack: joined('s.name', 's.description'),
    title: 's.name',
    description: 's.description',
    place: 'lower(s.name)',
  },
  {
    type: 'alerts',
    permission: 'alerts:read',
    table: 'alerts',
    where: (caller) => inTenant(caller, 's.org_id'),
    haystack: joined('s.title', 's.message'),
    title: 's.title',
    description: 's.message',
    place: `array[(s.status = 'resolved')::int, -extract(epoch from s.raised_at)]`,
  },
];

/** One statement for all sources, of which each brings its best. */
async function storedResults(ctx: Context, q: string, limit: number): Promise<Ranked[][]> {
  const sources = SOURCES.filter(({ permission }) => holds(ctx.caller.permissions, permission));
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
  type: Source['type'];
  id: string;
  title: string;
  description: string | null;
  rank: Rank;
}

/**
 * The best are chosen by what the index holds; only of these the record is read. Where those that begin with the needle
 * fill the page, the dearer look at the words within is never made.
 */
function bestOf({ type, table, where, haystack, title, description, place }: Source, caller: Caller): string {
  const best = (rank: string, condition: string) =>
    `(select id, place, ${rank} as rank from found where ${condition} order by rank, place, id limit :limit)`;
  return `
  with found as materialized (
    select s.id, ${haystack} as haystack, ${place} as place from ${table} s
    where ${where(caller)} and ${haystack} like lower(:anywhere)
  )
  select '${type}' as type, s.id::text as id, ${title} as title, ${description} as description, best.rank
  from (${best(RANK_OF_BEGINNING, BEGINS)} union all ${best(RANK_WITHIN, `not ${BEGINS}`)} limit :limit) best
  join ${table} s on s.id = best.id
  order by best.rank, best.place, s.id`;
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

function settingsPages(caller: Caller, q: string, limit: number): Ranked[] {
  const needle = q.toLowerCase();
  const found: Ranked[] = [];
  for (const { id, title, description, href, permission } of SETTINGS_PAGES) {
    if (permission !== undefined && !holds(caller.permissions, permission)) continue;
    const ranks = [title, description].map((words) => rankOf(words.toLowerCase(), needle));
    const rank = best(ranks);
    if (rank !== undefined) found.push({ rank, result: { id, type: 'settings', title, description, href } });
  }
  return found.sort((a, b) => a.rank - b.rank).slice(0, limit);
}

const best = (ranks: readonly (Rank | undefined)[]): Rank | undefined =>
  ranks.reduce((a, b) => (a === undefined || (b !== undefined && b < a) ? b : a), undefined);
