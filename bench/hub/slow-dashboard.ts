import { type Figure, median, rounded, SERVER_CORE, startProcess } from './harness.ts';
import { startWatchers } from './load/load-process.ts';

const DEVICES = 10_000;
/** Each device changes every 2 s, thirty times as often as with real heartbeats. */
const PER_SECOND = 5000;
const READING_SECONDS = 25;
/** By then Engine.IO itself would have missed the response to a ping. */
const MOST_SECONDS = 90;
const SAMPLE_MS = 100;

/**
 * A dashboard watches 10,000 devices that change constantly. It reads for a while, then stops reading and keeps its
 * connection. The memory of the server process is sampled ten times a second after forced collections. The value is the
 * maximum from the moment the dashboard stopped until it was disconnected, minus the maximum while it read. Maxima are
 * compared because the recent changes that the hub keeps vary in size regardless of the dashboard.
 */
export const slowDashboard: Figure = {
  number: 11,
  title: 'A dashboard that stops reading while 10,000 devices change',
  async measure() {
    const server = await startProcess('servers/feed-hub.ts', {
      cores: SERVER_CORE,
      nodeFlags: ['--expose-gc'],
      env: { BENCH_DEVICES: String(DEVICES) },
    });
    const watchers = await startWatchers();
    const held = async () => (await server.call('memory', {})) as { heldKiB: number; rssKiB: number };
    try {
      await watchers.order('watch', { port: Number(new URL(server.greeting).port), count: 1 });
      const seconds = READING_SECONDS + MOST_SECONDS;
      const changing = server.call('change', { perSecond: PER_SECOND, seconds });
      const reading: number[] = [];
      const readUntil = performance.now() + READING_SECONDS * 1000;
      while (performance.now() < readUntil) {
        await pause(SAMPLE_MS);
        reading.push((await held()).heldKiB);
      }
      await watchers.order('stopReading', {});
      const stoppedAt = performance.now();
      const stopped: number[] = [];
      while ((await subscriptions(server)) > 0 && performance.now() < stoppedAt + MOST_SECONDS * 1000) {
        stopped.push((await held()).heldKiB);
        await pause(SAMPLE_MS);
      }
      const cutOffAfter = (performance.now() - stoppedAt) / 1000;
      void changing.catch(() => {});
      return [
        {
          what: 'memory for the dashboard until it is disconnected',
          value: Math.round(Math.max(...stopped) - Math.max(...reading)),
          unit: 'KiB',
          better: 'lower',
          target: 1024,
          stretchTarget: 256,
          measured: {
            readingMedianKiB: Math.round(median(reading)),
            readingMostKiB: Math.round(Math.max(...reading)),
            stoppedMedianKiB: Math.round(median(stopped)),
            stoppedMostKiB: Math.round(Math.max(...stopped)),
            cutOffAfterSeconds: rounded(cutOffAfter, 1),
          },
        },
      ];
    } finally {
      await watchers.stop();
      await server.stop();
    }
  },
};

const subscriptions = async (server: { call(command: string, ask: unknown): Promise<unknown> }) =>
  Number(await server.call('subscriptions', {}));

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
