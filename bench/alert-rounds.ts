import { AlertRounds } from '../src/features/alert-rules/alert-rule.work.ts';
import { raiseOffline, resolveOffline } from '../src/features/alert-rules/offline.queries.ts';
import { openPool } from '../src/platform/db/pool.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:alert-rounds` measures alert rounds over 1,000,000 devices, of which 200,000 are offline with an
 * alert and 40,000 have full disks: short rounds, which read changes only, and full rounds. For comparison it counts
 * the table that a round without an index would read. Then it measures heartbeats with and without the indexes that
 * rounds need.
 */

const DEVICES = 1_000_000;
const ORGANIZATIONS = 200;
const TURNS = 5;
const HEARTBEATS = 100_000;

interface Heartbeats {
  rowsASecond: number;
  heapOnly: string;
}

const WITHOUT_INDEXES = `
  drop index device_presence_by_change, device_presence_full_disks;
  alter table device_presence drop column disk_over`;
/** As migrations/0007_devices.sql creates them. They exist when the bench starts. */
const WITH_INDEXES = `
  alter table device_presence add column if not exists disk_over smallint
    generated always as (case when disk_percent >= 50 then trunc(disk_percent)::smallint end) stored;
  create index if not exists device_presence_by_change on device_presence (state, (greatest(since, reports_until)));
  create index if not exists device_presence_full_disks on device_presence (disk_over) where disk_over is not null`;

const database = await createTestDatabase({ durable: true });
const db = openPool(database.appUrl, { max: 2, name: 'bench' });
const owner = <Row extends object>(sql: string, values?: unknown[]) =>
  asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);
const rounds = new AlertRounds({ db, log: quietLog, timing: { everyMs: 0, wholeEveryMs: 3_600_000 } });

try {
  await seed();
  const figures: Record<string, { ms: number; raised: number; resolved: number }> = {};
  // Raises alerts for all devices that are offline, so that the later rounds start from the usual state.
  figures['full round, all alerts new'] = await round('whole');
  await owner('vacuum analyze alerts');
  figures['short round, no changes'] = await median(() => round('short'));
  figures['full round, nothing new'] = await median(() => round('whole'));
  figures['short round, 1,000 devices passed their threshold'] = await median(async () => {
    await owner(`update device_presence set state = 'disconnected', since = now() - interval '1805 seconds'
      where device_id in (select device_id from device_presence where state = 'connected' limit 1000)`);
    return round('short');
  });
  figures['short round, 1,000 devices came back'] = await median(async () => {
    await owner(`update device_presence set state = 'connected', since = now() - interval '125 seconds'
      where device_id in (select device_id from alerts where status = 'active' and kind = 'device_offline' limit 1000)`);
    return round('short');
  });
  console.table(figures);
  const counted = await median(async () => {
    const startedAt = performance.now();
    await owner(
      `select count(*) from device_presence where state = 'disconnected' and last_seen_at < now() - interval '30 minutes'`,
    );
    return { ms: performance.now() - startedAt, raised: 0, resolved: 0 };
  });
  console.log(`count without an index: ${counted.ms.toFixed(0)} ms`);
  for (const [name, sql] of Object.entries({ raise: raiseOffline(false), resolve: resolveOffline(false) })) {
    if (process.argv.includes('--explain')) await explain(name, sql);
  }
  // Alternating, on a table that is rewritten each time.
  const writes: Record<string, Heartbeats[]> = { 'with the indexes for alerts': [], 'without them': [] };
  for (let turn = 0; turn < 3; turn++) {
    for (const [name, all] of Object.entries(writes)) {
      await owner(name === 'without them' ? WITHOUT_INDEXES : WITH_INDEXES);
      await owner('vacuum full analyze device_presence');
      all.push(await heartbeats());
    }
  }
  const heartbeatWrites = Object.fromEntries(
    Object.entries(writes).map(([name, all]) => [
      name,
      all.toSorted((x, y) => x.rowsASecond - y.rowsASecond)[1],
    ]),
  );
  console.table(heartbeatWrites);
  console.log(
    JSON.stringify({ devices: DEVICES, turns: TURNS, figures, counted: counted.ms, heartbeatWrites }),
  );
} finally {
  await db.destroy();
  await database.drop();
  await stopTestPostgres();
}

