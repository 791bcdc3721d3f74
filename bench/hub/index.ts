import { mkdir, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus } from 'node:os';
import { stopTestPostgres } from '../../test/support/test-postgres.ts';
import { ackLatency } from './ack-latency.ts';
import { brokenOffAsks } from './broken-off-asks.ts';
import { clusterHeartbeats } from './cluster-heartbeats.ts';
import { crossNodeAsks } from './cross-node-asks.ts';
import { fanOut } from './fan-out.ts';
import { type Figure, verdict } from './harness.ts';
import { fleetCost } from './fleet-cost.ts';
import { heartbeatRate } from './heartbeat-rate.ts';
import { heartbeatWrites } from './heartbeat-writes.ts';
import { heldDevices } from './held-devices.ts';
import { idleMemory } from './idle-memory.ts';
import { lostBystanders } from './lost-bystanders.ts';
import { reconnectStorm } from './reconnect-storm.ts';
import { remoteAskTime } from './remote-ask-time.ts';
import { silentDevices } from './silent-devices.ts';
import { slowDashboard } from './slow-dashboard.ts';

/**
 * `npm run bench:hub`, or `npm run bench:hub -- 1 4` for some of the figures: measures the hub against its baselines,
 * prints a table, and writes all results to `bench/results/hub.json`. Servers and load generators are separate
 * processes.
 */

const FIGURES: readonly Figure[] = [
  heartbeatRate,
  idleMemory,
  ackLatency,
  crossNodeAsks,
  remoteAskTime,
  lostBystanders,
  brokenOffAsks,
  heartbeatWrites,
  fanOut,
  reconnectStorm,
  slowDashboard,
  silentDevices,
  heldDevices,
  clusterHeartbeats,
  fleetCost,
];

const wanted = process.argv.slice(2).map(Number);
const chosen = FIGURES.filter(({ number }) => wanted.length === 0 || wanted.includes(number));
const rows = [];
for (const figure of chosen) {
  console.log(`${figure.number}. ${figure.title}`);
  for (const result of await figure.measure()) {
    console.log(`   ${JSON.stringify(result.measured)}`);
    rows.push({ figure: figure.number, ...result, verdict: verdict(result) });
  }
}
await stopTestPostgres();

console.table(
  rows.map(({ figure, what, value, unit, target, stretchTarget, verdict: said }) => ({
    figure,
    what,
    value,
    unit,
    target,
    stretchTarget: stretchTarget ?? '',
    verdict: said,
  })),
);
const machine = { node: process.version, cpu: cpus()[0]?.model ?? '', cores: availableParallelism() };
const file = new URL('../results/hub.json', import.meta.url);
await mkdir(new URL('.', file), { recursive: true });
await writeFile(file, `${JSON.stringify({ at: new Date().toISOString(), machine, rows }, null, 2)}\n`);
