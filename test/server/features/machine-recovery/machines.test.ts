import { expect } from 'chai';
import { COMMAND_TYPES, hypervisorCapability, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';

const VM_ID = '11111111-2222-4333-8444-555555555555';
const LISTED = {
  id: VM_ID,
  name: 'web',
  state: 'running',
  bootMode: 'bios',
  generation: null,
  memoryBytes: 2 ** 31,
  processors: 2,
  disks: [{ path: '/var/lib/libvirt/images/web.qcow2', sizeBytes: 5, isPassthrough: false }],
  tracksChanges: false,
  checkpoints: [],
};
const ABLE = [...COMMAND_TYPES, SECRETS_CAPABILITY];

describe('machines of KVM', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let configId: string;
  let deviceId: string;
  let token: string;
  let device: FakeDevice | undefined;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildBackupTenant(app);
    const details = { path: '/backups' };
    const sources = { kind: 'kvm', machines: ['web'] };
    const config = await tenant.createConfig({ provider: 'local', details, sources });
    expect(config.sources).to.deep.equal({ ...sources, consistency: 'application' });
    configId = config.id;
  });
  after(async () => app?.close());
  beforeEach(async () => {
    ({ deviceId, token } = await buildDevice(app, tenant.orgId));
  });
  afterEach(() => {
    device?.close();
    device = undefined;
  });

  async function connect(kind: 'kvm' | 'hyperv', osType: string): Promise<FakeDevice> {
    const capabilities = [...ABLE, hypervisorCapability(kind)];
    await inSystem(app, async (tx) => {
      await tx('devices').where({ id: deviceId }).update({ os_type: osType, capabilities });
      await tx('backup_repositories').insert({
        id: tx.raw('new_row_id()'),
        org_id: tenant.orgId,
        device_id: deviceId,
        config_id: configId,
        encryption_key_id: tenant.keyId,
        key_version: 1,
        provider: 'local',
        initialized_at: new Date(),
      });
    });
    device = await connectDevice(app, token, { capabilities });
    await device.heartbeat();
    await eventually(
      () => inSystem(app, (tx) => tx('device_presence').where({ device_id: deviceId, state: 'connected' })),
      (rows) => rows.length === 1,
    );
    return device;
  }
  const post = (path: string, body: object) =>
    tenant.send('POST', `/backup/kvm/${path}`, { deviceId, ...body });

  it('are listed, changed and backed up by their own routes, apart from those of Hyper-V', async () => {
    const agent = await connect('kvm', 'linux');
    const asking = tenant.send('GET', `/backup/kvm/vms/${deviceId}?refresh=true`);
    const asked = await agent.nextCommand();
    expect(asked).to.deep.include({ type: 'backup.vm-list', payload: { hypervisor: 'kvm' } });
    await agent.succeed(asked, { machines: [LISTED], truncated: false });
    expect((await asking).body.data[0]).to.deep.include({
      vmId: VM_ID,
      hypervisor: 'kvm',
      rctEnabled: false,
    });
    expect((await tenant.send('GET', `/backup/hyperv/vms?deviceId=${deviceId}`)).body.data).to.deep.equal([]);

    const again = tenant.send('GET', `/backup/kvm/vms/${deviceId}?refresh=true`);
    await agent.succeed(await agent.nextCommand(), { machines: [LISTED], truncated: true });
    expect((await again).body.data[0]).to.include({ listIsCut: true });

    const stopped = await post('vm-state', { vmName: 'web', state: 'stop' });
    expect(stopped.status, JSON.stringify(stopped.body)).to.equal(202);
    const order = await agent.nextCommand();
    expect(order.payload).to.include({ hypervisor: 'kvm', machineId: VM_ID, state: 'stop' });
    await agent.succeed(order, { machine: LISTED });

    const made = await post('backup', { vmId: VM_ID, consistencyType: 'crash' });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    const backup = await agent.nextCommand();
    expect(backup.type).to.equal('backup.machine');
    const wanted = { hypervisor: 'kvm', machines: [VM_ID], consistency: 'crash' };
    expect(backup.payload).to.deep.include(wanted);
  });

  it('are left alone on hosts of Hyper-V, and by other customers', async () => {
    const other = await buildTenant(app);
    const path = `/backup/kvm/vms/${deviceId}`;
    expect((await app.call('GET', path, { token: other.admin.token })).status).to.equal(404);
    await connect('hyperv', 'windows');
    const state = await post('checkpoint', { vmId: VM_ID, action: 'create' });
    expect([state.status, state.body.code]).to.deep.equal([409, 'CAPABILITY_MISSING']);
    expect((await post('backup', { vmId: VM_ID })).status).to.equal(409);
  });
});
