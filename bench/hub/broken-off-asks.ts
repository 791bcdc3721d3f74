import { type Cluster, startCluster } from './cluster.ts';
import { type Figure, type Result, median, rounded } from './harness.ts';

const WARM_UPS = 5;
const DROPS = 20;
const KILLS = 6;
const DEVICES_EACH = 5;
/** The time for a query to reach the device. */
const ON_ITS_WAY_MS = 300;
/** The time until all nodes see the claim of a device that has reconnected. */
const CLAIMED_MS = 300;
/** The lease of a node plus a second. */
const KILL_TARGET_MS = 4000;
const BEAT_MS = 1000;
const QUIET_MS = 6500;

const ASKER = 0;
const HOLDER = 1;

/**
 * Queries devices that are on another node and never respond. First each device loses its connection during a query;
 * then the whole node is killed with -9 at a random moment of its liveness interval. The figure is the time until the
 * query is settled, the longest of all.
 */
export const brokenOffAsks: Figure = {
  number: 7,
  title: 'Time until an interrupted query is settled',
  async measure() {
    const kills: number[] = [];
    for (let turn = 0; turn < KILLS; turn++) {
      const phaseMs = (turn / KILLS) * BEAT_MS;
      kills.push(...(await withNodes((cluster) => killed(cluster, phaseMs))));
    }
    return [
      longest('response after the device disconnected', await withNodes(dropped), 100, 20),
      longest('response after the node was killed', kills, KILL_TARGET_MS, 3000),
    ];
  },
};

async function withNodes(measure: (cluster: Cluster) => Promise<number[]>): Promise<number[]> {
  const cluster = await startCluster({
    kind: 'hub',
    nodes: 2,
    devicesEach: DEVICES_EACH,
    answersAsks: false,
  });
  try {
    return await measure(cluster);
  } finally {
    await cluster.stop();
  }
}

async function dropped(cluster: Cluster): Promise<number[]> {
  const times: number[] = [];
  for (let turn = 0; turn < WARM_UPS + DROPS; turn++) {
    const taken = await brokenOff(cluster, 'disconnected', async () => {
      await cluster.load.order('close', {});
    });
    if (turn >= WARM_UPS) times.push(...taken);
    await cluster.connect();
    await pause(CLAIMED_MS);
  }
  return times;
}

async function killed(cluster: Cluster, phaseMs: number): Promise<number[]> {
  // A node that has just started declares no other node lost, because it may not have heard from it yet.
  await pause(QUIET_MS + phaseMs);
  return brokenOff(cluster, 'node_lost', () => {
    process.kill(cluster.nodes[HOLDER]?.pid ?? 0, 'SIGKILL');
  });
}

/** Milliseconds until each query was settled with the expected outcome. */
async function brokenOff(
  cluster: Cluster,
  expected: string,
  breakOff: () => Promise<void> | void,
): Promise<number[]> {
  const answers = cluster.nodes[ASKER]?.ask('askOnce', { deviceIds: cluster.devicesOf(HOLDER) });
  await pause(ON_ITS_WAY_MS);
  const brokenAt = performance.timeOrigin + performance.now();
  await breakOff();
  return ((await answers) ?? []).map(({ how, at }) => {
    if (how !== expected) throw new Error(`The query ended as ${how} instead of ${expected}.`);
    return at - brokenAt;
  });
}

function longest(what: string, times: readonly number[], target: number, stretchTarget: number): Result {
  const measured = {
    questions: times.length,
    medianMs: rounded(median(times), 1),
    shortestMs: rounded(Math.min(...times), 1),
  };
  return {
    what,
    value: rounded(Math.max(...times), 1),
    unit: 'ms',
    better: 'lower',
    target,
    stretchTarget,
    measured,
  };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
