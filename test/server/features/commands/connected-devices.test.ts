import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const SCRIPT = { language: 'bash', content: 'echo done', timeoutSeconds: 60 };

describe('what a device is, for a command', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agents: FakeDevice[];
  before(async () => {
    app = await createTestApp({ graceMs: 60_000 });
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    agents = [];
    device = await buildDevice(app, tenant.orgId);
  });
  afterEach(() => {
    for (const agent of agents) agent.close();
  });

  const token = () => tenant.admin.token;
  const order = () =>
    app.call('POST', `/devices/${device.deviceId}/commands`, {
      token: token(),
      body: { type: 'script.run', payload: SCRIPT },
    });
  const orderForMany = () =>
    app.call('POST', '/devices/bulk/commands', {
      token: token(),
      body: { deviceIds: [device.deviceId], type: 'script.run', payload: SCRIPT },
    });
  const read = async (id: string) => (await app.call('GET', `/commands/${id}`, { token: token() })).body;
  async function connect(capabilities: string[]): Promise<FakeDevice> {
    const agent = await connectDevice(app, device.token, { capabilities });
    agents.push(agent);
    return agent;
  }
  const stored = (capabilities: string) =>
    asOwner(app.database.ownerUrl, 'update devices set capabilities = $2 where id = $1', [
      device.deviceId,
      capabilities,
    ]);

  it('is able from its handshake on, whatever is stored of it', async () => {
    await stored('{agent.reboot}');
    await connect(['script.run']);
    expect((await order()).status).to.equal(202);
    expect((await orderForMany()).status).to.equal(202);
  });

  it('is unable from its handshake on, whatever is stored of it', async () => {
    await stored('{script.run}');
    await connect(['agent.reboot']);
    expect((await order()).body.code).to.equal('CAPABILITY_MISSING');
    expect((await orderForMany()).body.details[0].code).to.equal('CAPABILITY_MISSING');
  });

  it('is waited for while it has never connected and its capabilities are not known', async () => {
    const { status, body } = await order();
    expect([status, body.status, body.waitsForDevice]).to.deep.equal([202, 'queued', true]);
    expect((await orderForMany()).body.commands[0]).to.include({ status: 'queued', waitsForDevice: true });
    await connect(['agent.reboot']);
    const failed = await eventually(
      () => read(body.id),
      (command) => command.status === 'failed',
    );
    expect(failed.error.code).to.equal('CAPABILITY_MISSING');
    expect((await order()).body.code).to.equal('CAPABILITY_MISSING');
  });

  it('is waited for from the moment its connection closes, also while it still counts as online', async () => {
    const agent = await connect(['script.run']);
    const shown = () => app.call('GET', `/devices/${device.deviceId}`, { token: token() });
    await eventually(shown, ({ body }) => body.status === 'online');
    agent.close();
    // The server has seen that connection end when it has let in a later one.
    const other = await buildDevice(app, tenant.orgId);
    (await connectDevice(app, other.token)).close();
    const { body } = await order();
    expect(body).to.include({ status: 'queued', waitsForDevice: true });
    expect(await read(body.id)).to.include({ status: 'queued', waitsForDevice: true });
    const listed = await app.call('GET', `/devices/${device.deviceId}/commands`, { token: token() });
    expect(listed.body.data[0]).to.include({ id: body.id, waitsForDevice: true });
    expect((await shown()).body.status).to.equal('online');
  });
});
