import { call } from '../../test/support/test-app.ts';
import { enrolledDevices } from './enrolled-devices.ts';
import type { Figure } from './figure.ts';
import { addressesOf, startLoad } from './load/load-process.ts';
import { median, rounded } from './load/percentiles.ts';
import { LOAD_CORE, stayOn } from './processes.ts';
import { LIFTED_ADMISSION, onDatabase, type ServerProcess, startMeasured } from './servers/server-process.ts';

/** Each kind of bad device. */
const DEVICES = 1000;
const HEARTBEAT_SECONDS = 1;
const FLAPS_PER_SECOND = 50;
const ASKS_PER_SECOND = 40;
const WARM_UP_MS = 60_000;
const QUARTER_MS = 35_000;
const QUARTERS = 4;
/** Silent devices are cut off together and come back together, which moves the heap: over two such rounds. */
const SAMPLES = 10;

/**
 * The heap beside devices that misbehave, compressed: an hour at one heartbeat a minute becomes three minutes at one a
 * second, so 180 heartbeats a device instead of 60, 9,000 connections that end and come back, 7,000 questions that
 * nobody answers, and silence that counts after 2.5 seconds instead of 150. What is not compressed: the sweep of each
 * second, the grace of 5 s after a connection ended, the 30 s after which a question is given up, pings, and caches
 * that last by the clock. A leak that grows with time alone and not with what happens would show a twentieth of itself.
 *
 * 1,000 devices flap while they send heartbeats; 1,000 take questions and answer none; 1,000 fall silent, are cut off
 * and come back. After a minute of all that, when the questions that are open at any time have reached their number,
 * the heap is measured ten times after forced collections, and again after each quarter; the drift is from the first
 * of these medians to the last.
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
          what: 'drift of the heap',
          value: rounded(((last - first) / first) * 100),
          unit: 'percent',
          better: 'lower',
          reach: 5,
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

/** Each sample takes a second. */
async function medianHeapMiB(server: ServerProcess): Promise<number> {
  const samples: number[] = [];
  for (let sample = 0; sample < SAMPLES; sample++) {
    samples.push((await server.measure('settled')).heapKiB / 1024);
  }
  return median(samples);
}

/** Asks one device after the other for its logs, at a fixed pace, and waits for none of them. */
function askInTurn(url: string, token: string, deviceIds: string[]) {
  let turn = 0;
  let ended = 0;
  const timer = setInterval(() => {
    const deviceId = deviceIds[turn++ % deviceIds.length];
    call(`${url}/api/v1/devices/${deviceId}/eventlogs/live`, 'GET', { token }).then(
      () => (ended += 1),
      // At the end, when the server is gone.
      () => {},
    );
  }, 1000 / ASKS_PER_SECOND);
  return { ended: () => ended, stop: () => clearInterval(timer) };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
