import { readdirSync, readFileSync } from 'node:fs';
import { startRedis } from '../../test/support/redis.ts';
import { asOwner } from '../../test/support/test-postgres.ts';
import { createDurableDatabase } from './durable-database.ts';
import { type EnrolledDevices, enrolledDevices } from './enrolled-devices.ts';
import {
  ANY_CORE,
  cpuMicrosOf,
  type Figure,
  LIFTED_ADMISSION,
  median,
  onDatabase,
  type Result,
  rounded,
  type ServerProcess,
  startMeasured,
} from './harness.ts';
import { addressesOf, type LoadProcess, startLoad, startWatchers } from './load/load-process.ts';

/** Every server has as many devices and heartbeats, as the servers of a fleet that grows. */
const DEVICES_EACH = 2000;
/** As many as 20,000 devices send with a heartbeat a minute. */
const HEARTBEATS_EACH_PER_SECOND = 333;
const NODES = [1, 2, 4, 8];
const WATCHED = [1, 8];
const AT_ONCE = 50;
const WARM_UP_SECONDS = 3;
const SECONDS = 10;
const TURNS = 4;
/** What the servers do once after a start, such as their first jobs, ends meanwhile. */
const SETTLE_MS = 15_000;

const FLEET = 1_000_000;
const HEARTBEAT_EVERY_SECONDS = 60;
/** What docs/operators-guide.md plans with: the rest of a core is for reconnects, REST requests and jobs. */
const DEVICES_A_SERVER = 20_000;

type Program = 'servers' | 'redis' | 'postgres';
type Micros = Record<Program, number>;

interface Side {
  nodes: number;
  isWatched: boolean;
  /** Processor time a second of all programs without heartbeats, one value for each turn. */
  idle: Micros[];
  /** Processor time of a heartbeat beyond that, one value for each turn. */
  heartbeat: Micros[];
}

/**
 * Processor time of all processes for a heartbeat: servers as `npm start` composes them, their Redis, and a durable
 * Postgres. 1, 2, 4 and 8 servers with 2,000 devices each get 333 heartbeats a second each, as 20,000 devices send
 * them; one set of servers runs at a time. What the programs need without heartbeats is measured before each turn and
 * subtracted. A dashboard on one of the servers then shows all devices. From both follows what a million devices need.
 */
export const fleetCost: Figure = {
  number: 15,
  title: 'All processes with 1, 2, 4 and 8 servers',
  async measure() {
    const most = Math.max(...NODES);
    const fleet = await enrolledDevices(most * DEVICES_EACH, await createDurableDatabase());
    try {
      const sides: Side[] = [];
      for (const nodes of NODES) sides.push(...(await measureServers(nodes, fleet)));
      return results(sides);
    } finally {
      await fleet.database.drop();
    }
  },
};

async function measureServers(nodes: number, fleet: EnrolledDevices): Promise<Side[]> {
  const redis = await startRedis();
  const load = await startLoad(ANY_CORE);
  const watchers = await startWatchers();
  const servers: ServerProcess[] = [];
  try {
    const env = { ...onDatabase(fleet.database), ...LIFTED_ADMISSION, BENCH_REDIS_URL: redis.url };
    for (let at = 0; at < nodes; at++) {
      const server = await startMeasured('muster', { cores: ANY_CORE, nodeFlags: [], env });
      servers.push(server);
      await load.order('connect', {
        kind: 'agent',
        port: server.port,
        tokens: fleet.tokens.slice(at * DEVICES_EACH, (at + 1) * DEVICES_EACH),
        atOnce: AT_ONCE,
        addresses: addressesOf(at),
        answersAsks: true,
      });
    }
    const meter = await meterOf({ servers, redis: redis.pid, ownerUrl: fleet.database.ownerUrl });
    const unwatched = { nodes, isWatched: false, ...(await measureTurns(nodes, load, meter)) };
    if (!WATCHED.includes(nodes)) return [unwatched];
    await watchers.order('watch', { port: servers[0]?.port ?? 0, count: 1, token: fleet.admin.token });
    return [unwatched, { nodes, isWatched: true, ...(await measureTurns(nodes, load, meter)) }];
  } finally {
    await watchers.stop();
    await load.stop();
    await Promise.all(servers.map((server) => server.stop()));
    await redis.remove();
  }
}

