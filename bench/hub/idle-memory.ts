import { enrolledDevices } from './enrolled-devices.ts';
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
import { addressesOf, startLoad } from './load/load-process.ts';

const DEVICES = 10_000;
const WARM_UP_DEVICES = 1000;
const TURNS = 3;
/**
 * Flags of both servers. Without them the amount of memory that V8 returns to the system differs by tens of megabytes
 * from start to start: half-empty pages of the old generation, and the young generation, whose size depends on the
 * earlier load.
 */
const NODE_FLAGS = ['--expose-gc', '--compact-on-every-full-gc', '--max-semi-space-size=1'];
/** The time to write presence and to release the buffers of the handshakes. */
const SETTLE_MS = 5000;

/**
 * Resident memory of a server per connected device, after forced compacting collections: the memory with 10,000
 * devices, each of which has sent one heartbeat, minus the memory of the same process before. The figure is this
 * value for Muster minus the value for plain Socket.IO, which discards the heartbeats. New processes each time,
 * alternating; medians.
 */
export const idleMemory: Figure = {
  number: 2,
  title: 'Resident memory per connected device above plain Socket.IO, 10,000 idle devices',
  async measure() {
    stayOn(LOAD_CORE);
    const fleet = await enrolledDevices(DEVICES);
    const env = { ...LIFTED_ADMISSION, BENCH_HEARTBEAT_SECONDS: '600', ...onDatabase(fleet.database) };
    const muster: PerDevice[] = [];
    const plain: PerDevice[] = [];
    for (let turn = 0; turn < TURNS; turn++) {
      muster.push(await perDevice('muster', fleet.tokens, env));
      plain.push(await perDevice('plain-socket-io', fleet.tokens, env));
    }
    await fleet.database.drop();
    const of = (turns: PerDevice[], part: keyof PerDevice) =>
      rounded(median(turns.map((turn) => turn[part])));
    const measured = {
      musterRssKiB: of(muster, 'rssKiB'),
      plainRssKiB: of(plain, 'rssKiB'),
      musterHeapKiB: of(muster, 'heapKiB'),
      plainHeapKiB: of(plain, 'heapKiB'),
      musterExternalKiB: of(muster, 'externalKiB'),
      plainExternalKiB: of(plain, 'externalKiB'),
      musterRssKiBMin: rounded(Math.min(...muster.map(({ rssKiB }) => rssKiB))),
      musterRssKiBMax: rounded(Math.max(...muster.map(({ rssKiB }) => rssKiB))),
    };
    return [
      {
        what: 'memory per device above plain Socket.IO',
        value: rounded(measured.musterRssKiB - measured.plainRssKiB),
        unit: 'KiB',
        better: 'lower',
        target: 1,
        stretchTarget: -1.5,
        measured,
      },
    ];
  },
};

interface PerDevice {
  rssKiB: number;
  heapKiB: number;
  externalKiB: number;
}

async function perDevice(
  name: 'muster' | 'plain-socket-io',
  tokens: string[],
  env: Record<string, string>,
): Promise<PerDevice> {
  const server = await startMeasured(name, { env, nodeFlags: NODE_FLAGS });
  const order = { kind: 'agent', port: server.port, atOnce: 100, answersAsks: true } as const;
  // Warms up what exists once per process, such as compiled code and pools, so that it is not counted per device.
  const first = await startLoad();
  await first.order('connect', {
    ...order,
    tokens: tokens.slice(0, WARM_UP_DEVICES),
    addresses: addressesOf(8),
  });
  await first.order('closedLoop', { seconds: 1, inFlight: 100 });
  await first.stop();
  // Longer than the grace period of a device.
  await pause(SETTLE_MS + 3000);
  const before = await server.measure('settled');

  const load = await startLoad();
  await load.order('connect', { ...order, tokens, addresses: addressesOf(9) });
  await load.order('openLoop', { seconds: 5, perSecond: tokens.length / 5 });
  await pause(SETTLE_MS);
  const after = await server.measure('settled');
  await load.stop();
  await server.stop();
  return {
    rssKiB: (after.rssKiB - before.rssKiB) / tokens.length,
    heapKiB: (after.heapKiB - before.heapKiB) / tokens.length,
    externalKiB: (after.externalKiB - before.externalKiB) / tokens.length,
  };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
