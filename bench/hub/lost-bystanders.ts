import { type NodeKind, startCluster } from './cluster.ts';
import type { Figure } from './harness.ts';

const DEVICES_EACH = 50;
const IN_FLIGHT = 20;
const CALM_MS = 2000;
/** Longer than a lease, so that the node is declared lost, and longer than the baseline's timeout. */
const HUNG_MS = 7000;
const KILLED_MS = 6000;
const SECONDS = (CALM_MS + HUNG_MS + KILLED_MS) / 1000;

const ASKER = 0;
const HOLDER = 1;
const HUNG = 2;
const KILLED = 3;

/**
 * The first of four nodes queries devices of the second continuously. Meanwhile the third, which holds none of these
 * devices, is paused (SIGSTOP), and then the fourth is killed. No query may be lost. The official adapter, for
 * comparison, asks every node, including those that cannot respond.
 */
export const lostBystanders: Figure = {
  number: 6,
  title: 'Queries lost while uninvolved nodes hang and die',
  async measure() {
    const muster = await askMeanwhile('hub');
    const classic = await askMeanwhile('classic');
    return [
      {
        what: 'queries without a response',
        value: muster.asked - muster.answered,
        unit: 'queries',
        better: 'lower',
        target: 0,
        measured: {
          musterAsked: muster.asked,
          musterAnswered: muster.answered,
          musterSlowestMs: muster.max,
          classicAsked: classic.asked,
          classicAnswered: classic.answered,
        },
      },
    ];
  },
};

async function askMeanwhile(kind: NodeKind) {
  const cluster = await startCluster({ kind, nodes: 4, devicesEach: DEVICES_EACH });
  const pidOf = (node: number) => cluster.nodes[node]?.pid ?? 0;
  let isHung = false;
  try {
    const order = { deviceIds: cluster.devicesOf(HOLDER), inFlight: IN_FLIGHT, seconds: SECONDS };
    const asking = cluster.nodes[ASKER]?.ask('ask', order);
    await pause(CALM_MS);
    process.kill(pidOf(HUNG), 'SIGSTOP');
    isHung = true;
    await pause(HUNG_MS);
    process.kill(pidOf(KILLED), 'SIGKILL');
    const tally = await asking;
    if (tally === undefined) throw new Error('The asking node returned no tally.');
    return tally;
  } finally {
    if (isHung) process.kill(pidOf(HUNG), 'SIGCONT');
    await cluster.stop();
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
