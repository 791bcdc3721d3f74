import { cutChain, nextPortion } from '../src/features/audit/prune-chain.ts';
import { openSession } from '../src/platform/db/pool.ts';
import { createAuditBench } from '../test/support/audit/audit-support.ts';
import { stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:audit-pruning` says what the end of a month of audit entries costs, by its parts: verifying them, removing
 * them row by row under signed cuts, and the vacuum after it. The baseline of the same run is what partitions by month
 * would leave of it: the same verification, a cut for each chain, and a table with the same rows and indexes that is
 * dropped. `ENTRIES` (300,000) are spread over `CHAINS` (30); a quarter as many are younger and stay.
 */

const ENTRIES = Number(process.env['ENTRIES'] ?? 300_000);
const CHAINS = Number(process.env['CHAINS'] ?? 30);
const SIZES = { portion: 100_000, step: 5000 };

const bench = await createAuditBench({ durable: true });
const { auditAdminUrl } = bench.database;
if (auditAdminUrl === undefined) throw new Error('no address for the role that prunes');
const session = openSession(auditAdminUrl, 'bench-audit-pruning');

const walAt = async () =>
  (await bench.owner<{ at: string }>('select pg_current_wal_insert_lsn()::text as at'))[0]?.at ?? '0/0';
const walSince = async (at: string) => {
  const [row] = await bench.owner<{ bytes: number }>(
    'select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)::float8 as bytes',
    [at],
  );
  return row?.bytes ?? 0;
};

interface Cost {
  ms: number;
  'MB of WAL': number;
}
const costs: Record<string, Cost> = {};

/** Adds what the work takes to the costs of that name. */
async function measured<T>(name: string, work: () => Promise<T>): Promise<T> {
  const at = await walAt();
  const since = performance.now();
  const result = await work();
  const ms = performance.now() - since;
  const cost = (costs[name] ??= { ms: 0, 'MB of WAL': 0 });
  cost.ms += ms;
  cost['MB of WAL'] += (await walSince(at)) / 1e6;
  return result;
}

try {
  const chains = [bench.orgId];
  while (chains.length < CHAINS) chains.push(await bench.organization());
  // In turns, so that the entries of a chain lie between those of the others, as they arrive.
  const turns = 10;
  for (const [daysAgo, entries] of [
    [400, ENTRIES],
    [300, ENTRIES / 4],
  ] as const) {
    for (let turn = 0; turn < turns; turn += 1) {
      for (const orgId of chains) await bench.add(Math.ceil(entries / CHAINS / turns), { orgId, daysAgo });
      await bench.sealer.flush();
    }
  }
  await bench.owner('vacuum analyze audit_logs');
  await bench.owner('create table audit_month (like audit_logs including all)');
  const columns = await bench.owner<{ names: string }>(
    `select string_agg(quote_ident(attname), ', ' order by attnum) as names from pg_attribute
    where attrelid = 'audit_logs'::regclass and attnum > 0 and attgenerated = '' and not attisdropped`,
  );
  await bench.owner(
    `insert into audit_month (${columns[0]?.names}) select ${columns[0]?.names} from audit_logs
    where "timestamp" < now() - interval '365 days' order by id`,
  );
  const [size] = await bench.owner<{ before: number; month: number }>(
    `select pg_total_relation_size('audit_logs')::float8 as before, pg_total_relation_size('audit_month')::float8 as month`,
  );
  await bench.owner('checkpoint');

  const before = new Date(Date.now() - 365 * 86_400_000);
  let removed = 0;
  let cuts = 0;
  for (const chainId of chains) {
    for (;;) {
      const portion = await measured('verify', () =>
        nextPortion(bench.db, bench.keys, { chainId, before }, SIZES),
      );
      if (portion === undefined) break;
      for (const point of portion.steps) {
        removed += (await measured('remove', () => cutChain(session, portion, point)))?.entries ?? 0;
        cuts += 1;
      }
    }
  }
  await measured('vacuum', () => bench.owner('vacuum audit_logs'));
  const [after] = await bench.owner<{ bytes: number }>(
    `select pg_total_relation_size('audit_logs')::float8 as bytes`,
  );
  // A cut of a chain from which nothing is left to be removed: its checkpoint, its head and the search for its rows.
  for (const chainId of chains) {
    await bench.add(1, { orgId: chainId, daysAgo: 400 });
  }
  await bench.sealer.flush();
  await bench.owner('checkpoint');
  await measured('drop', () => bench.owner('drop table audit_month'));

  const figures = {
    entries: removed,
    chains: CHAINS,
    cuts,
    'bytes an entry with its indexes': Math.round((size?.month ?? 0) / removed),
    'size of the table after ÷ before': Number(((after?.bytes ?? 0) / (size?.before ?? 1)).toFixed(2)),
    ...Object.fromEntries(
      Object.entries(costs).map(([name, cost]) => [
        name,
        `${Math.round(cost.ms)} ms, ${cost['MB of WAL'].toFixed(1)} MB of WAL`,
      ]),
    ),
  };
  console.table(figures);
  console.log(JSON.stringify(figures));
} finally {
  await session.destroy();
  await bench.close();
  await stopTestPostgres();
}
