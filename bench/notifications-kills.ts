import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { type NewAlert, raiseAlerts } from '../src/features/alerts/index.ts';
import { openPool } from '../src/platform/db/pool.ts';
import { withSystem } from '../src/platform/db/transaction.ts';
import { BUNDLED_PROGRAMS_VARIABLE, bundlePrograms } from '../test/support/bundled-programs.ts';
import { buildOrganization, buildPartner, buildPerson } from '../test/support/factories.ts';
import { startHttpsServer } from '../test/support/https-server.ts';
import { killProgram } from '../test/support/program.ts';
import { startRedis } from '../test/support/redis.ts';
import { type StartedServer, startServerProcess } from '../test/support/started-server.ts';
import { call, type CallOptions } from '../test/support/test-app.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:notifications-kills` raises 10,000 alerts while two servers, processes of their own with one durable
 * database and one Redis, are killed 50 times with SIGKILL and started again. Half of the alerts are told to webhooks,
 * the others to a receiver that takes what PagerDuty takes. Then it counts which messages never arrived, which arrived more than once, and
 * whether the receiver can tell by their key that they are the same. It exits with code 1 if a message was lost, stays
 * unsent, or came twice with different keys.
 */

const ALERTS = Number(process.env['BENCH_ALERTS'] ?? 10_000);
const KILLS = Number(process.env['BENCH_KILLS'] ?? 50);
/** Both servers run for so long between two kills. */
const RUN_MS = { least: 1000, spread: 4000 };
/** Between two kills. */
const BATCHES = 4;
const BATCH_EVERY_MS = 1000;
/** Each has two policies and two channels of its own. */
const CUSTOMERS = 4;
const CHANNELS = ['webhook', 'pagerduty'] as const;
const START_TRIES = 5;
const NODES = ['north', 'south'] as const;

const ANSWER_MS = 3;
/** One of so many requests is answered late, so that kills find requests that have arrived and are not answered. */
const SLOW_ONE_IN = 40;
const SLOW_MS = 1000;
/** After the last kill. */
const DRAIN_MS = 900_000;

const KEY = 'a key of the benchmark that is long enough for it';
/** Policies tell one half of the alerts to each. */
const SEVERITIES = { webhook: 'high', pagerduty: 'medium' } as const;
const SECRETS = {
  webhook: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
  pagerduty: 'a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4',
};
const CA_FILE = fileURLToPath(new URL('../test/support/certificates/authority.pem', import.meta.url));

const WebhookEvent = z.object({
  data: z.object({ alerts: z.array(z.object({ kind: z.string() })).length(1) }),
});
const PageEvent = z.object({
  event_action: z.literal('trigger'),
  dedup_key: z.string(),
  payload: z.object({ class: z.string() }),
});

/** By channel and alert: when the message first arrived, and how often under which key. */
interface Received {
  firstAt: number;
  byKey: Map<string, number>;
}
const received = new Map<string, Received>();
const nameOf = (channel: (typeof CHANNELS)[number], alert: string) => `${channel} ${alert}`;
let requests = 0;

/** @param key  what tells a receiver that it has had the message before */
function note(name: string, key: string): void {
  const known = received.get(name) ?? { firstAt: performance.now(), byKey: new Map<string, number>() };
  known.byKey.set(key, (known.byKey.get(key) ?? 0) + 1);
  received.set(name, known);
}

const receiver = await startHttpsServer((request, response) => {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => {
    const body: unknown = JSON.parse(Buffer.concat(pieces).toString('utf8'));
    if (request.url === '/pagerduty') {
      const event = PageEvent.parse(body);
      note(nameOf('pagerduty', event.payload.class), `${event.event_action} ${event.dedup_key}`);
    } else {
      const alert = WebhookEvent.parse(body).data.alerts[0]?.kind ?? '';
      note(nameOf('webhook', alert), String(request.headers['webhook-id']));
    }
    requests += 1;
    const afterMs = requests % SLOW_ONE_IN === 0 ? SLOW_MS : ANSWER_MS;
    setTimeout(() => response.writeHead(202).end(), afterMs);
  });
});

const bundles = await bundlePrograms();
process.env[BUNDLED_PROGRAMS_VARIABLE] = bundles;
const folder = await mkdtemp(path.join(tmpdir(), 'muster-kills-'));
const database = await createTestDatabase({ durable: true });
const redis = await startRedis();
const pool = openPool(database.appUrl, { max: 2, name: 'muster-bench' });
const callOf =
  (url: string) =>
  (method: string, below: string, options: CallOptions = {}) =>
    call(`${url}/api/v1${below}`, method, options);
const sql = <Row extends Record<string, unknown>>(text: string, values?: unknown[]) =>
  asOwner<Row>(database.ownerUrl, text, values);

interface Node {
  name: (typeof NODES)[number];
  /** Absent while it starts. */
  server: StartedServer | undefined;
}
const nodes: Node[] = NODES.map((name) => ({ name, server: undefined }));
const ErrorLine = z.object({ message: z.string() });

