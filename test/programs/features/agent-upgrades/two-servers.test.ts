import { expect } from 'chai';
import { startRedis, type TestRedis } from '../../../support/redis.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import {
  createUpgradeGround,
  offered,
  type UpgradeGround,
  versions,
} from '../../../support/agent-upgrades/upgrade-ground.ts';

for (const withRedis of [false, true]) {
  describe(`two servers on one database, ${withRedis ? 'with' : 'without'} Redis`, () => {
    let redis: TestRedis | undefined;
    let ground: UpgradeGround;
    let there: TestApp;

    before(async () => {
      redis = withRedis ? await startRedis() : undefined;
      await redis?.start();
      const env = redis === undefined ? {} : { REDIS_URL: redis.url };
      ground = await createUpgradeGround({ env });
      there = await createTestApp({
        database: ground.app.database,
        env: { ...env, DATA_DIR: ground.dataDir },
      });
    });
    after(async () => {
      await there?.close();
      await ground?.close();
      await redis?.remove();
    });

    it('offer what was promoted, pinned and reported on either of them', async () => {
      const [here, away] = [await ground.device(), await ground.device({ app: there })];
      for (const { agent } of [here, away]) await offered(agent, (list) => versions(list) === '1.1.0');
      await ground.publish('1.2.0');
      for (const { agent } of [here, away]) await offered(agent, (list) => versions(list) === '1.2.0');
      await ground.set({ pins: { agent: '1.1.0' } });
      for (const { agent } of [here, away]) await offered(agent, (list) => versions(list) === '1.1.0');
      await ground.set({ policy: 'manual' });
      for (const { agent } of [here, away]) await offered(agent, (list) => list.length === 0);
      // A person asks here for the device that is connected there.
      const asked = await ground.app.call('POST', `/devices/${away.deviceId}/upgrades`, {
        token: ground.tenant.admin.token,
        body: {},
      });
      expect(asked.status).to.equal(202);
      expect(versions(await offered(away.agent, (list) => list.length === 1))).to.equal('1.2.0');
      expect((await here.agent.heartbeat()).upgrade).to.deep.equal([]);
    });
  });
}
