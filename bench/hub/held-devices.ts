import { call } from '../../test/support/test-app.ts';
import { startRedis } from '../../test/support/redis.ts';
import { enrolledDevices } from './enrolled-devices.ts';
import type { Figure } from './figure.ts';
import { addressesOf, startLoad } from './load/load-process.ts';
import { percentile, rounded, sortedCopy } from './load/percentiles.ts';
import { ANY_CORE, stayOn } from './processes.ts';
import { residentKiB } from './resident.ts';
import { LIFTED_ADMISSION, onDatabase, startMeasured } from './servers/server-process.ts';

/** What `ulimit -n` of 20,000 a process leaves for devices. */
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
 * Devices that two server processes hold with Redis between them in 4 GB, while each sends a heartbeat a minute and live
 * questions over REST, asked alternately of both servers about devices of either, stay under a second at the 99th
 * percentile. Two cores are all there are: servers, Redis, Postgres and the load share them. Counted are the resident
 * sizes of both servers and of Redis at their largest within the 70 seconds after they came, with no flag set and no collection forced;
 * Postgres and the load are not. The value is 0 where one of the two limits does not hold.
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
          // One half of the devices to each, a quarter from each load.
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
          reach: 19_000,
          stretch: 38_000,
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
