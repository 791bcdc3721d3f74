import { openDashboard } from '../../src/server/dashboard.ts';
import type { AgentIdentity } from '../../src/hub/ports.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { asOwner, createTestDatabase, stopTestPostgres } from '../../test/support/test-postgres.ts';
import { createTestApp } from '../../test/support/test-app.ts';
import { enrolledDevices } from '../hub/enrolled-devices.ts';
import { answerMeasurements } from '../hub/servers/measured.ts';

/**
 * The real server with its dashboard and a large fleet. Devices report through the hub's own port for heartbeats, so that
 * presence is stored, shown and timed out as always.
 */

/** Short, so that devices that stop reporting are offline soon. */
const HEARTBEAT_SECONDS = 10;
const TICK_MS = 10;

const log = createLogger('warn');
const page = openDashboard({ log });
const { database, deviceIds, tokens, admin } = await enrolledDevices(
  Number(process.env['BENCH_DEVICES']),
  await createTestDatabase(),
);
await page.settled;
const app = await createTestApp({
  database,
  dashboard: page,
  log,
  env: { AGENT_HEARTBEAT_SECONDS: String(HEARTBEAT_SECONDS) },
});
const [place] = await asOwner<{ org_id: string; site_id: string; partner_id: string }>(
  database.ownerUrl,
  'select d.org_id, d.site_id, o.partner_id from devices d join organizations o on o.id = d.org_id limit 1',
);
if (place === undefined) throw new Error('There are no devices.');

const agentOf = (deviceId: string): AgentIdentity => ({
  deviceId,
  orgId: place.org_id,
  siteId: place.site_id,
  partnerId: place.partner_id,
  machine: { osType: 'windows', architecture: 'x64', autoUpdate: true, canUpgrade: false },
});
/** Those that report all the time, and those that report so rarely that they are offline in between. */
const steady = deviceIds.slice(0, deviceIds.length / 2).map(agentOf);
const unsteady = deviceIds.slice(deviceIds.length / 2).map(agentOf);

let timer: NodeJS.Timeout | undefined;
const sent = { steady: 0, unsteady: 0 };
let refused = 0;

/** @param order  heartbeats per second of each half of the fleet; an unsteady device goes offline after each */
function report(order: { steady: number; unsteady: number }): void {
  clearInterval(timer);
  const startedAt = performance.now();
  const before = { ...sent };
  timer = setInterval(() => {
    const seconds = (performance.now() - startedAt) / 1000;
    for (const [name, agents] of [
      ['steady', steady],
      ['unsteady', unsteady],
    ] as const) {
      const due = before[name] + Math.floor(seconds * order[name]);
      for (; sent[name] < due; sent[name]++) beat(agents[sent[name] % agents.length], sent[name]);
    }
  }, TICK_MS);
}

function beat(agent: AgentIdentity | undefined, count: number): void {
  if (agent === undefined) return;
  const metrics = { cpuPercent: (count * 7) % 100, ramPercent: (count * 3) % 100, diskPercent: 63 };
  app.server.hub
    .heartbeat(agent, { at: new Date().toISOString(), agentVersion: '1.4.2', metrics }, '127.0.0.1')
    .catch(() => (refused += 1));
}

answerMeasurements({
  report: async (order) => {
    report(order as { steady: number; unsteady: number });
    return undefined;
  },
  stop: async () => {
    clearInterval(timer);
    return { ...sent, refused };
  },
  signIn: async () => app.server.signInFragment(admin.id),
  // The last device of each half, for who plays its agent, and the person, for who asks as a second client.
  parts: async () => ({
    token: admin.token,
    logging: { deviceId: deviceIds.at(-1), token: tokens.at(-1) },
  }),
});
process.send?.(app.url);
process.once('disconnect', () => {
  clearInterval(timer);
  void app
    .close()
    .then(() => stopTestPostgres())
    .finally(() => process.exit(0));
});
