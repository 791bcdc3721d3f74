import { type Cluster, startCluster } from './cluster.ts';
import { type Figure, type Result, median, rounded } from './harness.ts';
import { startWatchers } from './load/load-process.ts';

/** So many that within the time in which a server collects changes no device has two heartbeats. */
const DEVICES = 4000;
const IN_FLIGHT = 400;
const WARM_UP_SECONDS = 3;
const SECONDS = 5;
const TURNS = 3;
const NODES = [1, 2, 4, 8];

interface Side {
  name: string;
  cluster: Cluster;
  micros: number[];
  bytes: number[];
}

/**
 * Heartbeats of 4,000 devices that 1, 2, 4 or 8 servers hold. The figure is the CPU time of all servers and of Redis for a
 * heartbeat, without a database. A dashboard on one of 8 servers then shows all devices. All clusters run at the same time
 * and are loaded in turn; values are medians of the turns.
 */
export const clusterHeartbeats: Figure = {
  number: 14,
  title: 'Heartbeats with 1, 2, 4 and 8 servers',
  async measure() {
    const sides: Side[] = [];
    const watchers = await startWatchers();
    try {
      for (const nodes of NODES) sides.push(await startSide(`nodes${nodes}`, nodes));
      const watched = await startSide('watched8', 8);
      sides.push(watched);
      await watchers.order('watch', { port: watched.cluster.nodes[0]?.port ?? 0, count: 1 });
      for (const { cluster } of sides) await load(cluster, WARM_UP_SECONDS);
      for (let turn = 0; turn < TURNS; turn++) {
        for (const side of sides) {
          const { micros, bytes } = await load(side.cluster, SECONDS);
          side.micros.push(micros);
          side.bytes.push(bytes);
        }
      }
      return results(sides);
    } finally {
      await watchers.stop();
      for (const { cluster } of sides) await cluster.stop();
    }
  },
};

async function startSide(name: string, nodes: number): Promise<Side> {
  const cluster = await startCluster({ kind: 'hub', nodes, devicesEach: DEVICES / nodes });
  return { name, cluster, micros: [], bytes: [] };
}

async function load(cluster: Cluster, seconds: number) {
  const cpuBefore = cluster.cpuMicros();
  const bytesBefore = await cluster.busBytes();
  const { roundTrips } = await cluster.load.order('closedLoop', { seconds, inFlight: IN_FLIGHT });
  return {
    micros: (cluster.cpuMicros() - cpuBefore) / roundTrips,
    bytes: ((await cluster.busBytes()) - bytesBefore) / roundTrips,
  };
}

function results(sides: readonly Side[]): Result[] {
  const of = (name: string, read: (side: Side) => number[]) =>
    median(sides.filter((side) => side.name === name).flatMap(read));
  const micros = (name: string) => of(name, (side) => side.micros);
  const measured = Object.fromEntries(
    sides.flatMap(({ name }) => [
      [`${name}Micros`, rounded(micros(name), 1)],
      [
        `${name}BusBytes`,
        rounded(
          of(name, (side) => side.bytes),
          1,
        ),
      ],
    ]),
  );
  return [
    {
      what: 'CPU time per heartbeat that no dashboard shows, with 8 servers, relative to one',
      value: rounded(micros('nodes8') / micros('nodes1')),
      unit: 'ratio',
      better: 'lower',
      target: 1.25,
      stretchTarget: 1.1,
      measured,
    },
    {
      what: 'the same with a dashboard on one of the servers that shows all devices',
      value: rounded(micros('watched8') / micros('nodes1')),
      unit: 'ratio',
      better: 'lower',
      target: 2,
      measured,
    },
  ];
}
