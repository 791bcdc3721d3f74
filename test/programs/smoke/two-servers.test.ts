import { expect } from 'chai';
import { connectDashboard } from '../../support/dashboard-client.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../support/factories.ts';
import { connectDevice } from '../../support/fake-device.ts';
import { redisOrSkip, type TestRedis } from '../../support/redis.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

/** The short form of `test/programs/hub/cluster/redis-cluster.test.ts`. */
describe('two servers on one Redis', () => {
  let redis: TestRedis;
  let database: TestDatabase;
  let north: TestApp;
  let south: TestApp;

  before(async function () {
    redis = await redisOrSkip(this);
    database = await createTestDatabase();
    const start = (nodeId: string) =>
      createTestApp({ database, env: { REDIS_URL: redis.url, NODE_ID: nodeId }, graceMs: 50 });
    [north, south] = await Promise.all([start('north'), start('south')]);
  });
  after(async () => {
    await Promise.all([north, south].map((app) => app?.close()));
    await database?.drop();
    await redis?.remove();
  });

  it('answer for the devices of each other, show them live, and say when one is away', async () => {
    const tenant = await buildTenant(north);
    const device = await buildDevice(north, tenant.orgId);
    const watcher = await connectDashboard(south, tenant.admin.token);
    await watcher.subscribe();
    const agent = await connectDevice(north, device.token);
    await agent.heartbeat();
    const ask = () =>
      south.call('GET', `/devices/${device.deviceId}/eventlogs/live`, { token: tenant.admin.token });

    const answer = ask();
    await agent.succeed(await agent.nextCommand(), { logs: [] });
    expect((await answer).status).to.equal(200);
    await eventually(
      () => JSON.stringify(watcher.deltas),
      (shown) => shown.includes('"connected"'),
    );

    agent.close();
    const away = await eventually(ask, ({ status }) => status === 409);
    expect(away.body.code).to.equal('DEVICE_OFFLINE');
    watcher.close();
  });
});
