import type { Tx } from '../../src/platform/db/transaction.ts';
import { newId } from '../../src/platform/ids.ts';
import { UPGRADE_CAPABILITY } from '../../src/protocol/index.ts';
import type { SeededCustomer, SeededTenants } from './tenants.ts';
import { chance, choose, type DemoTime } from './time.ts';

/**
 * Devices that are away: no agent stands behind them, so they are data, and stay offline. Those that are online in the
 * demo are run by simulated agents.
 */

export interface AwayDevice {
  id: string;
  orgId: string;
  hostname: string;
  since: Date;
}

/** For each share of a site so many devices are away. */
const AWAY_FOR_EACH_SHARE = 0.42;
const FIRST_NUMBER = 301;
const UNSEEN_FOR_LONG = 7;

/** How notebooks go: most are closed, some lose their network. */
const REASONS = ['socket_closed', 'socket_closed', 'socket_closed', 'heartbeat_missed'] as const;
const MODELS = [
  ['LENOVO', 'ThinkPad T14 Gen 4', 'AMD Ryzen 7 PRO 7840U'],
  ['Dell Inc.', 'Latitude 5450', 'Intel(R) Core(TM) Ultra 5 135U'],
  ['HP', 'EliteBook 840 G10', 'Intel(R) Core(TM) i5-1345U'],
] as const;
const WINDOWS = [
  ['Windows 11 Pro', '22631.4317'],
  ['Windows 11 Pro', '26100.2033'],
  ['Windows 10 Pro', '19045.5011'],
] as const;
const USERS = ['anna', 'ben', 'carla', 'dev', 'emil', 'farah', 'greta', 'hugo'] as const;

/** The watchdog that they have. A rollout has brought a newer one to some (`halted-rollout.ts`). */
export const WATCHDOG_VERSION = '1.1.0';

export async function seedAwayDevices(
  tx: Tx,
  { customers }: SeededTenants,
  time: DemoTime,
): Promise<AwayDevice[]> {
  const devices: AwayDevice[] = [];
  const rows: { device: Record<string, unknown>; presence: Record<string, unknown> }[] = [];
  for (const customer of customers) {
    for (const site of customer.sites) {
      for (let n = 0; n < Math.round(site.share * AWAY_FOR_EACH_SHARE); n++) {
        const number = devices.length;
        const device = { id: newId(), ...whereabouts(number, customer, site.code, time) };
        devices.push(device);
        rows.push(rowsOf(device, { number, siteId: site.id, time }));
      }
    }
  }
  await tx('devices').insert(rows.map(({ device }) => device));
  await tx('device_presence').insert(rows.map(({ presence }) => presence));
  return devices;
}

function whereabouts(
  number: number,
  { id: orgId }: SeededCustomer,
  code: string,
  time: DemoTime,
): Omit<AwayDevice, 'id'> {
  return {
    orgId,
    hostname: `${code}-NB-${FIRST_NUMBER + number}`,
    since: new Date(time.hoursAgo(hoursAway(number)).getTime() - Math.floor(chance(number, 1) * 3_600_000)),
  };
}

/** Most since the evening, some for days, a few for so long that it is an alert. */
function hoursAway(number: number): number {
  if (number % UNSEEN_FOR_LONG === 3) return 24 * (8 + Math.floor(chance(number, 2) * 17));
  const share = chance(number, 3);
  return share < 0.7 ? 1 + 14 * chance(number, 4) : 24 * (1 + 5 * chance(number, 4));
}

function rowsOf(
  { id, orgId, hostname, since }: AwayDevice,
  { number, siteId, time }: { number: number; siteId: string; time: DemoTime },
) {
  const [manufacturer, model, cpuModel] = choose(MODELS, number, 5);
  const [osVersion, osBuild] = choose(WINDOWS, number, 6);
  const ip = `10.30.${Math.floor(number / 200)}.${20 + (number % 200)}`;
  const enrolled = time.daysAgo(40 + Math.floor(chance(number, 7) * 300));
  return {
    device: {
      id,
      org_id: orgId,
      site_id: siteId,
      hostname,
      condition: number % 29 === 11 ? 'quarantined' : 'normal',
      os_type: 'windows',
      os_version: osVersion,
      os_build: osBuild,
      architecture: 'x64',
      agent_version: chance(number, 8) < 0.7 ? '1.3.0' : '1.2.4',
      watchdog_version: WATCHDOG_VERSION,
      machine_id: `demo-away-${number}`,
      tags: ['notebook'],
      capabilities: [
        'agent.reboot',
        'agent.refresh-inventory',
        'eventlogs.query',
        'script.run',
        UPGRADE_CAPABILITY,
      ],
      hardware: JSON.stringify({
        manufacturer,
        model,
        serialNumber: `DEMO${String(number).padStart(6, '0')}`,
        cpuModel,
        cpuCores: choose([8, 10, 12], number, 9),
        ramTotalMb: choose([8192, 16_384, 32_768], number, 10),
        diskTotalGb: choose([256, 512, 1024], number, 11),
      }),
      network: JSON.stringify({ ipAddress: ip }),
      last_user: `OFFICE\\${choose(USERS, number, 12)}`,
      enrolled_at: enrolled,
      created_at: enrolled,
      updated_at: since,
    },
    presence: {
      device_id: id,
      org_id: orgId,
      epoch: 1,
      node_id: 'demo',
      state: 'disconnected',
      since,
      reason: choose(REASONS, number, 13),
      last_seen_at: since,
      last_ip: ip,
      cpu_percent: Math.round(30 * chance(number, 14)),
      ram_percent: Math.round(35 + 40 * chance(number, 15)),
      disk_percent: Math.round(25 + 60 * chance(number, 16)),
      metrics_at: since,
      uptime_seconds: Math.round(36_000 * chance(number, 17)),
    },
  };
}
