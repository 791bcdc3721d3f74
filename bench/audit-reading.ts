import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { NameIndexCompactor } from '../../src/features/audit/index.ts';
import { startEmbeddedPostgres } from '../../src/platform/db/embedded/index.ts';
import { buildOrganization, buildPartner, buildPerson, signIn } from '../../test/support/factories.ts';
import { quietLog } from '../../test/support/quiet-log.ts';
import { createTestApp } from '../../test/support/test-app.ts';
import { asOwner } from '../../test/support/test-postgres.ts';
import { type Seeded, seedEntries } from './seed.ts';

/**
 * `npm run bench:audit-reading` measures pages of the audit trail with ten million entries, for each filter
 * separately and for callers of each scope. It reports the CPU time of the database per request, for the median and
 * the worst value of a filter, because other programs on the machine do not affect it; then the wall-clock time of
 * all requests of a filter; then the first byte of an export of 10,000 rows. `ENTRIES=1000000` shortens it. Creating
 * the entries takes ten minutes; they are kept in `BENCH_DIR` (/tmp/muster-bench-reading) for another run.
 */

const ENTRIES = Number(process.env['ENTRIES'] ?? 10_000_000);
/** The number of requests for each value of a filter. */
const TURNS = Number(process.env['TURNS'] ?? 20);
const dataDir = process.env['BENCH_DIR'] ?? '/tmp/muster-bench-reading';

await mkdir(dataDir, { recursive: true });
// If we are root, Postgres runs as another user, who needs access to this folder.
await chmod(dataDir, 0o711);
const postgres = await startEmbeddedPostgres({ dataDir, log: quietLog, durable: false });
const appUrl = new URL(postgres.ownerUrl);
appUrl.username = 'svc_app';
appUrl.password = 'only-for-benches';
const app = await createTestApp({
  database: { ownerUrl: postgres.ownerUrl, appUrl: appUrl.href, drop: async () => {} },
  // One connection without parallel workers, so that a single Postgres process does all the work.
  env: { DATABASE_POOL_SIZE: '1' },
});
await asOwner(postgres.ownerUrl, 'alter role svc_app set max_parallel_workers_per_gather = 0');
const backend = (await app.server.database.pool.raw('select pg_backend_pid() as pid')).rows[0].pid as number;

interface Ground extends Seeded {
  people: Record<string, string>;
}

try {
  const ground = await prepared();
  const callers = {
    organization: await signIn(app, ground.people['organization'] ?? ''),
    'partner of 100': await signIn(app, ground.people['partner'] ?? ''),
    'partner of 2': await signIn(app, ground.people['small'] ?? ''),
    system: await signIn(app, ground.people['system'] ?? ''),
  };
  const only = process.env['ONLY'];
  for (const [counting, query] of [
    ['page alone (skipCount)', 'skipCount=true'],
    ['page with total', 'skipCount=false'],
  ] as const) {
    if (only !== undefined && !counting.includes(only)) continue;
    const processor: Record<string, Record<string, string>> = {};
    const clock: Record<string, Record<string, string>> = {};
    for (const [filter, values] of Object.entries(FILTERS())) {
      if (process.env['FILTER'] !== undefined && !process.env['FILTER'].split(',').includes(filter)) continue;
      for (const [caller, token] of Object.entries(callers)) {
        const medians: number[] = [];
        const waits: number[] = [];
        for (const value of values) {
          const turns: PageTimes[] = [];
          for (let turn = 0; turn < TURNS && !turns.some(({ clockMs }) => clockMs > 2000); turn++) {
            turns.push(await pageTimes(token, `${query}&${value}`));
          }
          const median = percentile(
            turns.map(({ databaseMs }) => databaseMs),
            50,
          );
          if (median > 50) console.error(`${counting}, ${caller}, ${value}: ${median.toFixed(1)} ms`);
          medians.push(median);
          waits.push(...turns.map(({ clockMs }) => clockMs));
        }
        (processor[filter] ??= {})[caller] = shown(percentile(medians, 50), Math.max(...medians));
        (clock[filter] ??= {})[caller] = shown(percentile(waits, 50), percentile(waits, 99));
      }
      console.error(counting, filter, JSON.stringify([processor[filter], clock[filter]]));
    }
    console.log(`${counting}: CPU time of the database (ms), median value / worst value`);
    console.table(processor);
    console.log(`${counting}: wall-clock time (ms), p50 / p99 of all requests`);
    console.table(clock);
  }
  if (only === undefined || only === 'export') {
    console.log('first byte of an export of 10,000 rows, wall-clock time (ms), median / worst of ten');
    console.table(
      Object.fromEntries(
        await inTurn(Object.entries(callers), async ([caller, token]) => [
          caller,
          { csv: await firstByteMs(token, 'csv'), json: await firstByteMs(token, 'json') },
        ]),
      ),
    );
  }
} finally {
  await app.close();
  await postgres.stop();
}

