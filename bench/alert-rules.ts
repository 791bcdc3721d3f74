import { readFileSync } from 'node:fs';
import { AlertRounds } from '../src/features/alert-rules/alert-rule.work.ts';
import { FigureWatch, RuleBook } from '../src/features/alert-rules/index.ts';
import { createAuditTrail } from '../src/features/audit/index.ts';
import { createDeviceStore } from '../src/features/devices/index.ts';
import { createMetricStore } from '../src/features/metrics/index.ts';
import { packBlock } from '../src/features/metrics/block.ts';
import { addPartitions, putBlocks, type StoredBlock } from '../src/features/metrics/metric.queries.ts';
import { blocksByHour } from '../src/features/metrics/series.ts';
import { withSystem } from '../src/platform/db/transaction.ts';
import type { MetricReport, PresenceRecord } from '../src/hub/ports.ts';
import { openPool } from '../src/platform/db/pool.ts';
import { createMetrics } from '../src/platform/metrics.ts';
import { type MetricSample, MetricSamples } from '../src/protocol/index.ts';
import { buildTenant } from '../test/support/factories.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { createTestApp } from '../test/support/test-app.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';
import { startCluster } from './hub/cluster.ts';

/**
 * `npm run bench:alert-rules` measures alert rules on a database of its own: what 10,000 rules over 100,000 devices add to
 * the path of heartbeats and samples, from the socket to the database, in processor time; how long rounds take; and whether
 * a preview finds what was raised, over the last days of some devices that are replayed.
 *
 * The path has two parts, which are measured one after the other: a hub without a database that answers heartbeats of
 * connected devices, and storing these heartbeats and the samples. The messages of samples are not part of the first.
 */

const ORGANIZATIONS = 100;
const DEVICES = 100_000;
const RULES_EACH = 100;
/** Heartbeats of a second: each device sends one a minute. */
const HEARTBEATS = 1700;
/** What a hub needs for a heartbeat is measured with so many connected devices, and heartbeats in progress. */
const HUB = { devices: 4000, inFlight: 100, warmUpSeconds: 4, seconds: 5, turns: 3 };
/** Agents send the samples of five minutes in one message. */
const SAMPLES_TOGETHER = 5;
/** The part of the fleet that sends something: so many seconds of a minute. */
const SECONDS = 12;
const WARM_MINUTES = 12;
const MINUTES = 20;
const REPLAYED_DEVICES = 10;
const REPLAYED_DAYS = 7;
const MINUTE = 60_000;
const DAY = 1440 * MINUTE;

const database = await createTestDatabase({ durable: true });
const app = await createTestApp({ database });
const db = openPool(database.appUrl, { max: 1, name: 'bench-alert-rules' });
const sessionPid = await pidOfSession();
const owner = <Row extends object>(sql: string, values?: unknown[]) =>
  asOwner<Row & Record<string, unknown>>(database.ownerUrl, sql, values);
const book = new RuleBook({ db, log: quietLog });
const watch = new FigureWatch({ db, log: quietLog, book });
const rounds = new AlertRounds({ db, log: quietLog, timing: { everyMs: 0, wholeEveryMs: 3_600_000 } });
type StoredFigures = Parameters<FigureWatch['sampled']>[0][number];
const presence = createDeviceStore({
  db,
  nodeId: 'bench',
  audit: createAuditTrail({ wake() {} }),
  log: quietLog,
});

try {
  await seed();
  const startedAt = performance.now();
  await book.settle();
  const figures: Record<string, unknown> = {
    'reading 10,000 rules, ms': Math.round(performance.now() - startedAt),
    ...(await heartbeatPath()),
    ...(await roundTimes()),
    ...(await replay()),
  };
  console.table(figures);
  console.log(JSON.stringify({ devices: DEVICES, rules: ORGANIZATIONS * RULES_EACH, figures }));
} finally {
  await book.close();
  await db.destroy();
  await app.close();
  await stopTestPostgres();
}

