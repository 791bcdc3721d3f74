import { readFile } from 'node:fs/promises';
import { packBlock } from '../src/features/metrics/block.ts';
import { packSamples, sumUpDays } from '../src/features/metrics/metric.job.ts';
import { dropPartitions, putBlocks, type StoredBlock } from '../src/features/metrics/metric.queries.ts';
import { joinHours } from '../src/features/metrics/metric-days.job.ts';
import { blocksByHour } from '../src/features/metrics/series.ts';
import { createMetricStore } from '../src/features/metrics/index.ts';
import type { MetricReport } from '../src/hub/ports.ts';
import { openPool } from '../src/platform/db/pool.ts';
import { withSystem } from '../src/platform/db/transaction.ts';
import { createMetrics } from '../src/platform/metrics.ts';
import { type MetricSample, MetricSamples } from '../src/protocol/index.ts';
import { buildTenant } from '../test/support/factories.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { createTestApp } from '../test/support/test-app.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:metrics` measures the metric history on a database of its own. It adds the samples of 500 devices, five
 * in a message as agents send them, and packs them; the baseline inserts the same samples each minute into a table with
 * a row for each, in one statement for all devices. Then it sums up and joins whole days of 500 devices, and measures bytes
 * on disk with indexes before and after; charts of one of 1,000 devices with 7 days each, as hours and joined in turn; and
 * how long writes wait while partitions are dropped. Processor time is that of this process and of the database session
 * together. `npm run bench:metrics -- 10` has a tenth of the devices.
 */

const SCALE = Number(process.argv[2] ?? 1);
const DEVICES = 500;
const MINUTES = 60;
const SENT_TOGETHER = 5;
const DAY_DEVICES = 500 / SCALE;
const CHART_DEVICES = 1000 / SCALE;
const CHART_DAYS = 7;
const CHARTS = 200;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const database = await createTestDatabase({ durable: true });
const app = await createTestApp({ database });
const db = openPool(database.appUrl, { max: 1, name: 'bench-metrics' });
const owner = <Row extends object>(sql: string, values?: unknown[]) =>
  asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);
const store = createMetricStore({ db, log: quietLog, metrics: createMetrics() });

/** A machine at work: figures that wander, two volumes that fill, and a busy process in some minutes. */
function wanderer(seed: number) {
  let state = seed + 1;
  const random = () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  const near = (value: number, step: number, max: number) =>
    Math.min(max, Math.max(0, value + (random() - 0.5) * step));
  let [cpu, ram, load, read] = [10, 50, 0.5, 50_000];
  return (at: number): MetricSample => {
    [cpu, ram, load, read] = [
      near(cpu, 10, 100),
      near(ram, 1, 100),
      near(load, 0.3, 8),
      near(read, 20_000, 1e7),
    ];
    const minute = at / MINUTE;
    return {
      at: new Date(at).toISOString(),
      cpuPercent: Math.round(cpu * 10) / 10,
      ramPercent: Math.round(ram * 10) / 10,
      swapPercent: 3,
      load: Math.round(load * 100) / 100,
      uptimeSeconds: Math.round(at / 1000) - 1_700_000_000,
      networkReceivedPerSecond: Math.round(random() * 40_000),
      networkSentPerSecond: Math.round(random() * 20_000),
      diskReadPerSecond: Math.round(read),
      diskWrittenPerSecond: Math.round(random() * 90_000),
      volumes: ['/', '/data'].map((volume, n) => ({
        volume,
        usedBytes: Math.round((40 + n * 7) * 2 ** 30 + (minute % 100_000) * 2 ** 17),
        totalBytes: 500 * 2 ** 30,
      })),
      ...(random() < 0.3 ? { processes: [{ process: 'postgres', cpuPercent: cpu, ramPercent: 12 }] } : {}),
    };
  };
}

/** A machine in an office that does next to nothing, but for a few hours of mail. */
function idler(seed: number) {
  let state = seed + 1;
  const random = () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  let ram = 40;
  return (at: number): MetricSample => {
    const minute = Math.floor(at / MINUTE) % 1440;
    const isUsed = minute > 480 && minute < 1020 && random() < 0.3;
    ram = Math.min(90, Math.max(10, ram + (random() < 0.1 ? (random() - 0.5) * (isUsed ? 4 : 0.4) : 0)));
    // Most minutes bring a few packets; some bring a mail with what is attached to it.
    const burst = (most: number) => Math.round(most * random() ** (isUsed ? 3 : 12));
    return {
      at: new Date(at).toISOString(),
      cpuPercent: Math.round((0.4 + random() ** 3 * 2 + (isUsed ? random() * 20 : 0)) * 10) / 10,
      ramPercent: Math.round(ram * 10) / 10,
      swapPercent: 0,
      uptimeSeconds: Math.round(at / 1000) - 1_700_000_000,
      networkReceivedPerSecond: 300 + burst(500_000),
      networkSentPerSecond: 200 + burst(60_000),
      diskReadPerSecond: random() < 0.8 ? 0 : burst(2_000_000),
      diskWrittenPerSecond: 2000 + burst(400_000),
      volumes: [{ volume: 'C:', usedBytes: 90 * 2 ** 30 + minute * 2 ** 14, totalBytes: 256 * 2 ** 30 }],
    };
  };
}

/** Processor time in seconds, of this process and of the session of `db`. */
async function processorSeconds(): Promise<number> {
  const { rows } = await db.raw('select pg_backend_pid() as pid');
  const fields = (await readFile(`/proc/${rows[0].pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? [];
  const { user, system } = process.cpuUsage();
  return (Number(fields[11]) + Number(fields[12])) / 100 + (user + system) / 1e6;
}

