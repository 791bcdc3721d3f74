import type { ChildProcess } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { eventually } from './eventually.ts';
import { lastingPort } from './lasting-port.ts';
import { answering, askRedis, killRedis, redisOrSkip, runRedis, SETTINGS, startedOrSkip } from './redis.ts';

/** Several servers of Redis that stand in for each other, each a real program of the test's own. */
export interface RedisGroup {
  url: string;
  /** Of its programs, as it was started. */
  readonly pids: number[];
  /** Of all its servers, Sentinels too. */
  readonly ports: number[];
  /** The ports of the servers that hold keys now, which are the same words until one takes over. */
  masters(): Promise<number[]>;
  /** Which of them holds a key. */
  masterOf(key: string): Promise<number>;
  /** Ends a server at once, as a crash would, and waits for nothing. */
  kill(port: number): Promise<void>;
  /** Starts it again, empty. */
  start(port: number): Promise<void>;
  freeze(port: number): void;
  thaw(port: number): void;
  ask(port: number, ...words: string[]): Promise<string>;
  remove(): Promise<void>;
}

const MASTERS = 3;
const SLOTS = 16_384;
/** After so long a silence the others give up a server. Shorter ones come from a busy machine. */
const NODE_TIMEOUT_MS = 2000;

/** Starts and ends the programs of a group. */
class Programs {
  readonly #dirs: string[] = [];
  readonly #running = new Map<number, { child: ChildProcess; args: string[] }>();
  readonly #killOnExit = () => {
    for (const { child } of this.#running.values()) child.kill('SIGKILL');
  };