function FILTERS(): Record<string, string[]> {
  const days = (n: number) => new Date(Date.now() - n * 86_400_000).toISOString();
  const each = <T>(values: readonly T[], make: (value: T) => string) => values.map(make);
  return {
    none: [''],
    'pages 2 to 20': each([2, 5, 10, 20], (n) => `page=${n}`),
    action: each(
      [
        'thing0.action0',
        'thing1.action9',
        'agent.event.3',
        'agent.event.29',
        'user.mfa.disable',
        'nothing.has.it',
      ],
      (action) => `action=${action}`,
    ),
    from: each([0.01, 1, 30, 365, 730], (n) => `from=${days(n)}`),
    to: each([0, 1, 30, 365, 700, 800], (n) => `to=${days(n)}`),
    user: each(
      [
        'p0.c0@example.com',
        'p19.c0',
        'person 3 of0',
        'p7.c55@',
        'p2.c101',
        'example.com',
        'p1',
        'person',
        'nobody-at-all',
      ],
      (user) => `user=${encodeURIComponent(user)}`,
    ),
    resource: each(
      [
        'device',
        'thing3',
        'MFA',
        'host-0-17',
        'host-55-1999',
        'host-101-7',
        'thing 499',
        'nothing-like-it',
        'o',
      ],
      (resource) => `resource=${encodeURIComponent(resource)}`,
    ),
  };
}

interface PageTimes {
  databaseMs: number;
  clockMs: number;
}

async function pageTimes(token: string, query: string): Promise<PageTimes> {
  const before = await processorMs(backend);
  const since = performance.now();
  const { status, body } = await app.call('GET', `/audit-logs/logs?${query}`, { token });
  const clockMs = performance.now() - since;
  if (status >= 500) return { databaseMs: 30_000, clockMs };
  if (status !== 200) throw new Error(JSON.stringify([query, status, body]));
  return { databaseMs: (await processorMs(backend)) - before, clockMs };
}

async function firstByteMs(token: string, format: string): Promise<string> {
  const times: number[] = [];
  for (let i = 0; i < 10; i++) {
    const since = performance.now();
    const response = await fetch(`${app.url}/api/v1/audit-logs/export`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ format }),
    });
    const reader = response.body?.getReader();
    await reader?.read();
    times.push(performance.now() - since);
    await reader?.cancel();
  }
  return shown(percentile(times, 50), Math.max(...times));
}

function percentile(times: readonly number[], share: number): number {
  return times.toSorted((a, b) => a - b)[Math.ceil((times.length * share) / 100) - 1] ?? 0;
}

function shown(middle: number, worst: number): string {
  return `${middle.toFixed(1)} / ${worst.toFixed(1)}`;
}

async function inTurn<T, R>(values: readonly T[], work: (value: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (const value of values) results.push(await work(value));
  return results;
}

/** The installation with its entries, created now or by an earlier run. */
async function prepared(): Promise<Ground> {
  const file = path.join(dataDir, `ground-${ENTRIES}.json`);
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Ground;
  } catch {
    // It does not exist yet and is created below.
  }
  const partnerId = await buildPartner(app);
  const orgIds: string[] = [];
  for (let i = 0; i < 100; i++) orgIds.push(await buildOrganization(app, partnerId));
  const smallId = await buildPartner(app);
  const small = [await buildOrganization(app, smallId), await buildOrganization(app, smallId)];
  const ground: Ground = {
    partnerId,
    orgIds,
    small: { partnerId: smallId, orgIds: small },
    people: {
      organization: (await buildPerson(app, { scope: 'organization', orgId: orgIds[0] ?? '' })).email,
      partner: (await buildPerson(app, { scope: 'partner', partnerId })).email,
      small: (await buildPerson(app, { scope: 'partner', partnerId: smallId })).email,
      system: (await buildPerson(app, { scope: 'system' })).email,
    },
  };
  await seedEntries(postgres.ownerUrl, ground, ENTRIES);
  await new NameIndexCompactor({ db: app.server.database.hubPool, log: quietLog }).compact();
  await writeFile(file, JSON.stringify(ground));
  return ground;
}

/** The CPU time that a Postgres process has used, in ms. */
async function processorMs(pid: number): Promise<number> {
  const [ns] = (await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ');
  return Number(ns) / 1e6;
}