async function measured(samples: number, work: () => Promise<void>): Promise<number> {
  const before = await processorSeconds();
  await work();
  return Math.round(samples / ((await processorSeconds()) - before));
}

const sizeOf = async (table: string) => {
  const [row] = await owner<{ bytes: number }>(
    `select sum(pg_total_relation_size(relid))::float8 as bytes from pg_partition_tree('${table}')`,
  );
  return row?.bytes ?? 0;
};

const quantile = (values: readonly number[], share: number) =>
  Math.round((values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? 0) * 10) / 10;

async function addDevices(orgId: string, count: number): Promise<string[]> {
  const rows = await owner<{ id: string }>(
    `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
    select new_row_id(), $1::uuid, (select id from sites where org_id = $1::uuid limit 1), 'bench-' || n, 'linux', '12', 'x64',
      '1.0.0', now() - interval '30 days' from generate_series(1, ${count}) n returning id`,
    [orgId],
  );
  return rows.map(({ id }) => id);
}

/** Adds an hour of samples, and packs them. Returns samples per second of processor time, and bytes. */
async function ingest(orgId: string) {
  const ids = await addDevices(orgId, DEVICES);
  const begin = Math.floor(Date.now() / HOUR) * HOUR - 2 * HOUR;
  const machines = ids.map((_id, n) => wanderer(n));
  // As they come from the socket.
  const minutes = Array.from({ length: MINUTES }, (_, minute) =>
    machines.map((machine) => MetricSamples.parse({ samples: [machine(begin + minute * MINUTE)] }).samples),
  );
  const batchesOf = (together: number) =>
    Array.from({ length: MINUTES / together }, (_, batch) =>
      ids.map(
        (deviceId, n): MetricReport => ({
          deviceId,
          samples: minutes
            .slice(batch * together, (batch + 1) * together)
            .flatMap((minute) => minute[n] ?? []),
        }),
      ),
    );
  const total = DEVICES * MINUTES;
  const plain = await measured(total, async () => {
    for (const batch of batchesOf(1)) await insertRows(orgId, batch);
  });
  const added = await measured(total, async () => {
    for (const batch of batchesOf(SENT_TOGETHER)) await store.record(batch);
  });
  const samplesBytes = await sizeOf('metric_samples');
  await owner(`select add_partitions('metric_samples', now() - interval '3 hours', now())`);
  await owner(`update metric_samples set arrived_at = arrived_at - interval '2 hours'`);
  const before = new Date(begin + 2 * HOUR);
  const packed = await measured(total, async () => void (await packSamples(db, before)));
  const rows = DEVICES * (MINUTES / 1440);
  const [plainSize] = await owner<{ bytes: number }>(
    `select pg_total_relation_size('plain_samples')::float8 as bytes`,
  );
  const kib = (bytes: number) => Math.round(bytes / rows / 102.4) / 10;
  const both = Math.round(1 / (1 / added + 1 / packed));
  return {
    'plain rows: samples a second of processor time': plain,
    'added: samples a second of processor time': added,
    'packed: samples a second of processor time': packed,
    'added and packed': both,
    'ratio added to plain rows': Math.round((added / plain) * 100) / 100,
    'ratio added and packed to plain rows': Math.round((both / plain) * 100) / 100,
    'plain rows: KiB a device-day': kib(plainSize?.bytes ?? 0),
    'before packing: KiB a device-day': kib(samplesBytes),
    'packed: KiB a device-day': kib(await sizeOf('metric_minutes')),
  };
}

