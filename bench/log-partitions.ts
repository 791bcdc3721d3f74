import { holdDevice, storeGroup } from '../src/features/logs/log.queries.ts';
import { DiagnosticLog, StoredEvent } from '../src/features/logs/log.model.ts';
import {
  dropLogPartition,
  endedLogPartitions,
  LOG_KINDS,
} from '../src/features/logs/log-partition.queries.ts';
import { openPool } from '../src/platform/db/pool.ts';
import { runPrepared, type Tx, withSystem, withTenant } from '../src/platform/db/transaction.ts';
import type { AgentContext } from '../src/platform/context.ts';
import { newId } from '../src/platform/ids.ts';
import type { DeviceEvent } from '../src/protocol/index.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../test/support/factories.ts';
import { createTestApp } from '../test/support/test-app.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:log-partitions` compares event logs in partitions by week with the same rows in one table as it was
 * before (its keys, indexes, trigger and statements), in one run and in turn: storing events, lists and searches over
 * HTTP, and the end of a month of rows while events are stored. `BENCH_ROWS` (1,000,000) events are spread over 1,000 devices and
 * 13 weeks.
 */

const ROWS = Number(process.env['BENCH_ROWS'] ?? 1_000_000);
const DEVICES = 1000;
/** There are as many lines of agents' logs as events divided by this. */
const LINES_PART = ROWS > 1_000_000 ? 10 : 1;
const WEEKS = 13;
const GROUP = 100;
const ROUNDS = 200;
const LISTS = 200;
const [EVENTS] = LOG_KINDS;
if (EVENTS === undefined) throw new Error('no kinds of logs');

const database = await createTestDatabase({ durable: true });
const app = await createTestApp({ database });
const db = openPool(database.appUrl, { max: 1, name: 'bench-logs' });
const owner = <Row extends object>(sql: string, values?: unknown[]) =>
  asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);

const quantile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? 0;
const short = (value: number) => Math.round(value * 100) / 100;

const position = async () => {
  const [row] = await owner<{ at: string }>('select pg_current_wal_insert_lsn()::text as at');
  return row?.at ?? '0/0';
};
const walSince = async (at: string) => {
  const [row] = await owner<{ bytes: number }>(
    'select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)::float8 as bytes',
    [at],
  );
  return row?.bytes ?? 0;
};
const bytesOf = async (table: string) => {
  const [row] = await owner<{ bytes: number }>(
    `select sum(pg_total_relation_size(relid))::float8 as bytes from (
      select relid from pg_partition_tree('${table}') union select '${table}'::regclass) tables`,
  );
  return row?.bytes ?? 0;
};

/** Takes the former tables away, which are the partitions of the first days, and makes plain ones like them. */
async function makeTables(): Promise<void> {
  for (const [plain, former, recent] of [
    ['plain_events', 'device_event_logs', 'event_logs_recent'],
    ['plain_lines', 'agent_logs', 'diagnostic_logs_recent'],
  ]) {
    await owner(`alter table ${recent} detach partition ${former};
      alter table ${former} drop constraint ${former}_org_id_device_id_fkey;
      drop trigger ${former}_later on ${former};
      drop index if exists device_event_logs_known;
      alter table ${former} rename to ${plain};
      alter table ${plain} add foreign key (org_id, device_id) references devices (org_id, id) on delete cascade on update cascade;
      select add_partitions('${recent}', now() - interval '${WEEKS} weeks', now() + interval '3 days')`);
  }
}

/** Rows of all weeks in the order in which they would have arrived. */
async function fill(orgId: string): Promise<string[]> {
  const ids = await owner<{ id: string }>(
    `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
    select new_row_id(), $1::uuid, (select id from sites where org_id = $1::uuid limit 1), 'bench-' || n, 'linux', '12',
      'x64', '1.0.0', now() - interval '100 days' from generate_series(1, ${DEVICES}) n returning id`,
    [orgId],
  );
  const perWeek = Math.ceil(ROWS / DEVICES / WEEKS);
  const linesPerWeek = Math.ceil(perWeek / LINES_PART);
  for (let week = WEEKS; week > 0; week -= 1) {
    for (const [table, count, what] of [
      [
        'event_logs',
        perWeek,
        `(id, device_id, org_id, "timestamp", level, category, source, event_id, message, details, created_at)
        select new_row_id(), d.id, d.org_id, at, (array['info','info','info','warning','error'])[1 + n % 5], 'system',
          'Service Control ' || n % 7, 'System:' || ((${WEEKS} - ${week}) * 100000 + n), 'The service ' || n || repeat(' entered the state', 7),
          jsonb_build_object('log', 'System', 'eventId', '7036'), at`,
      ],
      [
        'diagnostic_logs',
        linesPerWeek,
        `(id, device_id, org_id, "timestamp", level, component, message, created_at)
        select new_row_id(), d.id, d.org_id, at, 'info', 'hub', 'The socket ' || n || repeat(' was connected', 8), at`,
      ],
    ] as const) {
      await owner(`insert into ${table} ${what} from generate_series(1, ${count}) n
        cross join lateral (select now() - interval '${week} weeks' + n * interval '6 days' / ${count} as at) t
        cross join devices d where d.hostname like 'bench-%'`);
    }
  }
  for (const [plain, table] of [
    ['plain_events', 'event_logs'],
    ['plain_lines', 'diagnostic_logs'],
  ]) {
    await owner(`insert into ${plain} select * from ${table} order by created_at`);
    for (const each of [plain, table]) await owner(`vacuum analyze ${each}`);
  }
  await owner('checkpoint');
  return ids.map(({ id }) => id);
}

