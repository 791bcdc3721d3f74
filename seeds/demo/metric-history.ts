import { z } from 'zod';
import { clock, DAY_MS, MINUTE_MS } from '../../src/clock.ts';
import { importHistory } from '../../src/features/metrics/index.ts';
import type { Db } from '../../src/platform/db/pool.ts';
import { type Tx, withSystem } from '../../src/platform/db/transaction.ts';
import { type MetricSample, OsType } from '../../src/protocol/index.ts';
import { chance } from './time.ts';

/** The figures of the last month, so that charts and forecasts have something to show from the first minute on. */

const DAYS = 30;
const GIB = 2 ** 30;
const WORK_BEGINS = 8;
const WORK_ENDS = 18;
/** At full load. */
const NETWORK_BYTES = 2_000_000;
const DISK_BYTES = 8_000_000;
/** Programs that keep a machine busy for a while now and then. */
const PROGRAMS = {
  windows: ['chrome.exe', 'MsMpEng.exe', 'excel.exe'],
  linux: ['postgres', 'java', 'backup'],
  macos: ['Safari', 'mds_stores', 'Photos'],
} as const satisfies Record<OsType, readonly string[]>;

const Device = z.object({
  id: z.string(),
  osType: OsType,
  hardware: z.object({ diskTotalGb: z.number().positive().catch(256) }).catch({ diskTotalGb: 256 }),
  ramPercent: z.number().catch(40),
  diskPercent: z.number().catch(50),
  /** When it was connected last; now for one that is connected. */
  until: z.date(),
});
type Device = z.infer<typeof Device>;

/** Gives a past to the devices that have none. Returns how many they are. */
export async function seedMetricHistory(db: Db): Promise<number> {
  const devices = await withSystem(db, 'find devices of the demo without a past', devicesWithoutPast);
  const from = clock.now() - DAYS * DAY_MS;
  for (const device of devices) {
    const to = device.until.getTime();
    if (to > from) await importHistory(db, device.id, { from, to, sampleAt: (at) => sampleOf(device, at) });
  }
  return devices.length;
}

async function devicesWithoutPast(tx: Tx): Promise<Device[]> {
  const rows: unknown[] = await tx('devices as d')
    .join('device_presence as p', 'p.device_id', 'd.id')
    .whereRaw('not exists (select from metric_hours h where h.device_id = d.id)')
    .select({
      id: 'd.id',
      osType: 'd.os_type',
      hardware: 'd.hardware',
      ramPercent: 'p.ram_percent',
      diskPercent: 'p.disk_percent',
      until: tx.raw(`case when p.state = 'connected' then now() else p.since end`),
    });
  return z.array(Device).parse(rows);
}

/** The figures of a device at a time in the past. Its disk has grown to what it is now. */
export function sampleOf(
  { id, osType, hardware, ramPercent, diskPercent, until }: Device,
  at: number,
): MetricSample {
  const seed = Number.parseInt(id.slice(-8), 16);
  const cpuPercent = loadOf(seed, at);
  const ram = ramPercent + 8 * (chance(seed, 4, Math.floor(at / (20 * MINUTE_MS))) - 0.5);
  const daysAgo = (until.getTime() - at) / DAY_MS;
  const disk = Math.max(5, diskPercent - growthOf(seed, diskPercent) * daysAgo);
  const totalBytes = hardware.diskTotalGb * GIB;
  const rate = (most: number, part: number) =>
    Math.round((most * cpuPercent * (0.5 + chance(seed, part, Math.floor(at / MINUTE_MS)))) / 100);
  const programs = PROGRAMS[osType];
  const program = programs[Math.floor(chance(seed, 9, Math.floor(at / SPELL_MS)) * programs.length)];
  return {
    at: new Date(at).toISOString(),
    cpuPercent,
    ramPercent: percent(ram),
    networkReceivedPerSecond: rate(NETWORK_BYTES, 5),
    networkSentPerSecond: rate(NETWORK_BYTES / 4, 6),
    diskReadPerSecond: rate(DISK_BYTES, 7),
    diskWrittenPerSecond: rate(DISK_BYTES / 2, 8),
    volumes: [
      {
        volume: osType === 'windows' ? 'C:' : '/',
        usedBytes: Math.round((totalBytes * disk) / 100),
        totalBytes,
      },
    ],
    ...(cpuPercent < 40 || program === undefined
      ? {}
      : {
          processes: [
            { process: program, cpuPercent: percent(cpuPercent - 12), ramPercent: percent(ram / 4) },
          ],
        }),
  };
}

const percent = (value: number): number => Math.round(Math.min(100, Math.max(0, value)) * 10) / 10;

const SPELL_MS = 45 * MINUTE_MS;
/** One spell in so many is a busy one, whatever the hour. */
const BUSY_ONE_IN = 80;

/** Busy during work, idle at night and at the end of the week, and at full load now and then. */
function loadOf(seed: number, at: number): number {
  const time = new Date(at);
  const hour = time.getUTCHours();
  const isWeekend = time.getUTCDay() % 6 === 0;
  const isWork = !isWeekend && hour >= WORK_BEGINS && hour < WORK_ENDS;
  const usual =
    (isWork ? 12 + 30 * chance(seed, 1) : 3) *
    (0.6 + 0.8 * chance(seed, 2, Math.floor(at / (5 * MINUTE_MS))));
  const isBusy = chance(seed, 3, Math.floor(at / SPELL_MS)) < 1 / BUSY_ONE_IN;
  return percent(usual + (isBusy ? 55 : 0));
}

/** By how many percent of its size the disk has grown in a day. */
function growthOf(seed: number, diskPercent: number): number {
  if (diskPercent > 95) return 0.6;
  return chance(seed, 10) < 0.25 ? 0.2 + chance(seed, 11) : 0;
}