async function seed(): Promise<void> {
  await owner(`set session_replication_role = replica;
    insert into partners (id, name, slug, status) select gen_random_uuid(), 'P' || n, 'p' || n, 'active' from generate_series(1, 20) n;
    insert into organizations (id, partner_id, name, slug)
      select gen_random_uuid(), (select id from partners where slug = 'p' || (1 + n % 20)), 'O' || n, 'o' || n
      from generate_series(1, ${ORGANIZATIONS}) n;
    select add_first_alert_rules(id, partner_id, case when substr(slug, 2)::int % 4 = 0
      then (array[5, 15, 60, 1440, null])[1 + (substr(slug, 2)::int / 4) % 5] else 30 end, 95) from organizations;
    update alert_rules set updated_at = now() - interval '1 hour';
    insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
      select new_row_id(), o.id, o.id, 'desk-' || o.slug || '-' || n, 'windows', '11', 'x64', '1.0.0', now()
      from organizations o, generate_series(1, ${DEVICES / ORGANIZATIONS}) n;
    insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at, cpu_percent, ram_percent, disk_percent, metrics_at)
      select id, org_id, 1, 'n', case when n % 5 = 0 then 'disconnected' else 'connected' end,
        now() - make_interval(secs => 600 + random() * 900000), case when n % 5 = 0 then 'socket_closed' else 'connected' end,
        now(), 5, 50, 15 + random() * 79, now() + interval '1 hour'
      from (select id, org_id, row_number() over () as n from devices) d;`);
  await owner('vacuum analyze');
}

async function round(form: 'short' | 'whole') {
  await owner(`update alert_rounds set through = now() - interval '30 seconds', watched_since = now() - interval '50 minutes',
    whole_at = ${form === 'whole' ? `'-infinity'` : 'now()'}`);
  const startedAt = performance.now();
  const done = await rounds.round();
  if (done?.isWhole !== (form === 'whole')) throw new Error(`expected a ${form} round, but another kind ran`);
  return { ms: Math.round(performance.now() - startedAt), raised: done.raised, resolved: done.resolved };
}

async function median<T extends { ms: number }>(run: () => Promise<T>): Promise<T> {
  const all: T[] = [];
  for (let turn = 0; turn < TURNS; turn++) all.push(await run());
  return all.toSorted((a, b) => a.ms - b.ms)[Math.floor(TURNS / 2)] as T;
}

async function explain(name: string, sql: string): Promise<void> {
  const rows = await owner<{ 'QUERY PLAN': string }>(`explain (analyze, buffers, costs off) ${sql}`);
  console.log(`-- ${name}\n${rows.map((row) => row['QUERY PLAN']).join('\n')}`);
}

/** Writes heartbeats as the hub does: in batches of a thousand, with slightly changed metrics. */
async function heartbeats(): Promise<Heartbeats> {
  const hot = async () => {
    await owner('select pg_stat_force_next_flush()');
    const [row] = await owner<{ hot: string; all: string }>(
      `select n_tup_hot_upd as hot, n_tup_upd as all from pg_stat_user_tables where relname = 'device_presence'`,
    );
    return [Number(row?.hot), Number(row?.all)] as const;
  };
  const rows = await owner<{ id: string }>(
    `select device_id as id from device_presence where state = 'connected' order by device_id limit ${HEARTBEATS}`,
  );
  const [hotBefore, allBefore] = await hot();
  const startedAt = performance.now();
  for (let at = 0; at < rows.length; at += 1000) {
    await owner(
      `update device_presence p set epoch = p.epoch, state = p.state, since = p.since, last_seen_at = now(),
        cpu_percent = random() * 100, disk_percent = least(100, disk_percent + random() * 0.02), metrics_at = now(), reports_until = null
      where device_id = any($1::uuid[])`,
      [rows.slice(at, at + 1000).map(({ id }) => id)],
    );
  }
  const seconds = (performance.now() - startedAt) / 1000;
  const [hotAfter, allAfter] = await hot();
  return {
    rowsASecond: Math.round(rows.length / seconds),
    heapOnly: `${((100 * (hotAfter - hotBefore)) / (allAfter - allBefore)).toFixed(1)} %`,
  };
}
