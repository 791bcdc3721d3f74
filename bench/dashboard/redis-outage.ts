import { openDashboard } from '../../src/server/dashboard/dashboard.ts';
import { launchChromium } from '../../test/support/browser.ts';
import { buildDevice, buildTenant } from '../../test/support/factories.ts';
import { connectDevice } from '../../test/support/fake-device.ts';
import { quietLog } from '../../test/support/quiet-log.ts';
import { startRedis } from '../../test/support/redis.ts';
import { createTestApp } from '../../test/support/test-app.ts';
import { createTestDatabase } from '../../test/support/test-postgres.ts';

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
