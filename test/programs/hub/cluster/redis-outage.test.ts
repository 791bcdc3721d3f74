import { expect } from 'chai';
import type { CommandFrame } from '../../../../src/protocol/index.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { redisOrSkip, type TestRedis } from '../../../support/redis.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

const SOON_MS = 15_000;

describe('a change that could not be announced because Redis was unavailable', function () {
  this.timeout(120_000);
  let redis: TestRedis;
  let database: TestDatabase;
  let proxy: TcpProxy;
  let north: TestApp;
  let south: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;

  const start = (nodeId: string, redisUrl: string) =>
    createTestApp({ database, undeliveredWorkMs: 500, env: { REDIS_URL: redisUrl, NODE_ID: nodeId } });
  const behindProxy = () => `redis://127.0.0.1:${proxy.port}`;

  before(async function () {
    redis = await redisOrSkip(this);
    database = await createTestDatabase();
    const { hostname, port } = new URL(redis.url);
    proxy = await startTcpProxy({ host: hostname, port: Number(port) });
    [north, south] = await Promise.all([start('north', redis.url), start('south', behindProxy())]);
    tenant = await buildTenant(north);
  });
  after(async () => {
    await Promise.all([north, south].map((app) => app?.close()));
    await proxy?.cut();
    await database?.drop();
    await redis?.remove();
  });
  beforeEach(async () => {
    device = await buildDevice(north, tenant.orgId);
  });

  const isShown = (status: string) =>
    eventually(
      async () =>
        (await south.call('GET', `/devices/${device.deviceId}`, { token: tenant.admin.token })).body.status,
      (now) => now === status,
      SOON_MS,
    );

  it('is shown on the dashboards of other servers when Redis is back, such as a device that has left', async () => {
    const agent = await connectDevice(south, device.token);
    await isShown('online');
    const watcher = await connectDashboard(north, tenant.admin.token);
    try {
      await watcher.subscribe();
      const shown = () =>
        watcher.deltas
          .flatMap(({ changed, entered }) => [...entered, ...changed])
          .flatMap(({ id, status }) => (id === device.deviceId && status !== undefined ? [status] : []));
      await proxy.cut();
      agent.close();
      await isShown('offline');
      expect(shown()).to.not.include('offline');
      await proxy.mend();
      await eventually(
        () => shown().at(-1),
        (status) => status === 'offline',
        SOON_MS,
      );
    } finally {
      agent.close();
      watcher.close();
    }
  });

  it('is foretold to the dashboards of a server that reaches no other, also to those that come meanwhile', async () => {
    const early = await connectDashboard(south, tenant.admin.token);
    const says = ({ states }: typeof early, isWhole: boolean) =>
      eventually(
        () => states.at(-1),
        (last) => last === isWhole,
        SOON_MS,
      );
    try {
      await proxy.cut();
      await says(early, false);
      const late = await connectDashboard(south, tenant.admin.token);
      await proxy.mend();
      await Promise.all([says(early, true), says(late, true)]);
      expect(early.states).to.deep.equal([false, true]);
      expect(late.states).to.deep.equal([false, true]);
      late.close();
    } finally {
      early.close();
    }
  });

  it('is found in the ledger by the owner of the device, when the server that accepted the command is gone', async () => {
    const agent = await connectDevice(north, device.token, { capabilities: ['script.run'] });
    const frames: string[] = [];
    agent.socket.on('command', (frame: CommandFrame) => void frames.push(frame.id));
    await isShown('online');
    try {
      await proxy.cut();
      const { status, body } = await south.call('POST', `/devices/${device.deviceId}/commands`, {
        token: tenant.admin.token,
        body: { type: 'script.run', payload: { language: 'bash', content: 'true', timeoutSeconds: 60 } },
      });
      expect(status, JSON.stringify(body)).to.equal(202);
      // It ends without having told anybody.
      await south.close();
      await eventually(
        () => frames,
        (ids) => ids.includes(body.id),
        SOON_MS,
      );
    } finally {
      agent.close();
      await proxy.mend();
    }
  });
});