/** The baseline: a row for each sample, in one statement for a batch. */
async function insertRows(orgId: string, reports: readonly MetricReport[]): Promise<void> {
  const rows = reports.flatMap(({ deviceId, samples }) =>
    samples.map((sample) => ({ device_id: deviceId, org_id: orgId, ...sample })),
  );
  await db.raw(
    `insert into plain_samples select * from jsonb_to_recordset(?::jsonb) as s (device_id uuid, org_id uuid, at timestamptz,
      "cpuPercent" real, "ramPercent" real, "swapPercent" real, load real, "uptimeSeconds" bigint,
      "networkReceivedPerSecond" bigint, "networkSentPerSecond" bigint, "diskReadPerSecond" bigint,
      "diskWrittenPerSecond" bigint, volumes jsonb, processes jsonb)`,
    [JSON.stringify(rows)],
  );
}

/** Sums up and joins a whole day of machines, and returns bytes before and after, and the processor time of both. */
async function wholeDays(
  orgId: string,
  name: string,
  machineOf: (seed: number) => (at: number) => MetricSample,
) {
  await owner('truncate metric_minutes, metric_days, metric_quarters, metric_hours');
  await owner(`update metric_progress set summed_up_until = '-infinity'`);
  const ids = await addDevices(orgId, DAY_DEVICES);
  const begin = Math.floor(Date.now() / DAY) * DAY - 4 * DAY;
  await owner(`select add_partitions('metric_minutes', $1, $1)`, [new Date(begin)]);
  const byHour: StoredBlock[][] = Array.from({ length: 24 }, () => []);
  let figures = 0;
  for (const [n, deviceId] of ids.entries()) {
    const machine = machineOf(n);
    const samples = Array.from({ length: 1440 }, (_, minute) => ({
      at: begin + minute * MINUTE,
      sample: machine(begin + minute * MINUTE),
    }));
    for (const [at, block] of blocksByHour(samples)) {
      figures += block.series.reduce((sum, { slots }) => sum + slots.length, 0);
      byHour[(at - begin) / HOUR]?.push({
        deviceId,
        beginsAt: new Date(at),
        block: packBlock(block, { hasRange: false }),
      });
    }
  }
  // As they are packed: an hour of all devices after the other.
  for (const hour of byHour) {
    for (let from = 0; from < hour.length; from += 50) {
      await withSystem(db, 'fill', (tx) => putBlocks(tx, 'metric_minutes', hour.slice(from, from + 50)));
    }
  }
  const kib = async (table: string) => Math.round((await sizeOf(table)) / ids.length / 102.4) / 10;
  const inBlocks = async (table: string) => {
    const [row] = await owner<{ bytes: number }>(`select sum(length(block))::float8 as bytes from ${table}`);
    return Math.round((row?.bytes ?? 0) / ids.length / 102.4) / 10;
  };
  /** Empty partitions have pages of their own. */
  const empty = Object.fromEntries(
    await Promise.all(
      ['metric_days', 'metric_quarters', 'metric_hours'].map(
        async (table) => [table, await kib(table)] as const,
      ),
    ),
  );
  const hours = `${await kib('metric_minutes')}, of which in blocks ${await inBlocks('metric_minutes')}`;
  const until = new Date(Math.floor(Date.now() / DAY) * DAY - DAY);
  const before = await processorSeconds();
  await sumUpDays(db, until);
  const between = await processorSeconds();
  await joinHours(db, Date.now());
  const after = await processorSeconds();
  const net = async (table: string) => Math.round(10 * ((await kib(table)) - (empty[table] ?? 0))) / 10;
  const ms = (from: number, to: number) => Math.round(((to - from) * 10_000) / ids.length) / 10;
  return {
    [`${name}: figures a minute`]: Math.round((figures / ids.length / 1440) * 10) / 10,
    [`${name}, as hours: KiB a device-day`]: hours,
    [`${name}, joined: KiB a device-day`]: `${await net('metric_days')}, of which in blocks ${await inBlocks('metric_days')}`,
    [`${name}, summed up in quarters, and in hours: KiB a device-day`]: `${await net('metric_quarters')}, ${await net('metric_hours')}`,
    [`${name}: ms of processor time a device-day to sum up, and to join`]: `${ms(before, between)}, ${ms(between, after)}`,
  };
}

