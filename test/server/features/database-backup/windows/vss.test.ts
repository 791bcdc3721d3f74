import { expect } from 'chai';
import { COMMAND_TYPES } from '../../../../../src/protocol/index.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../../support/test-app.ts';

const WRITER = {
  name: 'SqlServerWriter',
  writerId: 'a65faa63-5ea8-4ebc-9dbd-a0c4db26912a',
  instanceId: null,
  state: 8,
  status: 'failed',
  lastError: 'Non-retryable error',
} as const;

describe('the state of shadow copies', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let enrolled: EnrolledDevice;
  let device: FakeDevice | undefined;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app?.close());
  beforeEach(async () => {
    enrolled = await buildDevice(app, tenant.orgId);
  });
  afterEach(() => {
    device?.close();
    device = undefined;
  });

  async function connect(capabilities: readonly string[] = COMMAND_TYPES): Promise<FakeDevice> {
    device = await connectDevice(app, enrolled.token, { capabilities: [...capabilities] });
    await device.heartbeat();
    return device;
  }
  const read = (token = tenant.admin.token) =>
    app.call('GET', `/backup/vss/status/${enrolled.deviceId}`, { token });

  it('is what the device answers', async () => {
    const agent = await connect();
    const reading = read();
    const frame = await agent.nextCommand();
    expect(frame).to.include({ type: 'backup.vss-status' });
    await agent.succeed(frame, { status: 'failed', writers: [WRITER], providers: [] });
    const { status, body } = await reading;
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body.data).to.deep.include({ deviceId: enrolled.deviceId, status: 'failed', writers: [WRITER] });
  });

  it('says how many writers the device has if it does not list them all', async () => {
    const agent = await connect();
    const reading = read();
    const cut = { status: 'failed', writers: [WRITER], writerCount: 501, providers: [], providerCount: 51 };
    await agent.succeed(await agent.nextCommand(), cut);
    const { body } = await reading;
    expect(body.data).to.deep.include({ writerCount: 501, providerCount: 51 });
  });

  it('says by a code why the device cannot know it', async () => {
    const agent = await connect();
    const reading = read();
    await agent.fail(await agent.nextCommand(), 'ELEVATION_NEEDED', 'Not as this user.');
    const { status, body } = await reading;
    expect([status, body.code, body.details.code]).to.deep.equal([502, 'DEVICE_ERROR', 'ELEVATION_NEEDED']);
  });

  it('is refused for a device without Windows, and for one that is away', async () => {
    await connect(COMMAND_TYPES.filter((type) => type !== 'backup.vss-status'));
    expect((await read()).body.code).to.equal('CAPABILITY_MISSING');
    device?.close();
    enrolled = await buildDevice(app, tenant.orgId);
    const { status, body } = await read();
    expect([status, body.code]).to.deep.equal([409, 'DEVICE_OFFLINE']);
  });

  it('does not believe a device that answers anything else', async () => {
    const agent = await connect();
    const reading = read();
    const writers = Array.from({ length: 501 }, () => WRITER);
    await agent.succeed(await agent.nextCommand(), { status: 'failed', writers, providers: [] });
    expect((await reading).status).to.equal(502);
  });
});
