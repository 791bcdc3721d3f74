import { type Cluster, startCluster } from './cluster.ts';
import { type Figure, type Result, median, rounded } from './harness.ts';

const DEVICES_EACH = 200;
const IN_FLIGHT = 100;
const WARM_UP_SECONDS = 3;
const SECONDS = 5;
const TURNS = 3;

interface Side {
  name: string;
  cluster: Cluster;
  deviceIds: string[];
  micros: number[];
  perSecond: number[];
}

/**
 * The first node of a cluster queries devices of other nodes, with 100 queries in progress at any time. Every node
 * has 200 devices, which respond at once. The figure is the CPU time of all nodes and of Redis per query. The
 * baselines are the official adapters of Socket.IO with 8 nodes, in their best configuration, querying the room of a
 * single device. There the acknowledgement is the response, while the hub's device acknowledges and then sends a
 * result. All clusters run at the same time and are loaded in turn; values are medians of the turns.
 */
export const crossNodeAsks: Figure = {
  number: 4,
  title: 'Queries to devices on other nodes, 2 and 8 nodes',
  async measure() {
    const sides: Side[] = [];
    const clusters: Cluster[] = [];
    const start = async (kind: 'hub' | 'classic' | 'sharded', nodes: number) => {
      const cluster = await startCluster({ kind, nodes, devicesEach: DEVICES_EACH });
      clusters.push(cluster);
      return cluster;
    };
    const add = (name: string, cluster: Cluster, deviceIds: string[]) =>
      sides.push({ name, cluster, deviceIds, micros: [], perSecond: [] });
    try {
      const two = await start('hub', 2);
      add('hub2', two, two.devicesOf(1));
      const eight = await start('hub', 8);
      add('hub8', eight, eight.devicesOf(1));
      add('hub8Spread', eight, inTurn([1, 2, 3, 4, 5, 6, 7].map((node) => eight.devicesOf(node))));
      const classic = await start('classic', 8);
      add('classic8', classic, classic.devicesOf(1));
      const sharded = await start('sharded', 8);
      add('sharded8', sharded, sharded.devicesOf(1));
      for (const side of sides) await load(side, WARM_UP_SECONDS);
      for (let turn = 0; turn < TURNS; turn++) {
        for (const side of sides) {
          const { micros, perSecond } = await load(side, SECONDS);
          side.micros.push(micros);
          side.perSecond.push(perSecond);
        }
      }
      return results(sides);
    } finally {
      for (const cluster of clusters) await cluster.stop();
    }
  },
};

async function load({ name, cluster, deviceIds }: Side, seconds: number) {
  const before = cluster.cpuMicros();
  const tally = await cluster.nodes[0]?.ask('ask', { deviceIds, inFlight: IN_FLIGHT, seconds });
  if (tally === undefined || tally.answered !== tally.asked) {
    throw new Error(`${name}: ${JSON.stringify(tally)}`);
  }
  return {
    micros: (cluster.cpuMicros() - before) / tally.answered,
    perSecond: tally.answered / tally.seconds,
  };
}

/** The first element of each list, then the second of each, and so on. */
const inTurn = (lists: string[][]): string[] =>
  (lists[0] ?? []).flatMap((_first, at) => lists.map((list) => list[at] ?? ''));

function results(sides: readonly Side[]): Result[] {
  const of = (name: string, read: (side: Side) => number[]) =>
    median(sides.filter((side) => side.name === name).flatMap(read));
  const micros = (name: string) => of(name, (side) => side.micros);
  const perSecond = (name: string) => of(name, (side) => side.perSecond);
  const measured = Object.fromEntries(
    sides.flatMap(({ name }) => [
      [`${name}Micros`, rounded(micros(name), 1)],
      [`${name}PerSecond`, Math.round(perSecond(name))],
    ]),
  );
  const best = Math.max(perSecond('classic8'), perSecond('sharded8'));
  const lower = { unit: 'ratio', better: 'lower', target: 1.25, stretchTarget: 1.1, measured } as const;
  return [
    {
      what: 'CPU time per query with 8 nodes, relative to 2 nodes',
      value: rounded(micros('hub8') / micros('hub2')),
      ...lower,
    },
    {
      what: 'the same, with queries to all 7 other nodes in turn',
      value: rounded(micros('hub8Spread') / micros('hub2')),
      ...lower,
    },
    {
      what: 'queries per second with 8 nodes, relative to the best official adapter',
      value: rounded(perSecond('hub8') / best),
      unit: 'ratio',
      better: 'higher',
      target: 5,
      stretchTarget: 6.5,
      measured,
    },
  ];
}
