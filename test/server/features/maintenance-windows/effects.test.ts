import { expect } from 'chai';
import { devicesInMaintenance } from '../../../../src/features/maintenance-windows/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import {
  createUpgradeGround,
  offered,
  type UpgradeGround,
  versions,
} from '../../../support/agent-upgrades/upgrade-ground.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { alertGround } from '../../../support/alert-rule-ground.ts';
import { windowGround } from './windows-support.ts';

describe('a maintenance window that keeps back alerts', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let ground: ReturnType<typeof alertGround>;
  let device: EnrolledDevice;
  const { send, plan } = windowGround(
    () => app,
    () => tenant.admin,
  );

  before(async () => {
    app = await sharedTestApp();
    ground = alertGround(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
  });

  const kinds = async () =>
    (await send('GET', `/alerts?deviceId=${device.deviceId}`)).body.data.map(
      ({ kind }: { kind: string }) => kind,
    );
  /** The occurrence ended so long ago. */
  const endedFor = (minutes: number) =>
    ground.sql(
      `update maintenance_members set starts_at = now() - interval '2 hours',
        ends_at = now() - ? * interval '1 minute' where device_id = ?`,
      [minutes, device.deviceId],
    );

  for (const form of ['short', 'whole'] as const) {
    it(`raises none for its devices, and for those that stay away after it (${form} rounds)`, async () => {
      const before = await buildDevice(app, tenant.orgId);
      await plan({ target: { deviceIds: [device.deviceId] } });
      await ground.gone(device, 31);
      await ground.gone(before, 31);
      await ground[form]();
      expect(await kinds()).to.deep.equal([]);
      const others = await send('GET', `/alerts?deviceId=${before.deviceId}`);
      expect(others.body.data).to.have.length(1);
      // They have ten minutes to come back.
      await ground.gone(device, 60);
      await endedFor(9);
      await ground[form]();
      expect(await kinds()).to.deep.equal([]);
      await endedFor(10);
      expect(await ground[form]()).to.deep.include({ raised: 1 });
      expect(await kinds()).to.deep.equal(['device_offline']);
      expect(await ground[form]()).to.deep.include({ raised: 0 });
    });
  }

  it('raises one if the threshold passes just when the time to come back ends', async () => {
    await plan({ target: { deviceIds: [device.deviceId] } });
    await ground.gone(device, 30);
    await endedFor(10);
    expect(await ground.short()).to.deep.include({ raised: 1 });
    expect(await kinds()).to.deep.equal(['device_offline']);
  });

  it('raises none for a full disk, until it ends', async () => {
    await plan({ target: { deviceIds: [device.deviceId] } });
    await ground.disk(device, 97);
    await ground.whole();
    expect(await kinds()).to.deep.equal([]);
    await endedFor(1);
    await ground.whole();
    expect(await kinds()).to.deep.equal(['disk_full']);
  });

  it('still resolves alerts, and raises those of devices that it does not keep quiet', async () => {
    await ground.gone(device, 31);
    await ground.short();
    expect(await kinds()).to.deep.equal(['device_offline']);
    await plan({ target: { deviceIds: [device.deviceId] } });
    await ground.back(device, 3);
    expect(await ground.short()).to.deep.include({ resolved: 1 });
    const loud = await buildDevice(app, tenant.orgId);
    await plan({ target: { deviceIds: [loud.deviceId] }, suppress: { alerts: false, upgrades: true } });
    await ground.gone(loud, 31);
    expect(await ground.short()).to.deep.include({ raised: 1 });
  });

  it('names its devices to those who keep quiet about them', async () => {
    const loud = await buildDevice(app, tenant.orgId);
    const made = await plan({
      target: { deviceIds: [device.deviceId] },
      suppress: { alerts: true, upgrades: false },
    });
    const ids = [device.deviceId, loud.deviceId];
    const inMaintenance = (what: 'alerts' | 'upgrades') =>
      withSystem(app.server.database.pool, 'test', (tx) => devicesInMaintenance(tx, ids, what));
    expect([...(await inMaintenance('alerts'))]).to.deep.equal([
      [device.deviceId, { windowId: made.id, name: made.name, until: new Date(made.current.endsAt) }],
    ]);
    expect((await inMaintenance('upgrades')).size).to.equal(0);
  });
});

describe('a maintenance window that keeps back upgrades', () => {
  let ground: UpgradeGround;
  const { plan, send } = windowGround(
    () => ground.app,
    () => ground.tenant.admin,
  );

  before(async () => {
    ground = await createUpgradeGround();
  });
  after(async () => ground.close());

  it('offers none to its devices while it lasts, and says why and until when', async () => {
    await ground.promote('1.1.0');
    const { agent, deviceId } = await ground.device();
    await offered(agent, (list) => versions(list) === '1.1.0');
    const made = await plan({ target: { deviceIds: [deviceId] } });
    await offered(agent, (list) => list.length === 0);
    const { body } = await send('GET', `/devices/${deviceId}/upgrades`);
    expect(body.data[0]).to.include({
      state: 'deferred',
      reason: 'in_maintenance',
      nextAt: made.current.endsAt,
    });
    expect(body.data[0].message).to.equal(
      `No upgrades are installed during the maintenance window ${made.name}, and none before ${made.current.endsAt}.`,
    );
    await send('POST', `/maintenance-windows/${made.id}/end`);
    await ground.app.settle();
    expect(versions(await offered(agent, (list) => list.length > 0))).to.equal('1.1.0');
    agent.close();
  });

  it('leaves them to devices if it is for alerts only, and gives them back when it is deleted', async () => {
    await ground.promote('1.1.0');
    const { agent, deviceId } = await ground.device();
    const quiet = await plan({
      target: { deviceIds: [deviceId] },
      suppress: { alerts: true, upgrades: false },
    });
    expect(versions(await offered(agent, (list) => list.length > 0))).to.equal('1.1.0');
    await send('PATCH', `/maintenance-windows/${quiet.id}`, { suppress: { alerts: true, upgrades: true } });
    await ground.app.settle();
    await offered(agent, (list) => list.length === 0);
    await send('DELETE', `/maintenance-windows/${quiet.id}`);
    await ground.app.settle();
    expect(versions(await offered(agent, (list) => list.length > 0))).to.equal('1.1.0');
    agent.close();
  });
});
