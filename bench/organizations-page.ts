import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { buildPartner, buildPerson } from '../test/support/factories.ts';
import { createTestApp } from '../test/support/test-app.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:organizations-page` measures a page of 50 organizations of a partner with 10,000, through the full
 * pipeline (helmet, sign-in check, rights, row-level security, parsing, metrics). The baseline is `node:http` with a
 * single prepared query that returns the same body from the same database. Server, baseline and load are separate
 * processes. The two servers are loaded alternately, and the ratios are ratios of medians.
 */

const ORGANIZATIONS = 10_000;
const CONNECTIONS = 10;
const WARM_UP_SECONDS = 4;
const SECONDS = 8;
const TURNS = 3;
const PATH = '/api/v1/orgs/organizations?limit=50';
const POOL = 10;

const Load = z.object({
  requests: z.object({ average: z.number(), total: z.number() }),
  latency: z.object({ p50: z.number(), p99: z.number() }),
  non2xx: z.number(),
  errors: z.number(),
});
type Load = z.infer<typeof Load>;

const SERVERS = ['bare', 'muster'] as const;

const database = await createTestDatabase();
const { token, partnerId } = await seed();
const running = Object.fromEntries(
  await Promise.all(SERVERS.map(async (name) => [name, await start(name)] as const)),
) as Record<(typeof SERVERS)[number], { url: string; child: ChildProcess }>;

try {
  await assertSameAnswer();
  const results: Record<string, Load[]> = { bare: [], muster: [] };
  for (const name of SERVERS) await load(running[name].url, WARM_UP_SECONDS);
  for (let turn = 0; turn < TURNS; turn++) {
    for (const name of SERVERS) results[name]?.push(await load(running[name].url, SECONDS));
  }
  report(summary(results['bare'] ?? []), summary(results['muster'] ?? []));
} finally {
  for (const { child } of Object.values(running)) {
    child.disconnect();
    await once(child, 'exit');
  }
  await database.drop();
  await stopTestPostgres();
}

async function seed() {
  const app = await createTestApp({ database });
  const partner = await buildPartner(app);
  await asOwner(
    database.ownerUrl,
    `insert into organizations (id, partner_id, name, slug, settings, billing_contact)
     select gen_random_uuid(), $1, 'Customer ' || md5(n::text), 'customer-' || n, '{"timezone": "Europe/Berlin"}',
       jsonb_build_object('name', 'Billing ' || n, 'email', 'billing@customer-' || n || '.example')
     from generate_series(1, $2::int) n`,
    [partner, ORGANIZATIONS],
  );
  await asOwner(database.ownerUrl, 'vacuum analyze');
  const person = await buildPerson(app, { scope: 'partner', partnerId: partner });
  await app.close();
  return { token: person.token, partnerId: partner };
}

async function start(name: (typeof SERVERS)[number]): Promise<{ url: string; child: ChildProcess }> {
  const script = fileURLToPath(new URL(`page-servers/${name}.ts`, import.meta.url));
  const run = fileURLToPath(new URL('../src/run.mjs', import.meta.url));
  const child = spawn(process.execPath, [run, script], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: {
      ...process.env,
      BENCH_OWNER_URL: database.ownerUrl,
      BENCH_APP_URL: database.appUrl,
      BENCH_PARTNER_ID: partnerId,
      BENCH_POOL: String(POOL),
    },
  });
  const [url] = (await once(child, 'message')) as [string];
  return { url, child };
}

async function assertSameAnswer(): Promise<void> {
  const [bare, muster] = await Promise.all(
    SERVERS.map(async (name) => {
      const answer = await fetch(`${running[name].url}${PATH}`, {
        headers: { authorization: `Bearer ${token}` },
      });
      return JSON.stringify(await answer.json());
    }),
  );
  if (bare !== muster) throw new Error(`The two responses differ:\n${bare}\n${muster}`);
}

async function load(url: string, seconds: number): Promise<Load> {
  const autocannon = createRequire(import.meta.url).resolve('autocannon/autocannon.js');
  const args = ['--json', '-c', String(CONNECTIONS), '-d', String(seconds)];
  const child = spawn(
    process.execPath,
    [autocannon, ...args, '-H', `authorization=Bearer ${token}`, `${url}${PATH}`],
    {
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await once(child, 'close');
  const result = Load.parse(JSON.parse(output));
  if (result.non2xx > 0 || result.errors > 0) {
    throw new Error(`${result.non2xx} responses were not successful, ${result.errors} requests failed.`);
  }
  return result;
}

function summary(loads: readonly Load[]) {
  const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
  return {
    'requests/s': Math.round(median(loads.map(({ requests }) => requests.average))),
    'p50 ms': median(loads.map(({ latency }) => latency.p50)),
    'p99 ms': median(loads.map(({ latency }) => latency.p99)),
  };
}

function report(bare: ReturnType<typeof summary>, muster: ReturnType<typeof summary>): void {
  console.table({ 'node:http, one prepared query': bare, Muster: muster });
  const ratios = {
    throughput: Number((muster['requests/s'] / bare['requests/s']).toFixed(2)),
    p99: Number((muster['p99 ms'] / bare['p99 ms']).toFixed(2)),
  };
  console.log(
    JSON.stringify({
      connections: CONNECTIONS,
      pool: POOL,
      turns: TURNS,
      seconds: SECONDS,
      bare,
      muster,
      ratios,
    }),
  );
}