/** As it was: each row finds the unique key and the device by itself. */
const STORE_PLAIN = {
  name: 'bench-store-plain',
  text: `with device as (select id, org_id, hostname from devices where org_id = $1 and id = $2),
    stored as (
      insert into plain_events (id, device_id, org_id, "timestamp", level, category, source, event_id, message, details)
      select event.id, device.id, device.org_id, event."timestamp", event.level, event.category, event.source,
        event.event_id, event.message, event.details::jsonb
      from device cross join unnest($3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::text[], $10::text[]) with ordinality
        as event (id, "timestamp", level, category, source, event_id, message, details, place)
      order by event.place on conflict (device_id, source, event_id) do nothing returning 1
    )
    select hostname, (select count(*)::int from stored) as stored from device`,
};

const storePlain = (
  tx: Tx,
  { orgId, deviceId }: { orgId: string; deviceId: string },
  events: DeviceEvent[],
) =>
  runPrepared(tx, STORE_PLAIN, [
    orgId,
    deviceId,
    events.map(() => newId()),
    events.map(({ timestamp }) => timestamp),
    events.map(({ level }) => level),
    events.map(({ category }) => category),
    events.map(({ source }) => source),
    events.map(({ eventId }) => eventId ?? null),
    events.map(({ message }) => message),
    events.map(({ details }) => JSON.stringify(details)),
  ]);

let last = 90_000_000;
const batch = (count: number): DeviceEvent[] =>
  Array.from({ length: count }, (_, n) => ({
    timestamp: new Date().toISOString(),
    level: 'info',
    category: 'system',
    source: `Service Control ${n % 7}`,
    eventId: `System:${(last += 1)}`,
    message: `The service ${n}${' entered the state'.repeat(7)}`,
    details: { log: 'System', eventId: '7036' },
  }));

async function store(
  way: 'plain' | 'partitions',
  { orgId, deviceId }: { orgId: string; deviceId: string },
  events: DeviceEvent[],
): Promise<number> {
  const scope = {
    scope: 'organization',
    userId: null,
    partnerId: null,
    orgAccess: 'listed',
    orgIds: [orgId],
  } as const;
  const startedAt = performance.now();
  await withTenant(db, scope, async (tx) => {
    // What these functions read of the context of a request.
    const ctx = { tx, agent: { orgId, deviceId } } as AgentContext;
    if (way === 'partitions') await holdDevice(ctx);
    for (let from = 0; from < events.length; from += GROUP) {
      const group = events.slice(from, from + GROUP);
      await (way === 'plain' ? storePlain(tx, { orgId, deviceId }, group) : storeGroup(ctx, group));
    }
  });
  return performance.now() - startedAt;
}

async function ingest(orgId: string, ids: readonly string[]) {
  const figures: Record<string, string | number> = {};
  for (const count of [10, 100, 500]) {
    const times = { plain: [] as number[], partitions: [] as number[] };
    const wal = { plain: 0, partitions: 0 };
    await owner('checkpoint');
    for (let round = 0; round < ROUNDS / (count === 500 ? 4 : 1); round += 1) {
      for (const way of round % 2 === 0
        ? (['plain', 'partitions'] as const)
        : (['partitions', 'plain'] as const)) {
        const at = await position();
        const took = await store(
          way,
          { orgId, deviceId: ids[(round * 37) % ids.length] ?? '' },
          batch(count),
        );
        if (round >= 20) times[way].push(took);
        wal[way] += await walSince(at);
      }
    }
    const rows = count * (ROUNDS / (count === 500 ? 4 : 1));
    const [plain, partitions] = [quantile(times.plain, 0.5), quantile(times.partitions, 0.5)];
    figures[`${count} events stored: ms plain, in partitions (p50)`] =
      `${short(plain)} / ${short(partitions)}`;
    figures[`${count} events stored: ratio p50`] = short(partitions / plain);
    figures[`${count} events stored: WAL bytes a row, plain and in partitions`] =
      `${Math.round(wal.plain / rows)} / ${Math.round(wal.partitions / rows)}`;
  }
  return figures;
}

/** Whole requests of an agent, to see what share of them the statements are. */
async function requests({ deviceId, token }: EnrolledDevice) {
  const times: number[] = [];
  for (let n = 0; n < ROUNDS; n += 1) {
    const startedAt = performance.now();
    const { status } = await app.call('PUT', `/agents/${deviceId}/eventlogs`, {
      token,
      body: { events: batch(10) },
    });
    if (status === 200 && n >= 20) times.push(performance.now() - startedAt);
  }
  return { 'request with 10 events, in partitions: ms (p50)': short(quantile(times, 0.5)) };
}

