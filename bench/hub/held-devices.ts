import { call } from '../../test/support/test-app.ts';
import { startRedis } from '../../test/support/redis.ts';
import { enrolledDevices } from './enrolled-devices.ts';
import {
  type Figure,
  percentile,
  rounded,
  sortedCopy,
  ANY_CORE,
  stayOn,
  residentKiB,
  LIFTED_ADMISSION,
  onDatabase,
  startMeasured,
} from './harness.ts';
import { addressesOf, startLoad } from './load/load-process.ts';

/** Connections per process under `ulimit -n` of 20,000. */
const DEVICES_A_SERVER = 19_000;
const SERVERS = 2;
const LOADS_A_SERVER = 2;
const HEARTBEAT_MS = 60_000;
const STEADY_MS = 70_000;
const QUERIES_PER_SECOND = 20;
const LIMIT_MIB = 4096;
const QUERY_P99_LIMIT_MS = 1000;
const SAMPLE_MS = 1000;

/**
 * The number of devices that two server processes with Redis hold in 4 GB, while each device sends a heartbeat per
 * minute and the 99th percentile of live queries stays below a second. The queries go over REST to both servers
 * alternately, about devices of both. Servers, Redis, Postgres and the load generators share two cores. The memory is
 * the largest resident size of both servers and Redis within 70 seconds after all devices have connected, without
 * flags or forced collections; Postgres and the load generators are not counted. The value is 0 if one of the two
 * limits is exceeded.
 */
export const heldDevices: Figure = {
  number: 13,
  title: 'Devices held by two server processes in 4 GB, live query p99 below a second',
  async measure() {
    stayOn(ANY_CORE);
    const redis = await startRedis();
    const fleet = await enrolledDevices(SERVERS * DEVICES_A_SERVER);
    const servers = [];
    const loads = [];
    try {
      for (let index = 0; index < SERVERS; index++) {
        servers.push(
          await startMeasured('muster', {
            cores: ANY_CORE,
            nodeFlags: [],
            env: { ...LIFTED_ADMISSION, BENCH_REDIS_URL: redis.url, ...onDatabase(fleet.database) },
          }),
        );
      }
      const perLoad = DEVICES_A_SERVER / LOADS_A_SERVER;
      const startedAt = performance.now();
      for (let index = 0; index < SERVERS * LOADS_A_SERVER; index++) {
        const load = await startLoad(ANY_CORE);
        loads.push(load);
        await load.order('connect', {
          kind: 'agent',
          // Each server gets half of the devices, each load process runs a quarter.
          port: servers[index % SERVERS]?.port ?? 0,
          tokens: fleet.tokens.slice(index * perLoad, (index + 1) * perLoad),
          atOnce: 50,
          addresses: addressesOf(index),
          answersAsks: true,
        });
      }
      const connectMs = performance.now() - startedAt;
      for (const load of loads) await load.order('beatEvery', { ms: HEARTBEAT_MS });

      const pids = [...servers.map(({ pid }) => pid), redis.pid];
      const sizes: number[] = [];
      const sampler = setInterval(() => sizes.push(residentKiB(pids) / 1024), SAMPLE_MS);
      const queries = await askAtPace(
        servers.map(({ url }) => url),
        fleet.admin.token,
        fleet.deviceIds,
      );
      clearInterval(sampler);

      const counts = await Promise.all(loads.map((load) => load.order('count', {})));
      const held = counts.reduce((sum, { connected }) => sum + connected, 0);
      const times = sortedCopy(queries.times);
      const mostMiB = Math.max(...sizes);
      const p99 = percentile(times, 0.99);
      const measured = {
        connected: held,
        connectSeconds: rounded(connectMs / 1000, 1),
        serversAndRedisMiBMost: rounded(mostMiB, 0),
        redisMiB: rounded(residentKiB([redis.pid]) / 1024, 0),
        kiBPerDevice: rounded((mostMiB * 1024) / held),
        liveQueryP50Ms: rounded(percentile(times, 0.5)),
        liveQueryP99Ms: rounded(p99),
        liveQueries: times.length,
        liveQueriesFailed: queries.failed,
      };
      const holds = mostMiB <= LIMIT_MIB && p99 < QUERY_P99_LIMIT_MS && queries.failed === 0;
      return [
        {
          what: 'devices held',
          value: holds ? held : 0,
          unit: 'devices',
          better: 'higher',
          target: 19_000,
          stretchTarget: 38_000,
          measured,
        },
      ];
    } finally {
      for (const load of loads) await load.stop();
      for (const server of servers) await server.stop();
      await redis.remove();
      await fleet.database.drop();
    }
  },
};

async function askAtPace(urls: string[], token: string, deviceIds: string[]) {
  const times: number[] = [];
  let failed = 0;
  const ask = async (turn: number) => {
    const url = urls[turn % urls.length];
    const deviceId = deviceIds[Math.floor(Math.random() * deviceIds.length)];
    const startedAt = performance.now();
    const { status } = await call(`${url}/api/v1/devices/${deviceId}/eventlogs/live`, 'GET', { token });
    times.push(performance.now() - startedAt);
    if (status !== 200) failed += 1;
  };
  const under: Promise<void>[] = [];
  const startedAt = performance.now();
  for (let turn = 0; performance.now() - startedAt < STEADY_MS; turn++) {
    const due = startedAt + (turn * 1000) / QUERIES_PER_SECOND;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    under.push(ask(turn));
  }
  await Promise.all(under);
  return { times, failed };
}
