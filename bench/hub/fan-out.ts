import type { Figure, Result } from './figure.ts';
import { startWatchers } from './load/watcher-orders.ts';
import { median, rounded } from './load/percentiles.ts';
import { SERVER_CORE, startProcess } from './processes.ts';
import type { Usage } from './servers/measured.ts';

const WATCHERS = 1000;
const DEVICES = 500;
const PER_SECOND = 80;
/** As the feed has it. */
const WINDOW_MS = 250;
const WARM_UP_SECONDS = 3;
const SECONDS = 8;
const TURNS = 3;

/**
 * 1,000 dashboards watch all devices of one organization, of which 80 change each second: what a heartbeat a minute
 * makes of 4,800, and 20 within a window of the hub. The hub gathers what changes within 250 ms in one frame for each dashboard; the baseline sends every
 * change at once to a room. Counted is the server's processor time for each change and dashboard. The delay is that
 * from a change to its reading, at every 50th dashboard, beyond the 250 ms of the window. Loaded in turn; values are
 * the medians of the turns.
 */
export const fanOut: Figure = {
  number: 9,
  title: 'Changes of devices to 1,000 dashboards',
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
      // The last window, and what a loaded machine needs beyond.
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
      what: 'processor time of a change and dashboard, of plain Socket.IO',
      value: rounded(measured.musterMicros / measured.plainSocketIoMicros, 3),
      unit: 'ratio',
      better: 'lower',
      reach: 0.15,
      stretch: 0.06,
      measured,
    },
    {
      what: 'delay of a change (p99) beyond the window',
      value: measured.musterDelayP99Ms - WINDOW_MS,
      unit: 'ms',
      better: 'lower',
      reach: 100,
      stretch: 30,
      measured,
    },
  ];
}
