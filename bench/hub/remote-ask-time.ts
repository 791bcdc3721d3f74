import { startCluster } from './cluster.ts';
import { type Figure, median, rounded } from './harness.ts';

const DEVICES_EACH = 50;
const SECONDS = 2;
const TURNS = 7;

/**
 * Queries, one at a time, to devices on the same node, alternating with queries to devices on another node. The cost
 * of the way through the cluster is the difference between the two medians of a turn; the value is the median of
 * these differences.
 */
export const remoteAskTime: Figure = {
  number: 5,
  title: 'Increase of the query time if the device is on another node',
  async measure() {
    const cluster = await startCluster({ kind: 'hub', nodes: 2, devicesEach: DEVICES_EACH });
    const medianTime = async (node: number, seconds = SECONDS) => {
      const order = { deviceIds: cluster.devicesOf(node), inFlight: 1, seconds };
      const tally = await cluster.nodes[0]?.ask('ask', order);
      if (tally?.answered !== tally?.asked) throw new Error(JSON.stringify(tally));
      return tally?.p50 ?? 0;
    };
    try {
      for (const node of [0, 1]) await medianTime(node);
      const local: number[] = [];
      const remote: number[] = [];
      for (let turn = 0; turn < TURNS; turn++) {
        local.push(await medianTime(0));
        remote.push(await medianTime(1));
      }
      const extra = remote.map((ms, turn) => ms - (local[turn] ?? 0));
      return [
        {
          what: 'median query time, another node minus the same node',
          value: rounded(median(extra), 3),
          unit: 'ms',
          better: 'lower',
          target: 0.5,
          stretchTarget: 0.3,
          measured: {
            localP50Ms: median(local),
            remoteP50Ms: median(remote),
            extraMinMs: rounded(Math.min(...extra), 3),
            extraMaxMs: rounded(Math.max(...extra), 3),
          },
        },
      ];
    } finally {
      await cluster.stop();
    }
  },
};
