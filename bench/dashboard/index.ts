import { median, rounded } from '../hub/harness.ts';
import { Ground } from './ground.ts';
import { openDashboard } from '../../src/server/dashboard.ts';
import { launchChromium } from '../../test/support/browser.ts';
import { buildDevice, buildTenant } from '../../test/support/factories.ts';
import { connectDevice } from '../../test/support/fake-device.ts';
import { quietLog } from '../../test/support/quiet-log.ts';
import { startRedis } from '../../test/support/redis.ts';
import { createTestApp } from '../../test/support/test-app.ts';
import { createTestDatabase, stopTestPostgres } from '../../test/support/test-postgres.ts';
import { mkdir, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { measureDevicesPage } from './devices-page.ts';
import { measureEventLog } from './event-log.ts';

const TIMES = 10;

export interface FirstPaint {
  /** Medians in milliseconds from the start of the navigation, of ten browsers that were never here. */
  signInPaintMs: number;
  overviewPaintMs: number;
  /** Until the first row of the table of devices stands there. */
  firstDeviceMs: number;
}

export async function measureFirstPaint(ground: Ground): Promise<FirstPaint> {
  const times = { signIn: [] as number[], overview: [] as number[], device: [] as number[] };
  for (let time = 0; time < TIMES; time++) {
    const page = await ground.newPage();
    await page.goto('/login');
    await page.getByRole('heading', { level: 1 }).waitFor();
    times.signIn.push(await page.evaluate<number>(PAINT));
    await page.context().close();

    const overview = await ground.open('/');
    await overview.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    times.overview.push(await overview.evaluate<number>(PAINT));
    await overview.context().close();

    const devices = await ground.open('/devices');
    times.device.push(
      await devices.evaluate<number>(`new Promise((resolve) => {
        requestAnimationFrame(function look() {
          if (document.querySelector('[role=grid] [data-place]') !== null) return resolve(performance.now());
          requestAnimationFrame(look);
        });
      })`),
    );
    await devices.context().close();
  }
  return {
    signInPaintMs: rounded(median(times.signIn), 0),
    overviewPaintMs: rounded(median(times.overview), 0),
    firstDeviceMs: rounded(median(times.device), 0),
  };
}

const PAINT = `new Promise((resolve) => {
  new PerformanceObserver((list) => {
    for (const { name, startTime } of list.getEntries()) if (name === 'first-contentful-paint') resolve(startTime);
  }).observe({ type: 'paint', buffered: true });
})`;

const PATIENCE_MS = 120_000;

export interface RedisOutage {
  /** What the page says of its connection while Redis is away. */
  pillMeanwhile: string | null;
  /** From the return of Redis until the page shows a change that happened meanwhile at another server. */
  shownAfterMs: number;
}

/** A page at one server, and a device at another one that leaves while Redis is away. */
export async function measureRedisOutage(): Promise<RedisOutage> {
  const redis = await startRedis();
  const database = await createTestDatabase();
  const dashboard = openDashboard({ log: quietLog });
  await dashboard.settled;
  const start = (nodeId: string) =>
    createTestApp({
      database,
      dashboard,
      log: quietLog,
      env: { REDIS_URL: redis.url, NODE_ID: nodeId },
    });
  const [here, there] = await Promise.all([start('here'), start('there')]);
  const browser = await launchChromium();
  try {
    const { admin, orgId } = await buildTenant(here);
    const device = await buildDevice(here, orgId, { hostname: 'FRONT-DESK' });
    const agent = await connectDevice(there, device.token);
    const context = await browser.newContext({ baseURL: here.url });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    await page.goto(`/devices${await here.server.signInFragment(admin.id)}`);
    const row = page.getByRole('row').filter({ hasText: 'FRONT-DESK' });
    await row.getByText('Online').waitFor();
    await page.evaluate('globalThis.isMarked = true');

    await redis.kill();
    agent.close();
    await page.waitForTimeout(10_000);
    const pillMeanwhile = await page.getByRole('banner').getByRole('status').textContent();
    await redis.start();
    const backAt = performance.now();
    await row.getByText('Offline').waitFor();
    const shownAfterMs = Math.round(performance.now() - backAt);
    const isSamePage = await page.evaluate<boolean>('globalThis.isMarked === true');
    if (!isSamePage) throw new Error('The page was loaded again.');
    return { pillMeanwhile, shownAfterMs };
  } finally {
    await browser.close();
    await Promise.all([here.close(), there.close()]);
    await database.drop();
    await redis.remove();
  }
}

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
    'scrolling, all columns': devices.everyColumn,
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
