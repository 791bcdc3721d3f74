import { call } from '../../test/support/test-app.ts';
import { enrolledDevices } from './enrolled-devices.ts';
import {
  type Figure,
  median,
  rounded,
  LOAD_CORE,
  stayOn,
  LIFTED_ADMISSION,
  onDatabase,
  type ServerProcess,
  startMeasured,
} from './harness.ts';
import { addressesOf, startLoad } from './load/load-process.ts';

/** The number of devices of each misbehaving kind. */
const DEVICES = 1000;
const HEARTBEAT_SECONDS = 1;
const FLAPS_PER_SECOND = 50;
const ASKS_PER_SECOND = 40;
const WARM_UP_MS = 60_000;
const QUARTER_MS = 35_000;
const QUARTERS = 4;
/** Silent devices disconnect and reconnect together, which moves the heap, so samples cover two such rounds. */
const SAMPLES = 10;

/**
 * The heap of a server with misbehaving devices, in compressed time: an hour with one heartbeat per minute becomes
 * three minutes with one per second. That is 180 heartbeats per device instead of 60, 9,000 reconnects, 7,000 queries
 * without a response, and silence that is detected after 2.5 seconds instead of 150. Not compressed are the sweep
 * every second, the grace period of 5 s after a disconnect, the query timeout of 30 s, pings, and caches that expire
 * by the clock. A leak that grows only with time, not with events, would show a twentieth of its size.
 *
 * 1,000 devices flap while they send heartbeats, 1,000 receive queries without responding, and 1,000 fall silent, are
 * disconnected and reconnect. After a minute, when the number of open queries is stable, the heap is sampled ten
 * times after forced collections, and again after each quarter. The drift is the change from the first of these
 * medians to the last.
 */
export const silentDevices: Figure = {
  number: 12,
  title: 'Heap of silent and flapping devices, an hour compressed',
  async measure() {
    stayOn(LOAD_CORE);
    const fleet = await enrolledDevices(3 * DEVICES);
    const server = await startMeasured('muster', {
      env: {
        ...LIFTED_ADMISSION,
        BENCH_HEARTBEAT_SECONDS: String(HEARTBEAT_SECONDS),
        ...onDatabase(fleet.database),
      },
    });
    const loads = [];
    for (const kind of [0, 1, 2]) {
      const load = await startLoad();
      await load.order('connect', {
        kind: 'agent',
        port: server.port,
        tokens: fleet.tokens.slice(kind * DEVICES, (kind + 1) * DEVICES),
        atOnce: 50,
        addresses: addressesOf(kind),
        answersAsks: false,
      });
      loads.push(load);
    }
    const [flapping, unanswering, silent] = loads;
    const asked = askInTurn(server.url, fleet.admin.token, fleet.deviceIds.slice(DEVICES, 2 * DEVICES));
    try {
      await flapping?.order('beatEvery', { ms: HEARTBEAT_SECONDS * 1000 });
      await unanswering?.order('beatEvery', { ms: HEARTBEAT_SECONDS * 1000 });
      await flapping?.order('flap', { perSecond: FLAPS_PER_SECOND });
      await pause(WARM_UP_MS);
      const heaps: number[] = [];
      for (let quarter = 0; quarter <= QUARTERS; quarter++) {
        if (quarter > 0) await pause(QUARTER_MS);
        heaps.push(await medianHeapMiB(server));
      }
      const { flapped } = (await flapping?.order('flap', { perSecond: 0 })) ?? { flapped: 0 };
      const { commands } = (await unanswering?.order('count', {})) ?? { commands: 0 };
      const { connections } = (await silent?.order('count', {})) ?? { connections: 0 };
      const [first = 1] = heaps;
      const last = heaps.at(-1) ?? 0;
      const points = Object.fromEntries(
        heaps.map((heap, index) => [`heapMiBAfterQuarter${index}`, rounded(heap)]),
      );
      return [
        {
          what: 'heap drift',
          value: rounded(((last - first) / first) * 100),
          unit: 'percent',
          better: 'lower',
          target: 5,
          measured: {
            ...points,
            flapped,
            questionsUnanswered: commands,
            questionsEnded: asked.ended(),
            connectionsOfSilentDevices: connections,
          },
        },
      ];
    } finally {
      asked.stop();
      for (const load of loads) await load.stop();
      await server.stop();
      await fleet.database.drop();
    }
  },
};

/** Samples the heap; each sample takes a second. */
async function medianHeapMiB(server: ServerProcess): Promise<number> {
  const samples: number[] = [];
  for (let sample = 0; sample < SAMPLES; sample++) {
    samples.push((await server.measure('settled')).heapKiB / 1024);
  }
  return median(samples);
}

/** Queries the logs of one device after another at a fixed rate, without waiting for responses. */
function askInTurn(url: string, token: string, deviceIds: string[]) {
  let turn = 0;
  let ended = 0;
  const timer = setInterval(() => {
    const deviceId = deviceIds[turn++ % deviceIds.length];
    call(`${url}/api/v1/devices/${deviceId}/eventlogs/live`, 'GET', { token }).then(
      () => (ended += 1),
      // At the end, when the server has stopped.
      () => {},
    );
  }, 1000 / ASKS_PER_SECOND);
  return { ended: () => ended, stop: () => clearInterval(timer) };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
