import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('the initial state of a device list', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  before(async () => {
    app = await createTestApp({ graceMs: 20 });
    tenant = await buildTenant(app);
  });
  after(async () => app.close());

  const stored = (deviceId: string) =>
    withSystem(app.server.database.pool, 'test', (tx) =>
      tx('device_presence').where({ device_id: deviceId }).pluck('state'),
    );

  it('includes connections that began and ended without subscribers, before they are written', async () => {
    const device = await buildDevice(app, tenant.orgId);
    const agent = await connectDevice(app, device.token);
    await agent.heartbeat();
    await eventually(
      () => stored(device.deviceId),
      ([state]) => state === 'connected',
    );
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let isHeld = () => {};
    const holding = new Promise<void>((resolve) => {
      isHeld = resolve;
    });
    const lock = withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx('device_presence').where({ device_id: device.deviceId }).forUpdate().select('state');
      isHeld();
      await held;
    });
    await holding;
    try {
      agent.close();
      await eventually(
        () => app.server.hub.connected,
        (connected) => connected === 0,
      );
      expect(await stored(device.deviceId)).to.deep.equal(['connected']);
      const client = await connectDashboard(app, tenant.admin.token);
      const [gone] = (await client.subscribe()).devices;
      expect([gone?.status, gone?.presence.state, gone?.presence.reason]).to.deep.equal([
        'offline',
        'disconnected',
        'socket_closed',
      ]);
      client.close();
      await eventually(
        async () => app.server.hub.connected,
        (connected) => connected === 0,
      );
      const again = await connectDevice(app, device.token);
      await again.heartbeat();
      const another = await connectDashboard(app, tenant.admin.token);
      expect((await another.subscribe()).devices[0]).to.include({ status: 'online' });
      another.close();
      again.close();
    } finally {
      release();
      await lock;
    }
  });
});
