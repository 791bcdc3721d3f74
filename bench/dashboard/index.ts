import { mkdir, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { stopTestPostgres } from '../../test/support/test-postgres.ts';
import { rounded } from '../hub/load/percentiles.ts';
import { measureDevicesPage } from './devices-page.ts';
import { measureEventLog } from './event-log.ts';
import { measureFirstPaint } from './first-paint.ts';
import { Ground } from './ground.ts';
import { measureRedisOutage } from './redis-outage.ts';

/**
 * `npm run bench:dashboard`, or `npm run bench:dashboard -- 10` for ten minutes of load: measures the dashboard in
 * Chromium against the real server with 10,000 devices, prints the figures, and writes them to
 * `bench/results/dashboard.json`. Frames are compared with the same page without load in the same run.
 */
const DEVICES = 10_000;
const minutes = Number(process.argv[2] ?? 3);

const loads: Record<string, number> = {};
const noteLoad = (when: string) => {
  loads[when] = rounded(loadavg()[0] ?? 0, 1);
};

noteLoad('before');
const ground = await Ground.start(DEVICES);
try {
  const paint = await measureFirstPaint(ground);
  console.log('First paint', paint);
  noteLoad('after the first paint');
  const devices = await measureDevicesPage(ground, { devices: DEVICES, minutes });
  console.table({
    'scrolling, no changes': devices.quiet,
    'scrolling, 500 changes a second': devices.loaded,
    'resting, 500 changes a second': devices.resting,
    'scrolling, sorted by CPU': devices.sortedByCpu,
  });
  console.log(`Frames under load relative to none: ${rounded(devices.loaded.fps / devices.quiet.fps)}`);
  console.table(devices.memory);
  console.log({ reports: devices.reports, rowsCompared: devices.rowsCompared });
  noteLoad('after the devices page');
  const log = await measureEventLog(ground);
  console.table({
    'scrolling, quiet': log.quiet,
    following: log.following,
    'paused and scrolling': log.paused,
  });
  console.table(log.memory);
  const redis = await measureRedisOutage();
  console.log('Redis goes away and comes back', redis);
  noteLoad('at the end');
  console.log('Load of the machine', loads);

  const machine = { node: process.version, cpu: cpus()[0]?.model ?? '', cores: availableParallelism() };
  const file = new URL('../results/dashboard.json', import.meta.url);
  await mkdir(new URL('.', file), { recursive: true });
  const results = { at: new Date().toISOString(), machine, loads, minutes, paint, devices, log, redis };
  await writeFile(file, `${JSON.stringify(results, null, 2)}\n`);
} finally {
  await ground.stop();
  await stopTestPostgres();
}