/** Warnings and errors of all servers that there were: how often each. */
const logged = new Map<string, number>();
const startMs: number[] = [];

async function start(node: Node): Promise<StartedServer> {
  const begun = performance.now();
  const server = await startAgain({
    DATABASE_URL: database.ownerUrl,
    DATABASE_URL_APP: database.appUrl,
    REDIS_URL: redis.url,
    NODE_ID: node.name,
    DATA_DIR: path.join(folder, node.name),
    JWT_SECRET: KEY,
    SECRET_ENCRYPTION_KEY: KEY,
    LOG_LEVEL: 'info',
    PUBLIC_URL: 'https://rmm.example.com/',
    WEBHOOK_ALLOWED_PRIVATE_CIDRS: '127.0.0.1/32',
    NODE_EXTRA_CA_CERTS: CA_FILE,
  });
  startMs.push(performance.now() - begun);
  node.server = server;
  return server;
}

/** As a supervisor does: a server that cannot start, for example because the machine is busy, is started again. */
async function startAgain(env: Record<string, string>): Promise<StartedServer> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await startServerProcess(env);
    } catch (error) {
      console.error(`A server could not start: ${String(error).slice(-1000)}`);
      if (tries === START_TRIES) throw error;
    }
  }
}

function countLog(server: StartedServer): void {
  for (const { level, event, err } of server.log()) {
    if (level === 'info') continue;
    const why = ErrorLine.safeParse(err).data?.message.slice(0, 100) ?? '';
    const name = `${String(level)} ${String(event)} ${why}`;
    logged.set(name, (logged.get(name) ?? 0) + 1);
  }
}

/** A message that a killed server had. */
interface Held {
  id: string;
  holder: string;
  killedAt: Date;
}
const held: Held[] = [];
let killsWhileSending = 0;
let endedByThemselves = 0;
const starting: Promise<unknown>[] = [];

/** kill -9 of a random server that runs; it starts again at once. */
async function killOne(): Promise<void> {
  const running = nodes.flatMap((node) => (node.server === undefined ? [] : [{ node, server: node.server }]));
  const chosen = running[Math.floor(Math.random() * running.length)];
  if (chosen === undefined) throw new Error('No server runs.');
  const { node, server } = chosen;
  node.server = undefined;
  if (server.child.exitCode !== null) {
    endedByThemselves += 1;
    console.error(`${node.name} ended by itself: ${server.output().slice(-1000)}`);
  }
  const killedAt = new Date();
  await killProgram(server);
  countLog(server);
  const known = new Set(held.map(({ holder }) => holder));
  const left = await sql<{ id: string; holder: string }>(
    `select w.id, w.holder_id as holder from work w join work_holders h on h.id = w.holder_id
    where w.kind = 'notification' and w.stage = 'leased' and h.node_id = $1`,
    [node.name],
  );
  const own = left.filter(({ holder }) => !known.has(holder));
  if (own.length > 0) killsWhileSending += 1;
  held.push(...own.map((one) => ({ ...one, killedAt })));
  starting.push(start(node));
}

/** Until nothing is left to be told. Returns how many messages are left after the longest time. */
async function drained(): Promise<number> {
  const until = performance.now() + DRAIN_MS;
  for (;;) {
    const [left] = await sql<{ count: number }>(
      `select ((select count(*) from notification_outbox) + (select count(*) from notifications where status = 'pending')
        + (select count(*) from work where kind = 'notification' and finished_at is null))::int as count`,
    );
    if (left?.count === 0 || performance.now() > until) return left?.count ?? 0;
    await pause(250);
  }
}

/** A customer whose alerts are told to channels of its own. Returns the organization. */
async function customer(url: string, partnerId: string, token: string): Promise<string> {
  const ground = { call: callOf(url), log: [], server: { database: { pool } }, jwtSecret: KEY };
  const orgId = await buildOrganization(ground, partnerId);
  const made = async (of: string, body: object) => {
    const answer = await ground.call('POST', of, { token, body: { orgId, ...body } });
    if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
    return z.object({ id: z.string() }).parse(answer.body).id;
  };
  for (const type of CHANNELS) {
    const details = { url: `https://127.0.0.1:${receiver.port}/${type}` };
    const id = await made('/notification-channels', { name: type, type, details, secret: SECRETS[type] });
    const match = { severities: [SEVERITIES[type]] };
    await made('/notification-policies', {
      name: type,
      match,
      steps: [{ afterMinutes: 0, channelIds: [id] }],
    });
  }
  return orgId;
}

interface Raised {
  /** As `received` names it. */
  name: string;
  at: number;
}

const raised: Raised[] = [];

