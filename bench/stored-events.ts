import { Agent, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import pg from 'pg';
import { LogBudgets } from '../src/features/log-budgets/index.ts';
import { AuditSealer, createAuditTrail, RepeatedReads, SigningKeys } from '../src/features/audit/index.ts';
import { storedLogRoutes } from '../src/features/event-logs/stored-logs.routes.ts';
import type { AgentCaller } from '../src/platform/context.ts';
import { errorHandler } from '../src/platform/http/error-body.ts';
import { mount } from '../src/platform/http/mount/mount.ts';
import { beginRequest } from '../src/platform/http/request-state.ts';
import { newId } from '../src/platform/ids.ts';
import { ExpensiveWork } from '../src/platform/expensive-work.ts';
import { createMetrics } from '../src/platform/metrics.ts';
import { createSealer } from '../src/platform/secrets/sealed.ts';
import type { DeviceEvent } from '../src/protocol/index.ts';
import { type AuditBench, createAuditBench, SECRET } from '../test/support/audit/audit-support.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:stored-events` measures events per second through the whole of PUT /agents/:id/eventlogs (HTTP,
 * validation, one transaction, audit entry, response). The baseline inserts one row per statement into the same table
 * with the same number of connections. Both use a durable database and alternate. The client runs in this process as
 * well, and its cost counts against the route.
 */

const TURNS = 5;
const AT_ONCE = 8;
const EVENTS = 12_000;
const BATCHES = [100, 500];

const bench = await createAuditBench({ durable: true });
const sealer = new AuditSealer({ db: bench.db, keys: new SigningKeys(createSealer(SECRET)), log: quietLog });
const single = await connections(bench, AT_ONCE);
try {
  const caller = await agentOf(bench);
  const server = await serve(caller);
  const ways: [string, () => Promise<number>][] = [
    ['one row per statement', async () => insertSingly(caller)],
    ...BATCHES.map((size): [string, () => Promise<number>] => [
      `route, ${size} events per request`,
      async () => send(server.port, caller, size),
    ]),
  ];
  const rates = new Map<string, number[]>(ways.map(([name]) => [name, []]));
  for (let turn = -1; turn < TURNS; turn++) {
    for (const [name, run] of ways) {
      const rate = await run();
      if (turn >= 0) rates.get(name)?.push(rate);
    }
  }
  server.close();
  const base = median(rates.get('one row per statement') ?? []);
  const figures = Object.fromEntries(
    [...rates].map(([name, all]) => [
      name,
      { 'events/s': Math.round(median(all)), ratio: Number((median(all) / base).toFixed(2)) },
    ]),
  );
  console.table(figures);
  console.log(JSON.stringify({ turns: TURNS, events: EVENTS, atOnce: AT_ONCE, figures }));
} finally {
  await Promise.all(single.map(async (client) => client.end()));
  await sealer.close();
  await bench.close();
  await stopTestPostgres();
}

/** Connections of the serving role whose tenant settings last for the session, so that only the insert is measured. */
async function connections({ database, orgId }: AuditBench, count: number): Promise<pg.Client[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const client = new pg.Client({ connectionString: database.appUrl });
      await client.connect();
      await client.query(`select set_config('app.org_ids', $1, false)`, [`{${orgId}}`]);
      return client;
    }),
  );
}

async function agentOf(bench: AuditBench): Promise<AgentCaller> {
  const { orgId, partnerId } = bench;
  const [siteId, deviceId] = [newId(), newId()];
  await bench.owner(`insert into sites (id, org_id, name) values ($1, $2, 'S')`, [siteId, orgId]);
  await bench.owner(
    `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
    values ($1, $2, $3, 'DESK', 'linux', 'Debian 12', 'x64', '1', now())`,
    [deviceId, orgId, siteId],
  );
  const machine = { osType: 'linux', architecture: 'x64', autoUpdate: true, canUpgrade: true } as const;
  return { kind: 'agent', deviceId, orgId, siteId, partnerId, machine };
}

function events(count: number): DeviceEvent[] {
  const timestamp = new Date().toISOString();
  return Array.from({ length: count }, () => {
    const eventId = `System:${newId()}`;
    return {
      timestamp,
      level: 'warning',
      category: 'system',
      source: 'systemd',
      eventId,
      message:
        'Failed to start the service: the unit entered the state "failed" with exit code 1, and is restarted.',
      details: { log: 'System', recordId: 1_700_000_000_000, eventId: 0, user: null, computer: 'DESK' },
    };
  });
}

async function insertSingly({ deviceId, orgId }: AgentCaller): Promise<number> {
  const waiting = events(EVENTS);
  return rateOf(async () => {
    await Promise.all(
      single.map(async (client) => {
        for (let event = waiting.pop(); event !== undefined; event = waiting.pop()) {
          await client.query({
            name: 'single',
            text: `insert into device_event_logs
              (id, device_id, org_id, "timestamp", level, category, source, event_id, message, details)
              values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict do nothing`,
            values: [
              newId(),
              deviceId,
              orgId,
              event.timestamp,
              event.level,
              event.category,
              event.source,
              event.eventId,
              event.message,
              JSON.stringify(event.details),
            ],
          });
        }
      }),
    );
  });
}

async function send(port: number, { deviceId }: AgentCaller, size: number): Promise<number> {
  const bodies = Array.from({ length: EVENTS / size }, () => JSON.stringify({ events: events(size) }));
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
  const rate = await rateOf(async () => {
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (let body = bodies.pop(); body !== undefined; body = bodies.pop()) {
          const count = await put(port, agent, `/agents/${deviceId}/eventlogs`, body);
          if (count !== size) throw new Error(`Only ${count} of ${size} events were stored.`);
        }
      }),
    );
  });
  agent.destroy();
  return rate;
}

async function rateOf(work: () => Promise<void>): Promise<number> {
  const since = performance.now();
  await work();
  return (EVENTS * 1000) / (performance.now() - since);
}

async function serve(caller: AgentCaller): Promise<{ port: number; close: () => void }> {
  const app = express();
  app.use(beginRequest(quietLog, createMetrics(), { proxies: undefined, cfConnectingIp: false }));
  app.use(
    mount([storedLogRoutes({ reads: new RepeatedReads(), logBudgets: new LogBudgets() })], '/api/v1', {
      db: bench.db,
      authenticator: { authenticate: () => Promise.reject(new Error('no people here')) },
      agents: { authenticate: async () => caller },
      audit: createAuditTrail(sealer),
      expensive: new ExpensiveWork({ poolSize: 10 }),
      reads: new RepeatedReads(),
      watchRights: () => ({ close: () => undefined }),
    }),
  );
  app.use(errorHandler);
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() };
}

function put(port: number, agent: Agent, path: string, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: 'Bearer x',
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    };
    const call = request({ port, agent, method: 'PUT', path, headers }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      answer.on('end', () => {
        if (answer.statusCode === 200) resolve((JSON.parse(text) as { count: number }).count);
        else reject(new Error(`The response was ${answer.statusCode}: ${text.slice(0, 300)}`));
      });
    });
    call.on('error', reject).end(body);
  });
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
