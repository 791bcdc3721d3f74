import { type EnrolledDevices, enrolledDevices } from './enrolled-devices.ts';
import {
  type Figure,
  median,
  rounded,
  LOAD_CORE,
  stayOn,
  LIFTED_ADMISSION,
  onDatabase,
  startMeasured,
} from './harness.ts';
import { type Latencies, addressesOf, startLoad } from './load/load-process.ts';

const DEVICES = 10_000;
const PER_SECOND = 5000;
/** The time after which garbage from connecting has been collected and the heap has its size under this load. */
const WARM_UP_SECONDS = 30;
/** Longer than the ping interval and many garbage collections; in shorter windows the result depends on chance. */
const SECONDS = 40;
const WINDOWS = 2;
const TURNS = 3;

/**
 * Measures how long 10,000 devices wait for responses to 5,000 heartbeats per second, sent at a fixed rate. Muster
 * and plain Socket.IO alternate, with three new processes each and two windows of 40 seconds per process. Only one
 * server runs at a time, because a waiting one would collect garbage and send pings on the same core. The time is
 * measured from writing the heartbeat to reading its response. The delay of the load generator itself is reported
 * separately.
 */
export const ackLatency: Figure = {
  number: 3,
  title: 'Heartbeat response p99, 10,000 devices, 5,000 heartbeats per second',
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
        what: 'heartbeat response p99, relative to plain Socket.IO',
        value: rounded(of(muster, 'p99') / of(plain, 'p99')),
        unit: 'ratio',
        better: 'lower',
        target: 1,
        stretchTarget: 0.5,
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
  // Started without flags, as in production.
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
