import { type Figure, type Result, median, rounded, SERVER_CORE, startProcess } from './harness.ts';
import { startWatchers } from './load/load-process.ts';
import type { Usage } from './servers/measured.ts';

const WATCHERS = 1000;
const DEVICES = 500;
const PER_SECOND = 80;
/** The window of the dashboard feed. */
const WINDOW_MS = 250;
const WARM_UP_SECONDS = 3;
const SECONDS = 8;
const TURNS = 3;

/**
 * 1,000 dashboards watch all devices of one organization, of which 80 change per second, as 4,800 devices with a
 * heartbeat per minute would; that is 20 per window. The hub combines the changes of 250 ms into one frame per
 * dashboard; the baseline sends every change at once to a room. The figure is the server's CPU time per change and
 * dashboard. The delay is measured from a change to its reading at every 50th dashboard, beyond the 250 ms window.
 * The servers are loaded in turn; values are medians of the turns.
 */
export const fanOut: Figure = {
  number: 9,
  title: 'Device changes sent to 1,000 dashboards',
  async measure() {
    const muster = await startSide('feed-hub');
    const plain = await startSide('plain-feed');
    try {
      for (const side of [muster, plain]) await side.load(WARM_UP_SECONDS);
      const musterTurns = [];
      const plainTurns = [];
      for (let turn = 0; turn < TURNS; turn++) {
        musterTurns.push(await muster.load(SECONDS));
        plainTurns.push(await plain.load(SECONDS));
      }
      return results(musterTurns, plainTurns);
    } finally {
      await muster.stop();
      await plain.stop();
    }
  },
};

async function startSide(script: 'feed-hub' | 'plain-feed') {
  const server = await startProcess(`servers/${script}.ts`, {
    cores: SERVER_CORE,
    env: { BENCH_DEVICES: String(DEVICES) },
  });
  const watchers = await startWatchers();
  await watchers.order('watch', { port: Number(new URL(server.greeting).port), count: WATCHERS });
  const cpuMicros = async () => ((await server.call('usage', {})) as Usage).cpuMicros;
  return {
    async load(seconds: number) {
      await watchers.order('seen', {});
      const before = await cpuMicros();
      const updates = Number(await server.call('change', { perSecond: PER_SECOND, seconds }));
      // The last window, plus time for a busy machine.
      await new Promise((resolve) => setTimeout(resolve, 2000));
      const micros = (await cpuMicros()) - before;
      const seen = await watchers.order('seen', {});
      if (seen.updatesSeen !== updates * seen.lookers) {
        throw new Error(`${script}: ${updates} changes, ${JSON.stringify(seen)}`);
      }
      return { micros: micros / updates / WATCHERS, ...seen };
    },
    async stop() {
      await watchers.stop();
      await server.stop();
    },
  };
}

interface Turn {
  micros: number;
  delayP99: number;
  frames: number;
}

function results(muster: readonly Turn[], plain: readonly Turn[]): Result[] {
  const medianOf = (turns: readonly Turn[], read: (turn: Turn) => number) =>
    rounded(median(turns.map(read)), 3);
  const measured = {
    musterMicros: medianOf(muster, ({ micros }) => micros),
    plainSocketIoMicros: medianOf(plain, ({ micros }) => micros),
    musterFrames: medianOf(muster, ({ frames }) => frames),
    plainSocketIoFrames: medianOf(plain, ({ frames }) => frames),
    musterDelayP99Ms: medianOf(muster, ({ delayP99 }) => delayP99),
    plainSocketIoDelayP99Ms: medianOf(plain, ({ delayP99 }) => delayP99),
  };
  return [
    {
      what: 'CPU time per change and dashboard, relative to plain Socket.IO',
      value: rounded(measured.musterMicros / measured.plainSocketIoMicros, 3),
      unit: 'ratio',
      better: 'lower',
      target: 0.15,
      stretchTarget: 0.06,
      measured,
    },
    {
      what: 'p99 delay of a change beyond the window',
      value: measured.musterDelayP99Ms - WINDOW_MS,
      unit: 'ms',
      better: 'lower',
      target: 100,
      stretchTarget: 30,
      measured,
    },
  ];
}
