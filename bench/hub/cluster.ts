import { startRedis, type TestRedis } from '../../test/support/redis.ts';
import { addressesOf, type LoadProcess, startLoad } from './load/load-process.ts';
import { ANY_CORE, cpuMicrosOf, type OwnProcess, startProcess } from './harness.ts';
import type { AskingCommands } from './servers/asking.ts';

/** Handshakes in progress while devices connect. */
const AT_ONCE = 50;

export type NodeKind = 'hub' | 'classic' | 'sharded';

export interface Node {
  pid: number;
  port: number;
  ask<C extends keyof AskingCommands>(
    command: C,
    order: AskingCommands[C]['ask'],
  ): Promise<AskingCommands[C]['answer']>;
}

/**
 * Nodes with their own Redis, each with devices that respond at once. One load process runs the devices of all nodes.
 */
export interface Cluster {
  nodes: readonly Node[];
  load: LoadProcess;
  /** Reconnects the devices if they were closed. */
  connect(): Promise<void>;
  /** The devices of a node, given its number. */
  devicesOf(node: number): string[];
  /** The bytes that Redis has been sent since it started. */
  busBytes(): Promise<number>;
  /** User and system CPU time of all nodes and their Redis since they started, in microseconds. */
  cpuMicros(): number;
  stop(): Promise<void>;
}

let clusters = 0;

export async function startCluster(options: {
  kind: NodeKind;
  nodes: number;
  devicesEach: number;
  /** False if devices only acknowledge the query. */
  answersAsks?: boolean;
}): Promise<Cluster> {
  const { kind, devicesEach } = options;
  const redis = await startRedis();
  const started: OwnProcess[] = [];
  const load = await startLoad(ANY_CORE);
  const addresses = addressesOf(clusters++ % 200);
  const devicesOf = (node: number) =>
    Array.from({ length: devicesEach }, (_value, device) => `device-${node}-${device}`);
  const stop = async () => {
    await load.stop();
    await Promise.all(started.map((node) => node.stop()));
    await redis.remove();
  };
  try {
    for (let at = 0; at < options.nodes; at++) started.push(await startNode(kind, redis, at));
    const nodes = started.map(asNode);
    const connect = async () => {
      for (const [at, { port }] of nodes.entries()) {
        await load.order('connect', {
          kind: 'agent',
          port,
          tokens: devicesOf(at),
          atOnce: AT_ONCE,
          addresses,
          // With Socket.IO the acknowledgement is the response; the hub's devices also send a result.
          answersAsks: kind === 'hub' && (options.answersAsks ?? true),
        });
      }
    };
    await connect();
    const pids = [redis.pid, ...started.map(({ pid }) => pid)];
    return {
      nodes,
      load,
      connect,
      devicesOf,
      async busBytes() {
        const [, bytes] = /total_net_input_bytes:(\d+)/.exec(await redis.ask('INFO', 'stats')) ?? [];
        return Number(bytes);
      },
      cpuMicros: () => pids.reduce((sum, pid) => sum + cpuMicrosOf(pid), 0),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function startNode(kind: NodeKind, redis: TestRedis, at: number): Promise<OwnProcess> {
  return startProcess(kind === 'hub' ? 'servers/hub-node.ts' : 'servers/adapter-node.ts', {
    cores: ANY_CORE,
    env: { BENCH_REDIS_URL: redis.url, BENCH_NODE_ID: `node-${at}`, BENCH_ADAPTER: kind },
  });
}

const asNode = (started: OwnProcess): Node => ({
  pid: started.pid,
  port: Number(new URL(started.greeting).port),
  // The table defines the response to each command.
  ask: (command, order) => started.call(command, order) as Promise<never>,
});
