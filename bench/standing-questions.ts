import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { startRedis } from '../test/support/redis.ts';
import { asOwner, stopTestPostgres } from '../test/support/test-postgres.ts';
import { createDurableDatabase } from './hub/durable-database.ts';
import { enrolledDevices } from './hub/enrolled-devices.ts';
import { ANY_CORE, cpuMicrosOf, onDatabase, type ServerProcess, startMeasured } from './hub/harness.ts';
import { addressesOf, type LoadProcess, startLoad } from './hub/load/load-process.ts';

/**
 * `npm run bench:standing-questions` asks 10,000 devices of one organization that are all away, and then connects them to
 * two servers as fast as these admit them, as after an outage: how long it takes until every device has answered, whether
 * each has answered once, and how long the heartbeats of the devices wait meanwhile. With a number, as many devices.
 */

const DEVICES = Number(process.argv[2] ?? 10_000);
const SERVERS = 2;
const AT_ONCE = 50;
const HEARTBEATS_PER_SECOND = 50;
const MEASURED_SECONDS = 10;
const AGAIN_MS = 1000;
const GIVEN_UP_MS = 900_000;

const Asked = z.object({ id: z.string(), devices: z.number() });
const Standing = z.object({ status: z.string(), outcomes: z.record(z.string(), z.number()) });

const fleet = await enrolledDevices(DEVICES, await createDurableDatabase());
const redis = await startRedis();
const servers: ServerProcess[] = [];
const loads: LoadProcess[] = [];
try {
  for (let at = 0; at < SERVERS; at += 1) {
    const env = { ...onDatabase(fleet.database), BENCH_REDIS_URL: redis.url };
    servers.push(await startMeasured('muster', { cores: ANY_CORE, nodeFlags: [], env }));
    loads.push(await startLoad(ANY_CORE));
  }
  const figures = await outage();
  console.table(figures);
  console.log(JSON.stringify({ devices: DEVICES, servers: SERVERS, figures }));
} finally {
  for (const load of loads) await load.stop();
  for (const server of servers) await server.stop();
  await redis.remove();
  await fleet.database.drop();
  await stopTestPostgres();
}

async function ask(method: string, path: string, body?: object): Promise<unknown> {
  const response = await fetch(`${servers[0]?.url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${fleet.admin.token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer: unknown = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

async function outage() {
  const askedAt = performance.now();
  const question = Asked.parse(
    await ask('POST', '/event-log-questions', {
      orgId: await orgOfDevices(),
      target: { all: true },
      query: { name: 'System', level: ['error'] },
    }),
  );
  const askingMs = performance.now() - askedAt;
  if (question.devices !== DEVICES) throw new Error(`${question.devices} devices are to be asked.`);
  const cpuBefore = serversMicros();
  const startedAt = performance.now();
  await Promise.all(loads.map((load, at) => connect(load, at)));
  const connectedMs = performance.now() - startedAt;
  const during = loads[0]?.order('openLoop', {
    seconds: MEASURED_SECONDS,
    perSecond: HEARTBEATS_PER_SECOND,
  });
  const outcomes = await answered(question.id, startedAt);
  const answeredMs = performance.now() - startedAt;
  const cpu = serversMicros() - cpuBefore;
  const after = await loads[0]?.order('openLoop', {
    seconds: MEASURED_SECONDS,
    perSecond: HEARTBEATS_PER_SECOND,
  });
  const [once] = await asOwner<{ asked: number; answers: number }>(
    fleet.database.ownerUrl,
    'select max(asks)::int as asked, count(distinct device_id)::int as answers from event_log_answers where ended_at is not null',
  );
  const commands = await Promise.all(loads.map((load) => load.order('count', {})));
  return {
    'making the question, ms': Math.round(askingMs),
    'all devices connected after s': Math.round(connectedMs / 100) / 10,
    'all have answered after s': Math.round(answeredMs / 100) / 10,
    outcomes: JSON.stringify(outcomes),
    'devices with an outcome': once?.answers,
    'the most times that a device was asked': once?.asked,
    'queries that devices received': commands.reduce((sum, one) => sum + one.commands, 0),
    'processor time of the servers a device, from connecting to the answer, ms':
      Math.round(cpu / DEVICES / 10) / 100,
    'heartbeat p99 ms while devices are asked': (await during)?.p99,
    'heartbeat p99 ms after that': after?.p99,
  };
}

async function orgOfDevices(): Promise<string> {
  const [row] = await asOwner<{ id: string }>(
    fleet.database.ownerUrl,
    'select org_id as id from devices where id = $1',
    [fleet.deviceIds[0]],
  );
  return row?.id ?? '';
}

function serversMicros(): number {
  return servers.reduce((sum, { pid }) => sum + cpuMicrosOf(pid), 0);
}

function connect(load: LoadProcess, at: number) {
  const part = DEVICES / SERVERS;
  return load.order('connect', {
    kind: 'agent',
    port: servers[at]?.port ?? 0,
    tokens: fleet.tokens.slice(at * part, (at + 1) * part),
    atOnce: AT_ONCE,
    addresses: addressesOf(at),
    answersAsks: true,
  });
}

async function answered(id: string, startedAt: number): Promise<Record<string, number>> {
  for (;;) {
    const { status, outcomes } = Standing.parse(await ask('GET', `/event-log-questions/${id}`));
    if (status === 'over') return outcomes;
    if (performance.now() - startedAt > GIVEN_UP_MS) throw new Error(JSON.stringify(outcomes));
    await pause(AGAIN_MS);
  }
}