  constructor() {
    process.once('exit', this.#killOnExit);
  }

  async dir(): Promise<string> {
    const dir = await mkdtemp(path.join(tmpdir(), 'muster-redis-'));
    this.#dirs.push(dir);
    return dir;
  }

  async start(port: number, args: string[] = this.#running.get(port)?.args ?? []): Promise<void> {
    const child = await runRedis(args);
    this.#running.set(port, { child, args });
    await answering(port, child);
  }

  get pids(): number[] {
    return [...this.#running.values()].flatMap(({ child }) => child.pid ?? []);
  }

  get ports(): number[] {
    return [...this.#running.keys()];
  }

  kill = (port: number) => killRedis(this.#running.get(port)?.child);
  signal = (port: number, signal: NodeJS.Signals) => void this.#running.get(port)?.child.kill(signal);

  async remove(): Promise<void> {
    process.off('exit', this.#killOnExit);
    await Promise.all([...this.#running.keys()].map(this.kill));
    await Promise.all(this.#dirs.map((dir) => rm(dir, { recursive: true, force: true })));
  }
}

/** A Redis Cluster of three masters with a replica each. Rejects with ENOENT where the program is not installed. */
export async function startCluster(): Promise<RedisGroup> {
  const programs = new Programs();
  try {
    const nodes: { port: number; busPort: number; id: string }[] = [];
    for (let at = 0; at < 2 * MASTERS; at++) {
      const [port, busPort] = [await lastingPort(), await lastingPort()];
      const place = [
        '--port',
        String(port),
        '--cluster-port',
        String(busPort),
        '--dir',
        await programs.dir(),
      ];
      const limits = [
        '--cluster-node-timeout',
        String(NODE_TIMEOUT_MS),
        '--cluster-replica-validity-factor',
        '0',
      ];
      const soon = ['--repl-diskless-sync-delay', '0'];
      await programs.start(port, [...SETTINGS, ...place, '--cluster-enabled', 'yes', ...limits, ...soon]);
      const id = /[0-9a-f]{40}/.exec(await askRedis(port, ['CLUSTER', 'MYID']))?.[0] ?? '';
      nodes.push({ port, busPort, id });
    }
    const [first] = nodes;
    if (first === undefined) throw new Error('There is no server.');
    for (const { port, busPort } of nodes.slice(1)) {
      await askRedis(first.port, ['CLUSTER', 'MEET', '127.0.0.1', String(port), String(busPort)]);
    }
    const share = Math.ceil(SLOTS / MASTERS);
    for (const [at, { port }] of nodes.slice(0, MASTERS).entries()) {
      const last = Math.min(SLOTS, (at + 1) * share) - 1;
      await askRedis(port, ['CLUSTER', 'ADDSLOTSRANGE', String(at * share), String(last)]);
    }
    for (const [at, { port }] of nodes.slice(MASTERS).entries()) {
      // Until it has heard of its master it refuses.
      await eventually(
        () => askRedis(port, ['CLUSTER', 'REPLICATE', nodes[at]?.id ?? '']),
        (answer) => answer.startsWith('+OK'),
      );
    }
    for (const { port } of nodes) {
      await eventually(
        () => askRedis(port, ['CLUSTER', 'INFO']),
        (info) => info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${nodes.length}`),
      );
    }
    for (const { port } of nodes.slice(MASTERS)) await isLinked(port);
    const slots = async () => slotsOf(nodes.map(({ port }) => port));
    return {
      // Any of them tells of the others.
      url: `redis+cluster://${nodes
        .slice(0, 2)
        .map(({ port }) => `127.0.0.1:${port}`)
        .join(',')}`,
      async masters() {
        // One that has just come back takes itself for the master of its slots, and does not know of another one.
        const roles = await Promise.all(nodes.map(({ port }) => askRedis(port, ['ROLE']).catch(() => '')));
        const byRole = nodes.filter((_node, at) => roles[at]?.includes('master') === true);
        return [...new Set([...(await slots()), ...byRole].map(({ port }) => port))];
      },
      async masterOf(key) {
        const slot = Number(/\d+/.exec(await anyAnswer(nodes, ['CLUSTER', 'KEYSLOT', key]))?.[0]);
        const holder = (await slots()).find(({ from, to }) => slot >= from && slot <= to);
        if (holder === undefined) throw new Error(`No server has slot ${slot}.`);
        return holder.port;
      },
      ...controls(programs),
    };
  } catch (error) {
    await programs.remove();
    throw error;
  }
}

/** A master, its replica and a Sentinel. Rejects with ENOENT where the program is not installed. */
async function startSentinel(): Promise<RedisGroup> {
  const programs = new Programs();
  try {
    const [first, second, sentinel] = [await lastingPort(), await lastingPort(), await lastingPort()];
    for (const port of [first, second]) {
      const place = ['--port', String(port), '--dir', await programs.dir()];
      await programs.start(port, [...SETTINGS, ...place, '--repl-diskless-sync-delay', '0']);
    }
    await askRedis(second, ['REPLICAOF', '127.0.0.1', String(first)]);
    await isLinked(second);
    const file = path.join(await programs.dir(), 'sentinel.conf');
    await writeFile(
      file,
      [
        `port ${sentinel}`,
        'bind 127.0.0.1',
        `sentinel monitor mymaster 127.0.0.1 ${first} 1`,
        `sentinel down-after-milliseconds mymaster ${NODE_TIMEOUT_MS}`,
        'sentinel failover-timeout mymaster 10000',
      ].join('\n'),
    );
    await programs.start(sentinel, [file, '--sentinel']);
    await eventually(
      () => askRedis(sentinel, ['SENTINEL', 'MASTER', 'mymaster']),
      (answer) => /num-slaves\r\n\$1\r\n1/.test(answer),
    );
    const master = async () => {
      const answer = await askRedis(sentinel, ['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'mymaster']);
      return Number(/(\d+)\r\n$/.exec(answer)?.[1]);
    };
    return {
      url: `redis+sentinel://127.0.0.1:${sentinel}/mymaster`,
      masters: async () => [await master()],
      masterOf: master,
      ...controls(programs),
    };
  } catch (error) {
    await programs.remove();
    throw error;
  }
}

const controls = (programs: Programs) => ({
  pids: programs.pids,
  ports: programs.ports,
  kill: programs.kill,
  start: (port: number) => programs.start(port),
  freeze: (port: number) => programs.signal(port, 'SIGSTOP'),
  thaw: (port: number) => programs.signal(port, 'SIGCONT'),
  ask: (port: number, ...words: string[]) => askRedis(port, words),
  remove: () => programs.remove(),
});

const isLinked = (replica: number) =>
  eventually(
    () => askRedis(replica, ['INFO', 'replication']),
    (info) => info.includes('master_link_status:up'),
  );

async function anyAnswer(nodes: readonly { port: number }[], words: string[]): Promise<string> {
  return Promise.any(nodes.map(({ port }) => askRedis(port, words)));
}

/** Which master has which slots, by the word of a server that says that all are served. */
async function slotsOf(ports: readonly number[]) {
  const answer = await Promise.any(
    ports.map(async (port) => {
      const info = await askRedis(port, ['CLUSTER', 'INFO']);
      if (!info.includes('cluster_state:ok')) throw new Error('not whole');
      return askRedis(port, ['CLUSTER', 'NODES']);
    }),
  );
  return answer.split('\n').flatMap((line) => {
    // id, address, flags, its master, ping, pong, epoch, link, and then its slots
    const [, address = '', flags = '', , , , , , ...ranges] = line.trim().split(' ');
    if (!flags.includes('master') || flags.includes('fail')) return [];
    const port = Number(/:(\d+)@/.exec(address)?.[1]);
    return ranges.map((range) => {
      const [from = 0, to = from] = range.split('-').map(Number);
      return { port, from, to };
    });
  });
}

const startedGroup = {
  'a Redis Cluster': startCluster,
  'Redis with Sentinel': startSentinel,
};

/** The kinds of Redis in which another server takes over, each started as by `redisOrSkip`. */
export const REDIS_GROUPS = Object.entries(startedGroup).map(([kind, start]) => ({
  kind,
  startOrSkip: (hook: Mocha.Context) => startedOrSkip(hook, start),
}));

/** All kinds of Redis. */
export const REDIS_KINDS: readonly {
  kind: string;
  startOrSkip: (hook: Mocha.Context) => Promise<Pick<RedisGroup, 'url' | 'remove'>>;
}[] = [{ kind: 'one Redis', startOrSkip: redisOrSkip }, ...REDIS_GROUPS];
