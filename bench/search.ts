import type { Context } from '../src/platform/context.ts';
import { alertSearch } from '../src/features/alerts/index.ts';
import { deviceSearch } from '../src/features/devices/index.ts';
import { filterSearch } from '../src/features/filters/index.ts';
import { groupSearch } from '../src/features/groups/index.ts';
import { organizationSearch } from '../src/features/organizations/index.ts';
import { scriptSearch } from '../src/features/scripts/index.ts';
import { BETWEEN_TEXTS, BETWEEN_WORDS, haystackOf, type SearchSource } from '../src/features/search/index.ts';
import { search } from '../src/features/search/search.service.ts';
import { siteSearch } from '../src/features/sites/index.ts';
import { userSearch } from '../src/features/users/index.ts';
import { beginningWith, containing, inTenant } from '../src/platform/db/statement.ts';
import { openPool } from '../src/platform/db/pool.ts';
import type { TenantScope } from '../src/platform/db/tenant-scope.ts';
import { withTenant } from '../src/platform/db/transaction.ts';
import { createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';
import { DEVICES, PARTNER, seed } from './filters/seed.ts';

/**
 * `npm run bench:search` measures the statement of GET /search for a partner of 50,000 devices in a database of a
 * million. There are two baselines: the statement as it was when devices were found by their names only, and the
 * simplest one that finds those devices, `ilike` on both names. BENCH_OWNER_URL and BENCH_APP_URL name a database that
 * was seeded before.
 */

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 40);
/** Terms that match from nothing to nearly everything, in names and in what else devices are found by. */
const NEEDLES = [
  'nothing-like-it',
  'desk-00a',
  'till',
  'srv-',
  'machine of a',
  'e',
  'ap',
  '1',
  // A serial number, users, addresses that some and nearly all devices have, hardware addresses in three forms, a tag.
  'c4ca4238a0b923820dcc509a6f75849b',
  'maria',
  'office\\ada',
  '10.20.',
  '10.',
  '203.0.113.7',
  '52-54-00-ab',
  '5254.00ab',
  'ab:cd',
  'store',
  'fd00::12',
];

const SOURCES: readonly SearchSource[] = [
  deviceSearch,
  userSearch,
  organizationSearch,
  siteSearch,
  groupSearch,
  filterSearch,
  scriptSearch,
  alertSearch,
];
/** The statement of GET /search as it was: devices by their names, scripts and alerts. */
const before = (): string =>
  [
    [
      'devices',
      's.search_text',
      `${inTenant(scope, 's.org_id')} and s.condition <> 'decommissioned'`,
      's.search_text',
    ],
    [
      'scripts',
      haystackOf('s.name', 's.description'),
      `(${inTenant(scope, 's.org_id')} or s.partner_id = '${PARTNER}')`,
      'lower(s.name)',
    ],
    [
      'alerts',
      haystackOf('s.title', 's.message'),
      inTenant(scope, 's.org_id'),
      `array[(s.status = 'resolved')::int, -extract(epoch from s.raised_at)]`,
    ],
  ]
    .map(([table, haystack, where, order]) => {
      const begins = `(haystack like lower(:beginning) or position(:between || lower(:q) in haystack) > 0)`;
      const best = (rank: string, condition: string) =>
        `(select id, sort_key, ${rank} as rank from found where ${condition} order by rank, sort_key, id limit 20)`;
      return `(with found as materialized (
          select s.id, ${haystack} as haystack, ${order} as sort_key from ${table} s
          where ${where} and ${haystack} like lower(:anywhere)
        )
        select s.id::text, ${table === 'devices' ? 's.hostname' : table === 'scripts' ? 's.name' : 's.title'} as title, best.rank
        from (${best(
          `case when starts_with(haystack, lower(:q) || :between)
            or right(haystack, length(lower(:q)) + 1) = :between || lower(:q) then 0 else 1 end`,
          begins,
        )} union all ${best(
          `case when haystack like any(array(select lower(word) from unnest(:words::text[]) word)) then 2 else 3 end`,
          `not ${begins}`,
        )} limit 20) best
        join ${table} s on s.id = best.id
        order by best.rank, best.sort_key, s.id)`;
    })
    .join(' union all ');

const scope: TenantScope = {
  scope: 'partner',
  userId: null,
  partnerId: PARTNER,
  orgAccess: 'all',
  orgIds: [],
};
const given = process.env['BENCH_OWNER_URL'];
const database =
  given === undefined
    ? await createTestDatabase()
    : { ownerUrl: given, appUrl: process.env['BENCH_APP_URL'] ?? '', drop: async () => {} };
if (given === undefined) await seed(database.ownerUrl, ['titles', 'software', 'groups']);
const pool = openPool(database.appUrl, { max: 1, name: 'bench-search' });

try {
  const caller = { ...scope, permissions: new Set(['*:*']) };
  const ours = (q: string) =>
    withTenant(
      pool,
      scope,
      async (tx) => (await search({ tx, caller } as unknown as Context, { q, limit: 20 }, SOURCES)).length,
      { readOnly: true },
    );
  const former = (q: string) =>
    withTenant(
      pool,
      scope,
      async (tx) =>
        (
          await tx.raw(before(), {
            q,
            anywhere: containing(q),
            beginning: beginningWith(q),
            between: BETWEEN_TEXTS,
            words: BETWEEN_WORDS.map((sign) => containing(sign + q)),
          })
        ).rows.length as number,
      { readOnly: true },
    );
  const plain = (q: string) =>
    withTenant(
      pool,
      scope,
      async (tx) =>
        (
          await tx.raw(
            `select d.id, d.hostname, d.display_name from devices d
            where d.org_id = any((select app_org_ids())::uuid[]) and d.condition <> 'decommissioned'
              and (d.hostname ilike :part or d.display_name ilike :part) limit 20`,
            { part: `%${q}%` },
          )
        ).rows.length as number,
      { readOnly: true },
    );
  const figures: Record<string, object> = {};
  const all = { ours: [] as number[], before: [] as number[] };
  for (const q of NEEDLES) {
    const times = { ours: [] as number[], before: [] as number[], plain: [] as number[] };
    let found = 0;
    for (let round = -2; round < ROUNDS; round++) {
      for (const [name, run] of [
        ['ours', ours],
        ['before', former],
        ['plain', plain],
      ] as const) {
        const begun = performance.now();
        const count = await run(q);
        if (name === 'ours') found = count;
        if (round >= 0) times[name].push(performance.now() - begun);
      }
    }
    all.ours.push(...times.ours);
    all.before.push(...times.before);
    figures[q] = {
      found,
      'ms p50': at(times.ours, 0.5),
      'ms p95': at(times.ours, 0.95),
      'before p50': at(times.before, 0.5),
      'before p95': at(times.before, 0.95),
      'ilike p50': at(times.plain, 0.5),
    };
  }
  figures['all'] = {
    'ms p50': at(all.ours, 0.5),
    'ms p95': at(all.ours, 0.95),
    'before p50': at(all.before, 0.5),
    'before p95': at(all.before, 0.95),
  };
  console.table(figures);
  console.log(JSON.stringify({ devices: DEVICES, rounds: ROUNDS, figures }));
} finally {
  await pool.destroy();
  await database.drop();
  await stopTestPostgres();
}

function at(times: number[], part: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return Math.round((sorted[Math.floor((sorted.length - 1) * part)] ?? 0) * 10) / 10;
}
