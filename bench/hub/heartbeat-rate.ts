import { enrolledDevices } from './enrolled-devices.ts';
import {
  type Figure,
  type Result,
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
/** Heartbeats in progress at any time: enough that neither side waits for the other. */
const IN_FLIGHT = 1000;
const WARM_UP_SECONDS = 5;
const SECONDS = 6;
const TURNS = 3;

const SERVERS = [
  { name: 'muster', agentWire: 'direct' },
  { name: 'muster', agentWire: 'stock' },
  { name: 'plain-socket-io', agentWire: 'stock' },
  { name: 'raw-ws', agentWire: 'stock' },
] as const;

/**
 * Heartbeats of 431 bytes from 10,000 connected devices; each response is followed by the next heartbeat. Muster runs
 * the full path: it parses the heartbeat, passes it to the device's actor, writes it to Postgres asynchronously, and
 * responds with pending work; once on the direct path of its wire and once on the stock path. Plain Socket.IO acknowledges without reading; `ws` echoes. The rate per core is a
 * million microseconds divided by the server's CPU time per heartbeat, so that a busy machine changes little. All
 * servers are connected at the same time and loaded in turn; values are medians of the turns.
 */
export const heartbeatRate: Figure = {
  number: 1,
  title: 'Heartbeats per second and core, 10,000 devices',
  async measure() {
    stayOn(LOAD_CORE);
    const sides = [];
    for (const [index, { name, agentWire }] of SERVERS.entries()) {
      // Two servers that write the same devices would wait for each other.
      const fleet = await enrolledDevices(DEVICES);
      const env = {
        ...LIFTED_ADMISSION,
        BENCH_HEARTBEAT_SECONDS: '600',
        BENCH_AGENT_WIRE: agentWire,
        ...onDatabase(fleet.database),
      };
      const server = await startMeasured(name, { env });
      const load = await startLoad();
      await load.order('connect', {
        kind: name === 'raw-ws' ? 'echo' : 'agent',
        port: server.port,
        tokens: fleet.tokens,
        atOnce: 100,
        addresses: addressesOf(index),
        answersAsks: true,
      });
      sides.push({ fleet, server, load, micros: [] as number[] });
    }
    try {
      for (const { load } of sides) {
        await load.order('closedLoop', { seconds: WARM_UP_SECONDS, inFlight: IN_FLIGHT });
      }
      for (let turn = 0; turn < TURNS; turn++) {
        for (const { server, load, micros } of sides) {
          const before = await server.measure('usage');
          const { roundTrips } = await load.order('closedLoop', { seconds: SECONDS, inFlight: IN_FLIGHT });
          const after = await server.measure('usage');
          micros.push((after.cpuMicros - before.cpuMicros) / roundTrips);
        }
      }
      return results(sides.map(({ micros }) => micros));
    } finally {
      for (const { fleet, server, load } of sides) {
        await load.stop();
        await server.stop();
        await fleet.database.drop();
      }
    }
  },
};

function results([muster = [], stock = [], plain = [], raw = []]: number[][]): Result[] {
  const rates = [muster, stock, plain, raw].map((micros) => Math.round(1e6 / median(micros)));
  const [musterRate = 0, stockRate = 0, plainRate = 1, rawRate = 1] = rates;
  const measured = {
    musterPerSecondAndCore: musterRate,
    stockPathPerSecondAndCore: stockRate,
    plainSocketIoPerSecondAndCore: plainRate,
    rawWsPerSecondAndCore: rawRate,
    musterMicrosMin: rounded(Math.min(...muster)),
    musterMicrosMax: rounded(Math.max(...muster)),
    plainMicrosMin: rounded(Math.min(...plain)),
    plainMicrosMax: rounded(Math.max(...plain)),
    rawMicrosMin: rounded(Math.min(...raw)),
    rawMicrosMax: rounded(Math.max(...raw)),
  };
  const ratio = { unit: 'ratio', better: 'higher', measured } as const;
  return [
    {
      what: 'heartbeats, relative to plain Socket.IO',
      value: rounded(musterRate / plainRate),
      target: 0.95,
      ...ratio,
    },
    {
      what: 'heartbeats on the stock path, relative to plain Socket.IO',
      value: rounded(stockRate / plainRate),
      target: 0.7,
      ...ratio,
    },
    {
      what: 'heartbeats, relative to raw ws',
      value: rounded(musterRate / rawRate),
      target: 0.55,
      stretchTarget: 0.7,
      ...ratio,
    },
  ];
}
