import { type EnrolledDevices, enrolledDevices } from './enrolled-devices.ts';
import type { Figure } from './figure.ts';
import type { Latencies } from './load/commands.ts';
import { addressesOf, startLoad } from './load/load-process.ts';
import { median, rounded } from './load/percentiles.ts';
import { LOAD_CORE, stayOn } from './processes.ts';
import { LIFTED_ADMISSION, onDatabase, startMeasured } from './servers/server-process.ts';

const DEVICES = 10_000;
const PER_SECOND = 5000;
/** Until what connecting has left behind is collected, and heaps have the size that this load gives them. */
const WARM_UP_SECONDS = 30;
/** Longer than a ping wave and many collections: shorter windows show what they happen to hold. */
const SECONDS = 40;
const WINDOWS = 2;
const TURNS = 3;

/**
 * How long 10,000 devices wait for the answers to 5,000 heartbeats a second, which are sent at that pace whatever the
 * server does. Muster and plain Socket.IO in turn, three new processes of each, with two windows of 40 seconds each: one
 * that waits with its fleet beside the one that is measured would collect and ping on the same core. The time is from the
 * write of the heartbeat to the read of its answer; how late the load itself was is told beside it.
 */
export const ackLatency: Figure = {
  number: 3,
  title: 'Heartbeat answer p99, 10,000 devices, 5,000 a second',
  async measure() {
    stayOn(LOAD_CORE);
    const fleet = await enrolledDevices(DEVICES);
    const muster: Latencies[] = [];
    const plain: Latencies[] = [];
    try {
      for (let turn = 0; turn < TURNS; turn++) {
        muster.push(...(await windowsOf('muster', fleet)));
        plain.push(...(await windowsOf('plain-socket-io', fleet)));
      }
    } finally {
      await fleet.database.drop();
    }
    const of = (windows: Latencies[], part: keyof Latencies) => median(windows.map((window) => window[part]));
    const all = (name: string, windows: Latencies[]) => ({
      [`${name}P50Ms`]: of(windows, 'p50'),
      [`${name}P99Ms`]: of(windows, 'p99'),
      [`${name}P99MsLeast`]: Math.min(...windows.map(({ p99 }) => p99)),
      [`${name}P99MsMost`]: Math.max(...windows.map(({ p99 }) => p99)),
      [`${name}P999Ms`]: of(windows, 'p999'),
      [`${name}Unsent`]: windows.reduce((sum, { skipped }) => sum + skipped, 0),
      [`${name}LoadLateP99Ms`]: of(windows, 'loadLateP99'),
    });
    return [
      {
        what: 'heartbeat answer p99, of plain Socket.IO',
        value: rounded(of(muster, 'p99') / of(plain, 'p99')),
        unit: 'ratio',
        better: 'lower',
        reach: 1,
        stretch: 0.5,
        measured: { ...all('muster', muster), ...all('plain', plain) },
      },
    ];
  },
};

async function windowsOf(
  name: 'muster' | 'plain-socket-io',
  { database, tokens }: EnrolledDevices,
): Promise<Latencies[]> {
  const env = { ...LIFTED_ADMISSION, BENCH_HEARTBEAT_SECONDS: '600', ...onDatabase(database) };
  // As it is started anywhere: no flags.
  const server = await startMeasured(name, { env, nodeFlags: [] });
  const load = await startLoad();
  try {
    await load.order('connect', {
      kind: 'agent',
      port: server.port,
      tokens,
      atOnce: 100,
      addresses: addressesOf(0),
      answersAsks: true,
    });
    await load.order('openLoop', { seconds: WARM_UP_SECONDS, perSecond: PER_SECOND });
    const windows = [];
    for (let window = 0; window < WINDOWS; window++) {
      windows.push(await load.order('openLoop', { seconds: SECONDS, perSecond: PER_SECOND }));
    }
    return windows;
  } finally {
    await load.stop();
    await server.stop();
  }
}
