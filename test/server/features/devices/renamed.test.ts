import { expect } from 'chai';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { deviceGround, type Tenant } from './devices-support.ts';

describe('what a device says about its machine', () => {
  let app: TestApp;
  let tenant: Tenant;
  let device: EnrolledDevice;
  let agents: FakeDevice[];
  const { send, read, auditOf } = deviceGround(
    () => app,
    () => tenant.admin,
  );
  const connect = async (machine: object) => {
    const agent = await connectDevice(app, device.token, { machine });
    agents.push(agent);
    await agent.heartbeat();
    await app.settle();
    return agent;
  };
  const renames = async () =>
    (await auditOf(device.deviceId))
      .filter(({ action }) => action === 'device.renamed')
      .map(({ details }) => [details['before'], details['after']]);
  const conflicts = async () => (await send('GET', '/alerts?kind=machine_identity_conflict')).body.data;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    agents = [];
    device = await buildDevice(app, tenant.orgId, {
      hostname: 'IMAGE',
      hardware: { serialNumber: 'SER-A', model: 'OptiPlex' },
    });
    await send('PATCH', `/devices/${device.deviceId}`, { displayName: 'Till' });
  });
  afterEach(() => {
    for (const agent of agents) agent.close();
  });

  it('is its new name from the next connection on, which is audited and found', async () => {
    const name = `DESK-${device.deviceId.slice(-6)}`;
    await connect({ hostname: ` ${name}\u202E\n` });
    expect(await read(device.deviceId)).to.deep.include({ hostname: name, displayName: 'Till' });
    expect(await renames()).to.deep.equal([[{ hostname: 'IMAGE' }, { hostname: name }]]);
    for (const query of [`/devices?search=${name}`, `/search?q=${name}`]) {
      expect(JSON.stringify((await send('GET', query)).body), query).to.contain(device.deviceId);
    }
    const conditions = {
      operator: 'AND',
      conditions: [{ field: 'hostname', operator: 'equals', value: name }],
    };
    const preview = await send('POST', '/filters/preview', { orgId: tenant.orgId, conditions });
    expect(JSON.stringify(preview.body)).to.contain(device.deviceId);
  });

  it('is its new name while it is connected, and over HTTP', async () => {
    const agent = await connect({});
    await agent.heartbeat({ hostname: 'DESK-1' });
    await app.settle();
    expect(await read(device.deviceId)).to.deep.include({ hostname: 'DESK-1' });
    // An agent of an earlier release says nothing, and one whose system has no name neither.
    await agent.heartbeat();
    await agent.heartbeat({ hostname: '\n' });
    await app.settle();
    expect(await read(device.deviceId)).to.deep.include({ hostname: 'DESK-1' });

    const other = await buildDevice(app, tenant.orgId);
    await app.call('POST', `/agents/${other.deviceId}/heartbeat`, {
      token: other.token,
      body: { at: new Date().toISOString(), agentVersion: '1.0.0', hostname: 'n'.repeat(2000) },
    });
    await app.settle();
    expect((await read(other.deviceId)).hostname).to.equal(`${'n'.repeat(254)}…`);
  });

  it('is audited once if it changes its name all the time, and its last name is followed later', async () => {
    const agent = await connect({});
    for (let times = 0; times < 5; times++) {
      await agent.heartbeat({ hostname: `FLOOD-${times}` });
      await app.settle();
    }
    expect(await read(device.deviceId)).to.deep.include({ hostname: 'FLOOD-0' });
    expect(await renames()).to.have.length(1);
    const { sql } = deviceGround(
      () => app,
      () => tenant.admin,
    );
    await sql(`update devices set renamed_at = now() - interval '2 minutes' where id = ?`, [device.deviceId]);
    await agent.heartbeat({ hostname: 'FLOOD-4' });
    await app.settle();
    expect(await read(device.deviceId)).to.deep.include({ hostname: 'FLOOD-4' });
    expect(await renames()).to.have.length(2);
  });

  it('raises an alert if the serial number is another one, once', async () => {
    await connect({ serialNumber: ' ser-a', macAddresses: ['AA-BB-CC-00-11-22'] });
    await connect({ serialNumber: 'To be filled by O.E.M.' });
    await connect({ serialNumber: '0', macAddresses: [] });
    const before = await read(device.deviceId);
    expect(before.network).to.deep.include({ macAddresses: ['aa:bb:cc:00:11:22'] });
    expect(before.hardware).to.deep.include({ model: 'OptiPlex' });
    expect(await conflicts()).to.deep.equal([]);

    await connect({ serialNumber: 'SER-B' });
    await connect({ serialNumber: 'SER-B' });
    expect((await read(device.deviceId)).hardware).to.deep.include({
      serialNumber: 'SER-B',
      model: 'OptiPlex',
    });
    const [alert, ...others] = await conflicts();
    expect(others).to.deep.equal([]);
    expect(alert).to.deep.include({ deviceId: device.deviceId, count: 1 });
    expect(alert.message).to.match(/SER-A/i).and.contain('SER-B');
    const inventory = await app.call('POST', `/agents/${device.deviceId}/inventory`, {
      token: device.token,
      body: { hardware: { serialNumber: 'SER-C' }, collectedAt: new Date().toISOString() },
    });
    expect(inventory.status).to.equal(200);
    expect((await conflicts())[0]).to.deep.include({ count: 2 });
  });
});
