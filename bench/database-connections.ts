import pg from 'pg';
import { setTimeout as wait } from 'node:timers/promises';
import type { Db } from '../src/platform/db/pool.ts';
import { buildTenant } from '../test/support/factories.ts';
import { runPooler, type TestPooler } from '../test/support/pgbouncer.ts';
import { createTestApp, type TestApp } from '../test/support/test-app.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:database-connections`: which connections servers really open, by purpose, with and without PgBouncer in
 * transaction mode, at rest, under a load of requests, and with every pool full. The servers are real, and run in this one
 * process. `SERVERS` (default 50) run behind the pooler, whose pool has `POOL` sessions (default 40); without it, as many
 * run as Postgres has connections for.
 */

const SERVERS = Number(process.env['SERVERS'] ?? 50);
const POOL = Number(process.env['POOL'] ?? 40);
const DIRECT_SERVERS = 6;
const LOAD_MS = 8000;
/** Idle connections of a pool end after half a minute. */
const REST_MS = 35_000;
const SAMPLE_MS = 100;

interface Counted {
  total: number;
  byName: Map<string, number>;
  clients: number;
}

async function count(ownerUrl: string, pooler: TestPooler | undefined): Promise<Counted> {
  const rows = await asOwner<{ name: string; count: number }>(
    ownerUrl,
    `select application_name as name, count(*)::int from pg_stat_activity
    where usename = 'svc_app' group by 1 order by 1`,
  );
  const byName = new Map(rows.map((row) => [row.name, row.count]));
  const total = rows.reduce((sum, row) => sum + row.count, 0);
  if (pooler === undefined) return { total, byName, clients: 0 };
  const client = new pg.Client({ connectionString: pooler.consoleUrl });
  await client.connect();
  try {
    const pools = await client.query<{ user: string; cl_active: string; cl_waiting: string }>('show pools');
    const clients = pools.rows
      .filter(({ user }) => user === 'svc_app')
      .reduce((sum, row) => sum + Number(row.cl_active) + Number(row.cl_waiting), 0);
    return { total, byName, clients };
  } finally {
    await client.end();
  }
}

/** The most that was counted at one moment while `work` ran. */
async function most(look: () => Promise<Counted>, work: Promise<unknown>): Promise<Counted> {
  let best = await look();
  const state = { isOver: false };
  const over = work
    .catch((error: unknown) => console.log(`             failed: ${String(error)}`))
    .finally(() => (state.isOver = true));
  while (!state.isOver) {
    const now = await look();
    if (now.total + now.clients > best.total + best.clients) best = now;
    await wait(SAMPLE_MS);
  }
  await over;
  return best;
}

async function load(apps: readonly TestApp[], token: string): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  const until = performance.now() + LOAD_MS;
  const ask = async (app: TestApp, path: string) => {
    while (performance.now() < until) {
      const { status } = await app.call('GET', path, { token });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  await Promise.all(
    apps.flatMap((app) => ['/devices', '/orgs/organizations', '/alerts'].map((path) => ask(app, path))),
  );
  return statuses;
}

const fill = (apps: readonly TestApp[]) =>
  Promise.all(
    apps.flatMap(({ server }) => {
      const { pool, hubPool, jobPool, queuePool, storePool } = server.database;
      return [pool, hubPool, jobPool, queuePool, storePool].flatMap((each: Db) =>
        Array.from({ length: each.client.pool.max as number }, () => each.raw('select pg_sleep(0.3)')),
      );
    }),
  );

function show(what: string, servers: number, { total, byName, clients }: Counted): void {
  const parts = [...byName].map(([name, number]) => `${name} ${number}`).join(', ');
  console.log(
    `${what.padEnd(12)} ${servers} servers: ${total} sessions of Postgres (${(total / servers).toFixed(1)} a server)${
      clients > 0 ? `, ${clients} connections to the pooler` : ''
    }\n             ${parts}`,
  );
}

async function measure(servers: number, isPooled: boolean): Promise<void> {
  const database = await createTestDatabase();
  const pooler = isPooled
    ? await runPooler([database.appUrl], { mode: 'transaction', poolSize: POOL, clientsMax: 5000 })
    : undefined;
  const urls =
    pooler === undefined
      ? database
      : { ...database, appUrl: pooler.through(database.appUrl), sessionUrl: database.appUrl };
  const apps: TestApp[] = [];
  try {
    for (let at = 0; at < servers; at += 1) apps.push(await createTestApp({ database: urls }));
    const [first] = apps;
    if (first === undefined) return;
    const { admin } = await buildTenant(first);
    const look = () => count(database.ownerUrl, pooler);
    const loaded = load(apps, admin.token);
    show('under load', servers, await most(look, loaded));
    console.log(`             answers: ${[...(await loaded)].map((pair) => pair.join(' × ')).join(', ')}`);
    show('pools full', servers, await most(look, fill(apps)));
    await wait(REST_MS);
    show('at rest', servers, await look());
    console.log(`             memory of the process: ${Math.round(process.memoryUsage().rss / 1e6)} MB`);
  } finally {
    for (const app of apps) await app.close();
    await pooler?.stop();
    await database.drop();
  }
}

try {
  console.log('Postgres itself');
  await measure(1, false);
  await measure(DIRECT_SERVERS, false);
  console.log(`PgBouncer in transaction mode, default_pool_size = ${POOL}`);
  await measure(1, true);
  await measure(SERVERS, true);
} finally {
  await stopTestPostgres();
}