/** Devices with 7 days of minutes, made of the hours that were packed. */
async function chartDevices(orgId: string, blocks: readonly Buffer[]): Promise<string[]> {
  const ids = await addDevices(orgId, CHART_DEVICES);
  await owner(`select add_partitions('metric_minutes', now() - interval '${CHART_DAYS + 1} days', now())`);
  await owner(
    `insert into metric_minutes (device_id, org_id, begins_at, block)
    select d.id, d.org_id, hour, ($2::bytea[])[1 + (random() * ${blocks.length - 1})::int]
    from unnest($1::uuid[]) as id join devices d on d.id = id.id,
      generate_series(date_trunc('hour', now()) - interval '${CHART_DAYS} days', date_trunc('hour', now()) - interval '1 hour',
        interval '1 hour') hour`,
    [ids, blocks],
  );
  return ids;
}

interface Tenant {
  orgId: string;
  token: string;
}

/**
 * Charts over HTTP, and previews of an alert rule, in turn of an organization whose days are hours and of one whose days are
 * joined.
 */
async function charts(tenants: Record<'inHours' | 'joined', Tenant>, blocks: readonly Buffer[]) {
  const joined = await chartDevices(tenants.joined.orgId, blocks);
  await owner('update metric_progress set summed_up_until = now()');
  await joinHours(db, Date.now());
  const ids = { joined, inHours: await chartDevices(tenants.inHours.orgId, blocks) };
  await owner('vacuum analyze metric_minutes');
  await owner('vacuum analyze metric_days');
  const figures: Record<string, string> = {};
  const inTurn = async (
    name: string,
    count: number,
    call: (kind: keyof typeof tenants, n: number) => Promise<void>,
  ) => {
    const times = { inHours: [] as number[], joined: [] as number[] };
    for (let n = 0; n < count; n += 1) {
      for (const kind of ['inHours', 'joined'] as const) {
        const startedAt = performance.now();
        await call(kind, n);
        times[kind].push(performance.now() - startedAt);
      }
    }
    for (const [kind, found] of Object.entries(times)) {
      figures[`${name}, ${kind}: p50 and p95 ms`] = `${quantile(found, 0.5)} / ${quantile(found, 0.95)}`;
    }
  };
  for (const [name, daysAgo, days, points] of [
    ['the last day in 300 points', 0, 1, 300],
    ['an earlier day in 300 points', 3, 1, 300],
    ['7 days in 700 points', 0, 7, 700],
  ] as const) {
    const to = Date.now() - daysAgo * DAY;
    const range = `from=${new Date(to - days * DAY).toISOString()}&to=${new Date(to).toISOString()}`;
    await inTurn(`chart of ${name}`, CHARTS, async (kind, n) => {
      const { status, body } = await app.call(
        'GET',
        `/devices/${ids[kind][(n * 37) % CHART_DEVICES]}/metrics?${range}&points=${points}&metrics=cpuPercent,ramPercent,volumeUsedBytes`,
        { token: tenants[kind].token },
      );
      if (status !== 200 || body.series.length < 3) throw new Error(JSON.stringify(body));
    });
  }
  await inTurn('preview of an alert rule', 5, async (kind) => {
    const { orgId, token } = tenants[kind];
    const condition = {
      kind: 'metric',
      metric: 'cpuPercent',
      operator: 'greaterThan',
      threshold: 99,
      forMinutes: 5,
    };
    const { status, body } = await app.call('POST', '/alert-rules/preview', {
      token,
      body: { orgId, target: { all: true }, condition },
    });
    if (status !== 200) throw new Error(JSON.stringify(body));
    figures['preview of an alert rule: devices'] = String(body.examined);
  });
  return { ids: ids.inHours, figures };
}

