import { type Cluster, startCluster } from './cluster.ts';
import type { Figure, Result } from './figure.ts';
import { median, rounded } from './load/percentiles.ts';

const WARM_UPS = 5;
const DROPS = 20;
const KILLS = 6;
const DEVICES_EACH = 5;
/** Until the question has reached the device. */
const ON_ITS_WAY_MS = 300;
/** Until a device that came back is held again, as all nodes see it. */
const CLAIMED_MS = 300;
/** The lease of a node and a second. */
const KILL_REACH_MS = 4000;
const BEAT_MS = 1000;
const QUIET_MS = 6500;

const ASKER = 0;
const HOLDER = 1;

/**
 * Devices on another node than the asker's that take questions and never answer. First every one of them loses its
 * connection in the midst of a question; then the whole node is killed (-9) at any moment of its beat. Counted is the
 * time until the asker has its answer; values are the longest of all.
 */
export const brokenOffAsks: Figure = {
  number: 7,
  title: 'Time until a question that is broken off is answered',
  async measure() {
    const kills: number[] = [];
    for (let turn = 0; turn < KILLS; turn++) {
      const phaseMs = (turn / KILLS) * BEAT_MS;
      kills.push(...(await withNodes((cluster) => killed(cluster, phaseMs))));
    }
    return [
      longest('answer after the device dropped', await withNodes(dropped), 100, 20),
      longest('answer after its node was killed', kills, KILL_REACH_MS, 3000),
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
  // A node that has only just come takes nobody for lost: it may not have heard of them yet.
  await pause(QUIET_MS + phaseMs);
  return brokenOff(cluster, 'node_lost', () => {
    process.kill(cluster.nodes[HOLDER]?.pid ?? 0, 'SIGKILL');
  });
}

/** Milliseconds until each question was answered, and rightly. */
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
    if (how !== expected) throw new Error(`it ended as ${how}`);
    return at - brokenAt;
  });
}

function longest(what: string, times: readonly number[], reach: number, stretch: number): Result {
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
    reach,
    stretch,
    measured,
  };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