/** The alerts that go with one kill, in batches. Each is a message of its own. */
async function raiseSome(orgIds: readonly string[]): Promise<void> {
  for (let batches = 0; batches < BATCHES; batches += 1) {
    const alerts = Array.from({ length: ALERTS / KILLS / BATCHES }, (_none, nth) => {
      const channel = nth % 2 === 0 ? 'webhook' : 'pagerduty';
      const kind = `kill_${raised.length + nth}`;
      return {
        name: nameOf(channel, kind),
        alert: alertOf(channel, kind, orgIds[(nth >> 1) % orgIds.length] ?? ''),
      };
    });
    await withSystem(pool, 'raise alerts', (tx) =>
      raiseAlerts(
        tx,
        alerts.map(({ alert }) => alert),
      ),
    );
    const at = performance.now();
    raised.push(...alerts.map(({ name }) => ({ name, at })));
    await pause(BATCH_EVERY_MS);
  }
}

const alertOf = (channel: (typeof CHANNELS)[number], kind: string, orgId: string): NewAlert => ({
  orgId,
  kind,
  severity: SEVERITIES[channel],
  title: kind,
  message: 'It is a measurement.',
});

const seconds = (ms: number) => Math.round(ms / 100) / 10;
const spread = (values: readonly number[]) => {
  const sorted = values.toSorted((a, b) => a - b);
  return [0.5, 0.95, 1]
    .map((share) => seconds(sorted[Math.floor((sorted.length - 1) * share)] ?? 0))
    .join(' / ');
};

try {
  const first = await Promise.all(nodes.map(start));
  const url = first[0]?.url ?? '';
  const ground = { call: callOf(url), log: [], server: { database: { pool } }, jwtSecret: KEY };
  const partnerId = await buildPartner(ground);
  const { token } = await buildPerson(ground, { scope: 'partner', partnerId });
  const orgIds: string[] = [];
  for (let nth = 0; nth < CUSTOMERS; nth += 1) orgIds.push(await customer(url, partnerId, token));

  const startedAt = performance.now();
  for (let nth = 1; nth <= KILLS; nth += 1) {
    await Promise.all([raiseSome(orgIds), pause(RUN_MS.least + Math.random() * RUN_MS.spread).then(killOne)]);
    if (nth % 5 === 0) {
      const after = seconds(performance.now() - startedAt);
      console.log(`${nth} kills, ${received.size} messages received after ${after} s`);
    }
    await Promise.all(starting.splice(0));
  }
  const killedFor = performance.now() - startedAt;
  const left = await drained();
  const drainedFor = performance.now() - startedAt - killedFor;
  for (const { server } of nodes) if (server !== undefined) countLog(server);

  const [log] = await sql<Record<'rows' | 'sent' | 'repeated' | 'alerts' | 'open', number>>(
    `select count(*)::int as rows, (count(*) filter (where status = 'sent'))::int as sent,
      (count(*) filter (where attempts > 1))::int as repeated, count(distinct alert_id)::int as alerts,
      (count(*) filter (where status <> 'sent' and is_in_doubt))::int as open
    from notifications`,
  );
  const sentAt = new Map(
    (
      await sql<{ id: string; at: Date }>(
        'select id, sent_at as at from notifications where sent_at is not null',
      )
    ).map(({ id, at }) => [id, at.getTime()]),
  );
  const waits = raised.flatMap(({ name, at }) => {
    const got = received.get(name);
    return got === undefined ? [] : [got.firstAt - at];
  });
  const all = [...received.values()];
  const lost = raised.filter(({ name }) => !received.has(name)).length;
  const repeated = all.filter(({ byKey }) => [...byKey.values()].some((times) => times > 1)).length;
  const untold = all.filter(({ byKey }) => byKey.size > 1).length;
  console.table({
    'seconds with kills / until all was sent after the last': `${seconds(killedFor)} / ${seconds(drainedFor)}`,
    'kills / kills that found a server with messages': `${KILLS} / ${killsWhileSending}`,
    'servers that ended by themselves': endedByThemselves,
    'start of a server in s, p50 / p95 / longest': spread(startMs),
    'messages expected / received': `${raised.length} / ${received.size}`,
    lost: lost,
    'requests that receivers had': requests,
    'messages that came again with the same key': repeated,
    'messages that came again with another key': untold,
    'messages in the log / sent / tried again': `${log?.rows} / ${log?.sent} / ${log?.repeated}`,
    'not sent, and in doubt': log?.open ?? 0,
    'left in the outbox, pending or in work': left,
    'messages that a killed server had': held.length,
    'kill to sent of these in s, p50 / p95 / longest': spread(
      held.flatMap(({ id, killedAt }) => (sentAt.get(id) ?? killedAt.getTime()) - killedAt.getTime()),
    ),
    'raised to received in s, p50 / p95 / longest': spread(waits),
  });
  console.table(Object.fromEntries(logged));
  if (lost > 0 || untold > 0 || left > 0 || log?.sent !== raised.length) process.exitCode = 1;
} finally {
  await Promise.allSettled(starting);
  await Promise.all(nodes.flatMap(({ server }) => (server === undefined ? [] : [killProgram(server)])));
  await pool.destroy();
  await receiver.stop();
  await redis.remove();
  await database.drop();
  await stopTestPostgres();
  for (const made of [folder, bundles]) await rm(made, { recursive: true, force: true });
}