/** Drops the oldest days while devices send their samples. */
async function dropWhileWriting(ids: readonly string[]) {
  const waits: number[] = [];
  const over = new AbortController();
  const machines = ids.slice(0, DEVICES).map((_id, n) => wanderer(n));
  const writing = (async () => {
    while (!over.signal.aborted) {
      const at = Date.now();
      const startedAt = performance.now();
      await store.record(machines.map((machine, n) => ({ deviceId: ids[n] ?? '', samples: [machine(at)] })));
      waits.push(performance.now() - startedAt);
    }
  })();
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const alone = quantile(waits.splice(0), 1);
  const startedAt = performance.now();
  const dropped = await dropPartitions(
    app.server.database.jobPool,
    'metric_minutes',
    new Date(Date.now() - 2 * 24 * HOUR),
  );
  const ms = performance.now() - startedAt;
  await new Promise((resolve) => setTimeout(resolve, 300));
  over.abort();
  await writing;
  return {
    [`${dropped} partitions dropped in ms`]: Math.round(ms),
    'longest write before, and meanwhile, in ms': `${alone} / ${quantile(waits, 1)}`,
  };
}

try {
  await owner(`create table plain_samples (device_id uuid not null, org_id uuid not null, at timestamptz(3) not null,
    cpu real, ram real, swap real, load real, uptime bigint, received bigint, sent bigint, disk_read bigint,
    disk_written bigint, volumes jsonb, processes jsonb, primary key (device_id, at));
    grant insert on plain_samples to svc_app`);
  const tenant = await buildTenant(app);
  const sizes = await ingest(tenant.orgId);
  const packed = await owner<{ block: Buffer }>('select block from metric_minutes limit 100');
  const idle = await wholeDays(tenant.orgId, 'a day of idle machines', idler);
  const days = await wholeDays(tenant.orgId, 'a day of machines at work', wanderer);
  const blocks = packed.map(({ block }) => block);
  const other = await buildTenant(app);
  const another = await buildTenant(app);
  const { ids, figures } = await charts(
    {
      inHours: { orgId: another.orgId, token: another.admin.token },
      joined: { orgId: other.orgId, token: other.admin.token },
    },
    blocks,
  );
  const dropping = await dropWhileWriting(ids);
  const all = { ...sizes, ...days, ...idle, ...figures, ...dropping };
  console.table(all);
  console.log(JSON.stringify(all));
} finally {
  await db.destroy();
  await app.close();
  await database.drop();
  await stopTestPostgres();
}