async function measureTurns(
  nodes: number,
  load: LoadProcess,
  meter: Meter,
): Promise<Pick<Side, 'idle' | 'heartbeat'>> {
  const perSecond = nodes * HEARTBEATS_EACH_PER_SECOND;
  await pause(SETTLE_MS);
  await load.order('openLoop', { seconds: WARM_UP_SECONDS, perSecond });
  const idle: Micros[] = [];
  const heartbeat: Micros[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const standing = await meter(() => pause(SECONDS * 1000));
    const loaded = await meter(() => load.order('openLoop', { seconds: SECONDS, perSecond }));
    const standingPerSecond = scaled(standing.spent, 1 / standing.seconds);
    idle.push(standingPerSecond);
    const alike = scaled(standingPerSecond, loaded.seconds);
    const beyond = combined(loaded.spent, alike, (all, without) => all - without);
    heartbeat.push(scaled(beyond, 1 / loaded.answer.answered));
  }
  return { idle, heartbeat };
}

/** Measures the processor time that all programs spend while something is done. */
type Meter = <T>(work: () => Promise<T>) => Promise<{ answer: T; seconds: number; spent: Micros }>;

async function meterOf({
  servers,
  redis,
  ownerUrl,
}: {
  servers: readonly ServerProcess[];
  redis: number;
  ownerUrl: string;
}): Promise<Meter> {
  const postmaster = await postmasterOf(ownerUrl);
  const spent = (): Micros => ({
    servers: servers.reduce((total, { pid }) => total + cpuMicrosOf(pid), 0),
    redis: cpuMicrosOf(redis),
    postgres: [postmaster, ...childrenOf(postmaster)].reduce((total, pid) => total + cpuMicrosOf(pid), 0),
  });
  return async (work) => {
    const before = spent();
    const startedAt = performance.now();
    const answer = await work();
    const seconds = (performance.now() - startedAt) / 1000;
    return { answer, seconds, spent: combined(spent(), before, (after, start) => after - start) };
  };
}

/** The main process of Postgres is the parent of each process that serves a connection. */
async function postmasterOf(ownerUrl: string): Promise<number> {
  const [row] = await asOwner<{ pid: number }>(ownerUrl, 'select pg_backend_pid() as pid');
  return parentOf(row?.pid ?? 0);
}

const parentOf = (pid: number | string): number =>
  Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1]);

const childrenOf = (parent: number): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return parentOf(pid) === parent;
      } catch {
        // It has ended meanwhile, and counts as an ended child of its parent.
        return false;
      }
    })
    .map(Number);

const PROGRAMS: readonly Program[] = ['servers', 'redis', 'postgres'];

const combined = (left: Micros, right: Micros, combine: (left: number, right: number) => number): Micros => ({
  servers: combine(left.servers, right.servers),
  redis: combine(left.redis, right.redis),
  postgres: combine(left.postgres, right.postgres),
});
const scaled = (micros: Micros, factor: number): Micros => combined(micros, micros, (one) => one * factor);
const sum = (micros: Micros): number => PROGRAMS.reduce((total, program) => total + micros[program], 0);

function results(sides: readonly Side[]): Result[] {
  const cost = ({ heartbeat }: Side, program: Program) => median(heartbeat.map((turn) => turn[program]));
  const total = ({ heartbeat }: Side) => median(heartbeat.map(sum));
  const standing = ({ idle }: Side, program: Program) => median(idle.map((turn) => turn[program]));
  const of = (nodes: number, isWatched: boolean) => {
    const side = sides.find((one) => one.nodes === nodes && one.isWatched === isWatched);
    if (side === undefined) throw new Error(`${nodes} servers were not measured.`);
    return side;
  };
  const most = Math.max(...NODES);
  const measured: Record<string, number> = {};
  for (const side of sides) {
    const name = `${side.isWatched ? 'watched' : 'nodes'}${side.nodes}`;
    measured[`${name}Micros`] = rounded(total(side), 1);
    for (const program of PROGRAMS) {
      measured[`${name}MicrosOf${program[0]?.toUpperCase()}${program.slice(1)}`] = rounded(
        cost(side, program),
        1,
      );
    }
    measured[`${name}IdleMillisEach`] = rounded(median(side.idle.map(sum)) / 1000 / side.nodes, 1);
  }
  const large = of(most, false);
  const perSecond = FLEET / HEARTBEAT_EVERY_SECONDS;
  const servers = FLEET / DEVICES_A_SERVER;
  const cores = (program: Program) =>
    (cost(large, program) * perSecond + (standing(large, program) / large.nodes) * servers) / 1e6;
  for (const program of PROGRAMS) measured[`millionDevicesCoresOf${program}`] = rounded(cores(program), 2);
  return [
    {
      what: 'processor time of servers, Redis and Postgres for a heartbeat, 8 servers relative to one',
      value: rounded(total(large) / total(of(1, false))),
      unit: 'ratio',
      better: 'lower',
      target: 1.25,
      stretchTarget: 1.1,
      measured,
    },
    {
      what: 'the same with a dashboard on one of the 8 servers that shows all devices',
      value: rounded(total(of(most, true)) / total(of(1, false))),
      unit: 'ratio',
      better: 'lower',
      target: 2,
      measured: {},
    },
  ];
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
