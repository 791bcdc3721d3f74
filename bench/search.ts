import type { Context } from '../src/platform/context.ts';
import { alertSearch } from '../src/features/alerts/index.ts';
import { deviceSearch } from '../src/features/devices/index.ts';
import { scriptSearch } from '../src/features/scripts/index.ts';
import { search } from '../src/features/search/search.service.ts';
import { openPool } from '../src/platform/db/pool.ts';
import type { TenantScope } from '../src/platform/db/tenant-scope.ts';
import { withTenant } from '../src/platform/db/transaction.ts';
import { createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';
import { DEVICES, PARTNER, seed } from './filters/seed.ts';

/**
 * `npm run bench:search` measures the statement of GET /search for a partner of 50,000 devices in a database of a
 * million. The baseline is the simplest statement that finds the same devices: `ilike` on both names, without ranking
 * and without shares for each kind of result. BENCH_OWNER_URL and BENCH_APP_URL name a database that was seeded
 * before.
 */

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 40);
/** Terms that match from nothing to nearly everything, in host names, in display names and in both. */
const NEEDLES = ['nothing-like-it', 'desk-00a', 'till', 'srv-', 'machine of a', 'e', 'ap', '1'];

const SOURCES = [deviceSearch, scriptSearch, alertSearch];

const given = process.env['BENCH_OWNER_URL'];
const database =
  given === undefined
    ? await createTestDatabase()
    : { ownerUrl: given, appUrl: process.env['BENCH_APP_URL'] ?? '', drop: async () => {} };
if (given === undefined) await seed(database.ownerUrl);
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
  const ours = (q: string) =>
    withTenant(
      pool,
      scope,
      async (tx) => (await search({ tx, caller } as unknown as Context, { q, limit: 20 }, SOURCES)).length,
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
  const all: number[] = [];
  for (const q of NEEDLES) {
    const times = { ours: [] as number[], plain: [] as number[] };
    let found = 0;
    for (let round = -2; round < ROUNDS; round++) {
      for (const [name, run] of [
        ['ours', ours],
        ['plain', plain],
      ] as const) {
        const begun = performance.now();
        const count = await run(q);
        if (name === 'ours') found = count;
        if (round >= 0) times[name].push(performance.now() - begun);
      }
    }
    all.push(...times.ours);
    figures[q] = {
      found,
      'ms p50': at(times.ours, 0.5),
      'ms p95': at(times.ours, 0.95),
      'baseline p50': at(times.plain, 0.5),
    };
  }
  figures['all'] = { 'ms p50': at(all, 0.5), 'ms p95': at(all, 0.95) };
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