/** Rules about processors, memory, disks, presence, events and software, of which most devices meet none and some several. */
async function seed(): Promise<void> {
  await owner(`set session_replication_role = replica;
    insert into partners (id, name, slug, status) select gen_random_uuid(), 'P' || n, 'bench-p' || n, 'active' from generate_series(1, 10) n;
    insert into organizations (id, partner_id, name, slug)
      select gen_random_uuid(), (select id from partners where slug = 'bench-p' || (1 + n % 10)), 'O' || n, 'bench-o' || n
      from generate_series(1, ${ORGANIZATIONS}) n;
    insert into alert_rules (id, partner_id, org_id, name, severity, target, condition, condition_kind, alert_kind)
      select new_row_id(), o.partner_id, o.id, 'Rule ' || n, (array['critical', 'high', 'medium', 'low', 'info'])[1 + n % 5],
        '{"all": true}', c.condition, c.condition ->> 'kind', c.alert_kind
      from organizations o, generate_series(1, ${RULES_EACH}) n cross join lateral (select
        case when n % 10 = 0 then jsonb_build_object('kind', 'offline', 'forMinutes', 5 * n)
          when n % 10 = 1 then jsonb_build_object('kind', 'event', 'source', 'S' || n, 'count', 3, 'withinMinutes', 10)
          when n % 10 = 2 then jsonb_build_object('kind', 'software', 'name', 'Program ' || n, 'change', 'installed')
          when n % 10 < 6 then jsonb_build_object('kind', 'metric', 'metric', 'diskPercent', 'operator', 'greaterThan',
            'threshold', 88 + n * 0.12, 'forMinutes', n)
          else jsonb_build_object('kind', 'metric', 'metric', (array['cpuPercent', 'ramPercent', 'load'])[1 + n % 3],
            'operator', 'greaterThan', 'threshold', 60 + n * 0.4, 'forMinutes', 1 + n % 15) end as condition,
        case when n % 10 = 0 then 'device_offline' when n % 10 = 1 then 'log_event_00000000' || lpad(n::text, 4, '0')
          when n % 10 = 2 then 'software_change_00000000' || lpad(n::text, 4, '0') when n % 10 < 6 then 'disk_full'
          else (array['cpu_high', 'memory_high', 'load_high'])[1 + n % 3] end as alert_kind) c
      where o.slug like 'bench-%';
    insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
      select new_row_id(), o.id, o.id, 'desk-' || o.slug || '-' || n, 'windows', '11', 'x64', '1.0.0', now()
      from organizations o, generate_series(1, ${DEVICES / ORGANIZATIONS}) n where o.slug like 'bench-%';
    insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at)
      select id, org_id, 1, 'bench', case when n % 20 = 0 then 'disconnected' else 'connected' end,
        now() - make_interval(secs => 600 + random() * 900000), case when n % 20 = 0 then 'socket_closed' else 'connected' end, now()
      from (select id, org_id, row_number() over () as n from devices) d;`);
  await owner('vacuum analyze');
}

async function pidOfSession(): Promise<number> {
  const { rows } = await db.raw<{ rows: [{ pid: number }] }>('select pg_backend_pid() as pid');
  return rows[0].pid;
}

