import { asOwner } from '../test/support/test-postgres.ts';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { NameIndexCompactor } from '../src/features/audit/index.ts';
import { startEmbeddedPostgres } from '../src/platform/db/embedded/index.ts';
import { buildOrganization, buildPartner, buildPerson, signIn } from '../test/support/factories.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { createTestApp } from '../test/support/test-app.ts';

/**
 * Creates an installation with the given number of entries over two years, in order of time, so the chains are
 * interleaved.
 */

interface Seeded {
  /** Organizations of the large partner: the first has 30 % of all entries, the others share 40 %. */
  orgIds: string[];
  partnerId: string;
  /** Two organizations with very few entries. */
  small: { partnerId: string; orgIds: string[] };
}

const OTHERS = 200;

async function seedEntries(ownerUrl: string, seeded: Seeded, entries: number): Promise<void> {
  const sql = (text: string, values: unknown[] = []) =>
    asOwner<Record<string, string>>(ownerUrl, text, values);
  const { orgIds, partnerId, small } = seeded;
  await sql(
    `with p as (
      insert into partners (id, name, slug, status)
      select gen_random_uuid(), 'Other ' || n, 'other-' || n, 'active' from generate_series(1, ${OTHERS / 4}) n returning id
    )
    insert into organizations (id, partner_id, name, slug)
    select gen_random_uuid(), p.id, 'Org ' || n, 'org-' || n from p, generate_series(1, 4) n`,
  );
  // Chain numbers: 0 is the large organization, 1 to 99 are the other organizations of its partner, 100 is that
  // partner,
  // 101 and 102 are the small organizations, then all others.
  await sql('create table bench_chains (no int primary key, org_id uuid, partner_id uuid)');
  await sql(
    `insert into bench_chains select ord - 1, id, $2 from unnest($1::uuid[]) with ordinality as u (id, ord)`,
    [orgIds, partnerId],
  );
  await sql(`insert into bench_chains values (100, null, $1), (101, $3, $2), (102, $4, $2)`, [
    partnerId,
    small.partnerId,
    ...small.orgIds,
  ]);
  await sql(
    `insert into bench_chains select 102 + row_number() over (order by o.id), o.id, o.partner_id
    from organizations o join partners p on p.id = o.partner_id where p.slug like 'other-%'`,
  );
  // Twenty people per chain, and ten who work in all chains of the large partner; two of them acted very rarely.
  await sql(
    `insert into users (id, email, name)
    select md5('person ' || c.no || ' ' || n)::uuid, 'p' || n || '.c' || c.no || '@example.com', 'Person ' || n || ' Of' || c.no
    from bench_chains c, generate_series(0, 19) n`,
  );
  await sql(
    `insert into organization_users (org_id, user_id, role_id)
    select c.org_id, md5('person ' || c.no || ' ' || n)::uuid, (select id from roles where scope = 'organization' limit 1)
    from bench_chains c, generate_series(0, 19) n where c.org_id is not null`,
  );

  const indexes = await sql(
    `select indexname as name, indexdef as definition from pg_indexes where tablename = 'audit_logs'
      and indexname not in (select conname from pg_constraint)`,
  );
  for (const { name } of indexes) await sql(`drop index "${name}"`);
  await sql('alter table audit_logs drop constraint audit_logs_no_fork, drop constraint audit_logs_place');
  await sql(
    `set work_mem = '1GB'; select setseed(0.5);
    insert into audit_logs (id, org_id, partner_id, "timestamp", actor_type, actor_id, actor_email, action, resource_type,
      resource_id, resource_name, details, ip_address, user_agent, result, seq, checksum, prev_checksum)
    select uuidv7(make_interval(secs => -63072000.0 * (1 - i / ${entries}.0))), c.org_id, c.partner_id,
      now() - make_interval(secs => 63072000.0 * (1 - i / ${entries}.0)),
      case when is_agent then 'agent' else 'user' end,
      case when is_agent then md5('device ' || place || ' ' || device)::uuid else md5('person ' || place || ' ' || person)::uuid end,
      case when is_agent then null else 'p' || person || '.c' || place || '@example.com' end,
      case when is_agent then 'agent.event.' || kind when rare < 0.00002 then 'user.mfa.disable' else 'thing' || kind % 8 || '.action' || kind end,
      case when is_agent then 'device' when rare < 0.00002 then 'mfa' else 'thing' || kind % 8 end,
      md5('device ' || place || ' ' || device)::uuid,
      case when is_agent then 'host-' || place || '-' || device when rare < 0.00002 then 'second factor'
        else 'Thing ' || device % 500 end,
      jsonb_build_object('changedFields', jsonb_build_array('name', 'note'), 'n', i),
      '203.0.113.' || i % 250, 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36', 'success',
      -- Behind what people's sign-ins have left there already.
      seq + 1000, md5(i::text) || md5(place::text), md5(i::text) || md5(seq::text)
    from (
      select *, row_number() over (partition by place order by i) as seq from (
        select i, random() as rare, random() < 0.4 as is_agent, floor(30 * random() ^ 2)::int as kind,
          floor(20 * random() ^ 3)::int as person,
          floor(random() * 2000)::int as device,
          case when r < 0.3 then 0 when r < 0.7 then 1 + floor(99 * (r - 0.3) / 0.4)::int when r < 0.71 then 100
            when r < 0.7102 then 101 + (i % 2)::int
            else 103 + floor(least((r - 0.7102) / 0.2898, 0.999999) * ${OTHERS})::int end as place
        from (select i, random() as r from generate_series(1, ${entries}::bigint) i) drawn
      ) placed
    ) numbered join bench_chains c on c.no = place order by i`,
  );
  await sql(
    `set maintenance_work_mem = '2GB';
    alter table audit_logs add constraint audit_logs_place unique (chain_id, seq),
      add constraint audit_logs_no_fork unique nulls not distinct (chain_id, prev_checksum)`,
  );
  for (const { definition } of indexes) await sql(`set maintenance_work_mem = '2GB'; ${definition}`);
  await sql(
    `begin; set local role svc_system; insert into audit_chain_heads as h (chain_id, seq, checksum, number, at, key_id, signature)
    select distinct on (l.chain_id) l.chain_id, l.seq, l.checksum, 1, now(), k.id, 'none'
    from audit_signing_keys k, audit_logs l order by l.chain_id, l.seq desc
    on conflict (chain_id) do update set seq = excluded.seq, checksum = excluded.checksum; commit`,
  );
  // As the sealer records them.
  await sql(
    `set work_mem = '1GB';
    insert into audit_actors select distinct chain_id, actor_id, actor_email from audit_logs where actor_type <> 'agent'
    on conflict do nothing;
    insert into audit_resources (chain_id, resource_type, resource_name)
    select distinct chain_id, resource_type, resource_name from audit_logs on conflict do nothing`,
  );
  // A table without row-level security would keep the server from starting.
  await sql('drop table bench_chains');
  await sql('vacuum analyze');
}

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
