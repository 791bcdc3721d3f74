import type { Caller, Context } from '../../platform/context.ts';
import { holds } from '../../platform/context.ts';
import { containing } from '../../platform/db/like-pattern.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { BETWEEN_WORDS, mix, type Rank, type Ranked, rankOf } from './rank.ts';
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
  /** From what, as `s`: the rows that the caller can see and that have `:pattern` in `text`, which is in small letters. */
  from: (caller: Caller) => string;
  /** The texts that are looked into, each of which may be null. */
  texts: [string, string];
  title: string;
  description: string;
  /** What comes first of equally good ones. */
  order: string;
}

const SOURCES: readonly Source[] = [
  {
    type: 'devices',
    permission: 'devices:read',
    from: (caller) =>
      `devices s where ${inTenant(caller, 's.org_id')} and s.condition <> 'decommissioned'
        and s.search_text like lower(:pattern)`,
    texts: ['s.hostname', 's.display_name'],
    title: `coalesce(s.display_name, s.hostname)`,
    description: `case when s.display_name is null then s.os_version else s.hostname end`,
    order: 'lower(coalesce(s.display_name, s.hostname))',
  },
  {
    type: 'scripts',
    permission: 'scripts:read',
    from: (caller) =>
      `scripts s where (${inTenant(caller, 's.org_id')} or s.partner_id = :partnerId)
        and (lower(s.name) like lower(:pattern) or lower(s.description) like lower(:pattern))`,
    texts: ['s.name', 's.description'],
    title: 's.name',
    description: 's.description',
    order: 'lower(s.name)',
  },
  {
    type: 'alerts',
    permission: 'alerts:read',
    from: (caller) =>
      `alerts s where ${inTenant(caller, 's.org_id')}
        and (lower(s.title) like lower(:pattern) or lower(s.message) like lower(:pattern))`,
    texts: ['s.title', 's.message'],
    title: 's.title',
    description: 's.message',
    order: `(s.status = 'resolved'), s.raised_at desc`,
  },
];

/** One statement for all sources, of which each brings its best. */
async function storedResults(ctx: Context, q: string, limit: number): Promise<Ranked[][]> {
  const sources = SOURCES.filter(({ permission }) => holds(ctx.caller.permissions, permission));
  if (sources.length === 0) return [];
  const { rows } = await ctx.tx.raw<{ rows: FoundRow[] }>(
    sources.map((source) => `(${bestOf(source, ctx.caller)})`).join(' union all '),
    {
      pattern: containing(q),
      q,
      between: BETWEEN_WORDS,
      spaces: ' '.repeat(BETWEEN_WORDS.length),
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

const bestOf = ({ type, from, texts, title, description, order }: Source, caller: Caller) => `
  select '${type}' as type, s.id::text as id, ${title} as title, ${description} as description,
    least(${texts.map(rankSql).join(', ')}) as rank
  from ${from(caller)} order by rank, ${order}, s.id limit :limit`;

/** Null, which `least` passes over, where the text is null or does not have it: `rankOf` in SQL. */
const rankSql = (column: string) => `case
  when lower(${column}) = lower(:q) then 0
  when starts_with(lower(${column}), lower(:q)) then 1
  when position(lower(:q) in lower(${column})) = 0 then null
  when position(${wordsSql(':q')} in ${wordsSql(column)}) > 0 then 2
  else case when ${column} is not null then 3 end end`;

const wordsSql = (text: string) => `' ' || translate(lower(${text}), :between, :spaces)`;

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