/** Processor time in seconds, of this process and of the session of `db`. It asks neither of them, so that it adds little itself. */
function processorSeconds(): number {
  const fields = readFileSync(`/proc/${sessionPid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  const { user, system } = process.cpuUsage();
  return (Number(fields[11]) + Number(fields[12])) / 100 + (user + system) / 1e6;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

/** The figures of a machine at a time: most are well, one in fifty has a full disk, and processors are busy now and then. */
function sampleOf(device: number, at: number): MetricSample {
  const wave = (device * 7919 + Math.floor(at / (20 * MINUTE)) * 104_729) % 1000;
  const isBusy = wave < 5;
  return {
    at: new Date(at).toISOString(),
    cpuPercent: isBusy ? 92 + (wave % 8) : (wave % 400) / 10,
    ramPercent: 30 + (device % 40),
    load: 0.5,
    volumes: [
      { volume: 'C:', usedBytes: (device % 50 === 0 ? 93 : 35) * 2 ** 30, totalBytes: 100 * 2 ** 30 },
      { volume: 'D:', usedBytes: 20 * 2 ** 30, totalBytes: 500 * 2 ** 30 },
    ],
  };
}

/** The heartbeats of devices, and the samples of those of them that send theirs in this minute. */
function sentBy(ids: readonly string[], begin: number, minute: number) {
  const now = begin + minute * MINUTE;
  const heard = ids.map(
    (deviceId, n): PresenceRecord => ({
      deviceId,
      epoch: 1,
      presence: { state: 'connected', since: new Date(begin - DAY).toISOString(), reason: 'connected' },
      lastSeenAt: new Date(now).toISOString(),
      lastIp: null,
      metrics: { cpuPercent: (n + minute) % 50, ramPercent: 40, diskPercent: 35 },
      uptimeSeconds: 1000 + minute,
    }),
  );
  const senders = ids.filter((_id, n) => n % SAMPLES_TOGETHER === minute % SAMPLES_TOGETHER);
  const reports = senders.map((deviceId): MetricReport => {
    const device = Number.parseInt(deviceId.slice(-6), 16);
    const times = Array.from(
      { length: SAMPLES_TOGETHER },
      (_, at) => now - (SAMPLES_TOGETHER - 1 - at) * MINUTE,
    );
    return { deviceId, ...MetricSamples.parse({ samples: times.map((at) => sampleOf(device, at)) }) };
  });
  return { heard, reports };
}

/** Processor time of a hub, and of its Redis, for a heartbeat that is not stored, in microseconds. */
async function hubMicros(): Promise<number> {
  const cluster = await startCluster({ kind: 'hub', nodes: 1, devicesEach: HUB.devices });
  const { inFlight } = HUB;
  try {
    await cluster.load.order('closedLoop', { seconds: HUB.warmUpSeconds, inFlight });
    const micros: number[] = [];
    for (let turn = 0; turn < HUB.turns; turn += 1) {
      const before = cluster.cpuMicros();
      const { roundTrips } = await cluster.load.order('closedLoop', { seconds: HUB.seconds, inFlight });
      micros.push((cluster.cpuMicros() - before) / roundTrips);
    }
    return median(micros);
  } finally {
    await cluster.stop();
  }
}

/** Minutes of a part of the fleet: what its heartbeats and samples cost, and what comparing them with the rules adds. */
async function heartbeatPath() {
  const rows = await owner<{ id: string }>(
    `select device_id as id from device_presence where state = 'connected' and node_id = 'bench' order by random()
    limit ${HEARTBEATS * SECONDS}`,
  );
  const ids = rows.map(({ id }) => id);
  let stored: StoredFigures[] = [];
  const store = createMetricStore({
    db,
    log: quietLog,
    metrics: createMetrics(),
    onStored(figures) {
      stored.push(...figures);
      return Promise.resolve();
    },
  });
  const spent = { path: 0, rules: 0 };
  const begin = Date.now() - (WARM_MINUTES + MINUTES + 2) * MINUTE;
  for (let minute = 0; minute < WARM_MINUTES + MINUTES; minute += 1) {
    for (let second = 0; second < SECONDS; second += 1) {
      const part = ids.slice(second * HEARTBEATS, (second + 1) * HEARTBEATS);
      const { heard, reports } = sentBy(part, begin, minute);
      stored = [];
      const before = processorSeconds();
      for (let at = 0; at < heard.length; at += 500) await presence.recordPresence(heard.slice(at, at + 500));
      await store.record(reports);
      const between = processorSeconds();
      watch.heard(heard);
      await watch.settle();
      await watch.sampled(stored);
      // In the first minutes devices are new, and their disks are found to be full.
      if (minute < WARM_MINUTES) continue;
      spent.path += between - before;
      spent.rules += processorSeconds() - between;
    }
  }
  const [matches] = await owner<{ count: number; met: number }>(
    'select count(*)::int as count, count(met_at)::int as met from alert_rule_matches',
  );
  const seconds = MINUTES * SECONDS;
  const answered = ((await hubMicros()) * HEARTBEATS) / 1000;
  const recorded = (spent.path / seconds) * 1000;
  const compared = (spent.rules / seconds) * 1000;
  const toTenth = (value: number) => Math.round(value * 10) / 10;
  return {
    'answering heartbeats of a second, ms of processor time': toTenth(answered),
    'storing them and the samples of a second, ms': toTenth(recorded),
    'comparing them with the rules, ms': toTenth(compared),
    'added by rules, percent': toTenth((100 * compared) / (answered + recorded)),
    'added by rules to storing alone, percent': toTenth((100 * compared) / recorded),
    devices: ids.length,
    'matches stored': `${matches?.count ?? 0}, of which ${matches?.met ?? 0} are met`,
  };
}

async function roundTimes() {
  const round = async (form: 'short' | 'whole') => {
    await owner(`update alert_rounds set through = now() - interval '30 seconds', watched_since = now() - interval '50 minutes',
      whole_at = ${form === 'whole' ? `'-infinity'` : 'now()'}`);
    const startedAt = performance.now();
    const done = await rounds.round();
    if (done?.isWhole !== (form === 'whole')) throw new Error(`expected a ${form} round`);
    return { ms: Math.round(performance.now() - startedAt), raised: done.raised };
  };
  const first = await round('whole');
  await owner('vacuum analyze alerts, alert_rule_matches');
  const shorts: number[] = [];
  const wholes: number[] = [];
  for (let turn = 0; turn < 5; turn += 1) {
    shorts.push((await round('short')).ms);
    wholes.push((await round('whole')).ms);
  }
  return {
    'first full round, ms': first.ms,
    'alerts that it raised': first.raised,
    'short round, ms': median(shorts),
    'full round, ms': median(wholes),
  };
}

/** Stores figures of each minute, as the server keeps them for two weeks. */
async function storeMinutes(deviceId: string, device: number, { from, to }: { from: number; to: number }) {
  await addPartitions(db, 'metric_minutes', { from: new Date(from), to: new Date(to) });
  const samples = Array.from({ length: (to - from) / MINUTE }, (_, n) => {
    const at = from + n * MINUTE;
    return { at, sample: sampleOf(device, at) };
  });
  const rows = [...blocksByHour(samples)].map(
    ([hour, block]): StoredBlock => ({
      deviceId,
      beginsAt: new Date(hour),
      block: packBlock(block, { hasRange: false }),
    }),
  );
  await withSystem(db, 'bench', (tx) => putBlocks(tx, 'metric_minutes', rows));
}

/** Sends days of samples as they were taken, with a round after each message, and compares with the preview. */
async function replay() {
  const tenant = await buildTenant(app);
  const condition = {
    kind: 'metric',
    metric: 'cpuPercent',
    operator: 'greaterThan',
    threshold: 90,
    clearThreshold: 70,
    forMinutes: 5,
  };
  const made = await app.call('POST', '/alert-rules', {
    token: tenant.admin.token,
    body: { orgId: tenant.orgId, name: 'Replayed', severity: 'high', target: { all: true }, condition },
  });
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  await book.settle();
  const rows = await owner<{ id: string }>(
    `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
    select new_row_id(), $1::uuid, $2::uuid, 'replayed-' || n, 'linux', '12', 'x64', '1.0.0', now() - interval '30 days'
    from generate_series(1, ${REPLAYED_DEVICES}) n returning id`,
    [tenant.orgId, tenant.siteId],
  );
  const to = Math.floor(Date.now() / MINUTE) * MINUTE;
  const from = to - REPLAYED_DAYS * DAY + 2 * MINUTE;
  let turns = 0;
  for (const [n, { id }] of rows.entries()) {
    await storeMinutes(id, n, { from, to });
    for (let at = from; at < to; at += SAMPLES_TOGETHER * MINUTE) {
      const series = Array.from({ length: SAMPLES_TOGETHER }, (_, k) => at + k * MINUTE).filter(
        (time) => time < to,
      );
      await watch.sampled([
        {
          deviceId: id,
          orgId: tenant.orgId,
          stretches: series.map((time) => ({
            beginsAt: time,
            stepSeconds: 60,
            series: [
              {
                metric: 'cpuPercent',
                label: '',
                slots: [0],
                min: [0],
                avg: [sampleOf(n, time).cpuPercent ?? 0],
                max: [0],
              },
            ],
          })),
        },
      ]);
      const [met] = await owner<{ count: number }>(
        `with met as (update alert_rule_matches set facts = facts || '{"counted": true}'
          where device_id = $1 and met_at is not null and not jsonb_exists(facts, 'counted') returning 1)
        select count(*)::int as count from met`,
        [id],
      );
      turns += met?.count ?? 0;
      await owner(`delete from alert_rule_matches where device_id = $1 and ends_at is not null`, [id]);
    }
  }
  const startedAt = performance.now();
  const { status, body } = await app.call('POST', '/alert-rules/preview', {
    token: tenant.admin.token,
    body: { orgId: tenant.orgId, target: { all: true }, condition },
  });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return {
    'replayed days': REPLAYED_DAYS * REPLAYED_DEVICES,
    'times that the condition was met': turns,
    'alerts that the preview finds': body.count,
    'preview of all devices, ms': Math.round(performance.now() - startedAt),
    'preview is complete': body.complete,
  };
}