async function lists(token: string, ids: readonly string[]) {
  const figures: Record<string, string | number> = {};
  const week = new Date(Date.now() - 7 * 86_400_000).toISOString();
  for (const [name, path] of [
    ['events of a device', 'eventlogs'],
    [
      'warnings of a source in a week',
      `eventlogs?level=warning,error&source=Service%20Control%203&startDate=${week}`,
    ],
    ['search in the agent’s log', 'diagnostic-logs?search=socket%2011'],
  ]) {
    const times = { plain: [] as number[], partitions: [] as number[] };
    for (let n = 0; n < LISTS; n += 1) {
      for (const way of ['plain', 'partitions'] as const) {
        StoredEvent.tableName = way === 'plain' ? 'plain_events' : 'event_logs';
        DiagnosticLog.tableName = way === 'plain' ? 'plain_lines' : 'diagnostic_logs';
        const startedAt = performance.now();
        const { status, body } = await app.call('GET', `/devices/${ids[(n * 37) % ids.length]}/${path}`, {
          token,
        });
        if (n >= 20) times[way].push(performance.now() - startedAt);
        if (status !== 200) throw new Error(JSON.stringify(body));
      }
    }
    for (const share of [0.5, 0.99]) {
      const [plain, partitions] = [quantile(times.plain, share), quantile(times.partitions, share)];
      figures[`${name}: p${share * 100} ms plain, in partitions, ratio`] =
        `${short(plain)} / ${short(partitions)} / ${short(partitions / plain)}`;
    }
  }
  return figures;
}

/** Ends the oldest four weeks both ways, while events are stored. */
async function endOfMonth(orgId: string, ids: readonly string[]) {
  const over = new AbortController();
  const waits: number[] = [];
  let way: 'plain' | 'partitions' = 'partitions';
  const writing = (async () => {
    for (let n = 0; !over.signal.aborted; n += 1) {
      waits.push(await store(way, { orgId, deviceId: ids[n % ids.length] ?? '' }, batch(10)));
    }
  })();
  const pause = () => new Promise((resolve) => setTimeout(resolve, 3000));
  await pause();
  const alone = quantile(waits.splice(0), 1);
  const jobs = app.server.database.jobPool;
  const until = new Date(Date.now() - (WEEKS - 4) * 7 * 86_400_000);
  const partitions = await endedLogPartitions(jobs, EVENTS!, until);
  const [{ rows } = { rows: 0 }] = await owner<{ rows: number }>(
    'select count(*)::int as rows from event_logs where created_at < $1',
    [partitions.at(-1)?.ends],
  );
  let at = await position();
  let startedAt = performance.now();
  for (const partition of partitions) await dropLogPartition(jobs, EVENTS!, partition);
  const dropMs = performance.now() - startedAt;
  const dropWal = await walSince(at);
  const whileDropping = quantile(waits.splice(0), 1);
  way = 'plain';
  await pause();
  waits.length = 0;
  at = await position();
  startedAt = performance.now();
  let deleted = 0;
  for (;;) {
    const { rowCount } = await withSystem(jobs, 'bench', (tx) =>
      tx.raw<{ rowCount: number }>(
        `delete from plain_events where id in (select old.id from devices d join plain_events old on old.device_id = d.id
          where d.org_id = ? and old."timestamp" < ?::timestamptz and old.created_at < ?::timestamptz limit 5000)`,
        [orgId, partitions.at(-1)?.ends ?? until, partitions.at(-1)?.ends ?? until],
      ),
    );
    deleted += rowCount;
    if (rowCount < 5000) break;
  }
  const deleteMs = performance.now() - startedAt;
  over.abort();
  await writing;
  return {
    [`${partitions.length} partitions of ${rows} rows dropped: ms`]: Math.round(dropMs),
    'dropped: kB of WAL, with that of the writes meanwhile': Math.round(dropWal / 1000),
    'longest write of ten events before, and while dropping: ms': `${short(alone)} / ${short(whileDropping)}`,
    [`${deleted} rows deleted one by one: ms`]: Math.round(deleteMs),
    'deleted: kB of WAL, with that of the writes meanwhile': Math.round((await walSince(at)) / 1000),
    'longest write while deleting: ms': short(quantile(waits, 1)),
  };
}

try {
  const tenant = await buildTenant(app);

  await makeTables();
  await owner('grant delete on plain_events to svc_system');
  const ids = await fill(tenant.orgId);
  const sizes = {
    rows: ROWS,
    'bytes a row with indexes, plain and in partitions': `${Math.round((await bytesOf('plain_events')) / ROWS)} / ${Math.round((await bytesOf('event_logs')) / ROWS)}`,
  };
  const all = {
    ...sizes,
    ...(await ingest(tenant.orgId, ids)),
    ...(await requests(await buildDevice(app, tenant.orgId))),
    ...(await lists(tenant.admin.token, ids)),
    ...(await endOfMonth(tenant.orgId, ids)),
  };
  console.table(all);
  console.log(JSON.stringify(all));
} finally {
  await db.destroy();
  await app.close();
  await database.drop();
  await stopTestPostgres();
}
