import type { Context } from '../src/platform/context.ts';
import { alertSearch } from '../src/features/alerts/index.ts';
import { deviceSearch } from '../src/features/devices/index.ts';
import { filterSearch } from '../src/features/filters/index.ts';
import { groupSearch } from '../src/features/groups/index.ts';
import { organizationSearch } from '../src/features/organizations/index.ts';
import { scriptSearch } from '../src/features/scripts/index.ts';
import { type SearchSource, searchOf } from '../src/features/search/index.ts';
import { search } from '../src/features/search/search.service.ts';
import { siteSearch } from '../src/features/sites/index.ts';
import { userSearch } from '../src/features/users/index.ts';
import { inTenant } from '../src/platform/db/statement.ts';
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
  ...['nothing-like-it', 'desk-00a', 'till', 'srv-', 'machine of a', 'e', 'ap', '1'],
  // A serial number, users, addresses that some and nearly all devices have, hardware addresses in three forms, a tag.
  ...['c4ca4238a0b923820dcc509a6f75849b', 'maria', 'office\\ada', '10.20.30', '10.', '203.0.113.7'],
  ...['52-54-00-ab', '5254.00ab', 'ab:cd', 'store', 'fd00::12'],
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
const BEFORE: readonly SearchSource[] = [
  searchOf({ type: 'devices', permission: 'devices:read' }, (caller) => ({
    table: 'devices',
    where: `${inTenant(caller, 's.org_id')} and s.condition <> 'decommissioned'`,
    haystack: 's.search_text',
    title: 'coalesce(s.display_name, s.hostname)',
    description: 'case when s.display_name is null then s.os_version else s.hostname end',
    order: 's.search_text',
  })),
  scriptSearch,
  alertSearch,
];

const given = process.env['BENCH_OWNER_URL'];
const database =
  given === undefined
    ? await createTestDatabase()
    : { ownerUrl: given, appUrl: process.env['BENCH_APP_URL'] ?? '', drop: async () => {} };
if (given === undefined) await seed(database.ownerUrl, ['titles', 'software', 'groups']);
const pool = openPool(database.appUrl, { max: 1, name: 'bench-search' });

try {
  const scope: TenantScope = {
    scope: 'partner',
    userId: null,
    partnerId: PARTNER,
    orgAccess: 'all',
    orgIds: [],
  };
  const caller = { ...scope, permissions: new Set(['*:*']) };
  const searching = (sources: readonly SearchSource[]) => (q: string) =>
    withTenant(
      pool,
      scope,
      async (tx) => (await search({ tx, caller } as unknown as Context, { q, limit: 20 }, sources)).length,
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
        ['ours', searching(SOURCES)],
        ['before', searching(BEFORE)],
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
