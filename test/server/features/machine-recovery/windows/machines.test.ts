import { expect } from 'chai';
import {
  COMMAND_TYPES,
  type CommandFrame,
  hypervisorCapability,
  type JobUpdate,
  type Machine,
  SECRETS_CAPABILITY,
} from '../../../../../src/protocol/index.ts';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { connectDashboard } from '../../../../support/dashboard-client.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildDevice, buildPerson, type EnrolledDevice } from '../../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../../support/backup/backup-support.ts';
import { inSystem } from '../../../../support/backup/store-support.ts';

const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
const machine = (number: number, more: Partial<Machine> = {}): Machine => ({
  id: idOf(number),
  name: `vm ${number}`,
  state: 'running',
  bootMode: 'uefi',
  generation: 2,
  memoryBytes: 2 ** 31,
  processors: 2,
  disks: [{ path: String.raw`D:\a.vhdx`, sizeBytes: 5, isPassthrough: false }],
  tracksChanges: null,
  checkpoints: [],
  ...more,
});
const ABLE = [...COMMAND_TYPES, SECRETS_CAPABILITY, hypervisorCapability('hyperv')];
const ENGINE_ID = 'a'.repeat(64);

describe('machines of Hyper-V', function () {
  this.timeout(60_000);
  let app: TestApp;
  let tenant: BackupTenant;
  let configId: string;
  let enrolled: EnrolledDevice;
  let device: FakeDevice | undefined;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildBackupTenant(app);
    const config = await tenant.createConfig({
      provider: 'local',
      details: { path: String.raw`E:\Backups` },
      sources: { kind: 'hyperv' },
    });
    expect(config.sources).to.deep.equal({ kind: 'hyperv', machines: 'all', consistency: 'application' });
    configId = config.id;
  });
  after(async () => app?.close());
  beforeEach(async () => {
    enrolled = await buildDevice(app, tenant.orgId);
    await inSystem(app, async (tx) => {
      await tx('devices').where({ id: enrolled.deviceId }).update({ os_type: 'windows', capabilities: ABLE });
      await tx('backup_repositories').insert({
        id: tx.raw('new_row_id()'),
        org_id: tenant.orgId,
        device_id: enrolled.deviceId,
        config_id: configId,
        encryption_key_id: tenant.keyId,
        key_version: 1,
        provider: 'local',
        initialized_at: new Date(),
      });
    });
  });
  afterEach(() => {
    device?.close();
    device = undefined;
  });

  async function connect(capabilities: readonly string[] = ABLE): Promise<FakeDevice> {
    device = await connectDevice(app, enrolled.token, { capabilities: [...capabilities] });
    await device.heartbeat();
    const { deviceId } = enrolled;
    await eventually(
      () => inSystem(app, (tx) => tx('device_presence').where({ device_id: deviceId, state: 'connected' })),
      (rows) => rows.length === 1,
    );
    return device;
  }
  const get = (path: string) => tenant.send('GET', `/backup/hyperv/${path}`);
  const post = (path: string, body: object, person = tenant.admin) =>
    tenant.send('POST', `/backup/hyperv/${path}`, { deviceId: enrolled.deviceId, ...body }, person);
  /** The device lists these machines when it is asked. */
  async function discover(machines: unknown, path = `vms/${enrolled.deviceId}?refresh=true`) {
    const agent = device ?? (await connect());
    const asking = get(path);
    const frame = await agent.nextCommand();
    expect(frame).to.deep.include({ type: 'backup.vm-list', payload: { hypervisor: 'hyperv' } });
    await agent.succeed(frame, { machines, truncated: false });
    return asking;
  }

  it('are listed as their device last listed them', async () => {
    expect((await get(`vms/${enrolled.deviceId}`)).body).to.deep.equal({ data: [] });
    const passthrough = { path: '', sizeBytes: null, isPassthrough: true };
    const found = await discover([machine(2, { disks: [passthrough] }), machine(1)]);
    expect(found.status, JSON.stringify(found.body)).to.equal(200);
    expect(found.body.data[0]).to.deep.include({
      vmId: idOf(1),
      vmName: 'vm 1',
      deviceId: enrolled.deviceId,
      generation: 2,
      memoryMb: 2048,
      vhdPaths: [String.raw`D:\a.vhdx`],
      hasPassthroughDisks: false,
      rctEnabled: null,
    });
    expect(found.body.data[1]).to.deep.include({ vmId: idOf(2), hasPassthroughDisks: true });
    await discover([machine(1, { name: 'renamed' })]);
    device?.close();
    const stored = await get(`vms?deviceId=${enrolled.deviceId}`);
    expect(stored.body.data.map(({ vmName }: { vmName: string }) => vmName)).to.deep.equal(['renamed']);
    expect(stored.body.pagination.total).to.equal(1);
  });

  it('are asked of devices that have not been named, too', async () => {
    const { body } = await discover([machine(7)], 'vms?refresh=true&limit=100');
    expect(body.data.map(({ vmId }: { vmId: string }) => vmId)).to.include(idOf(7));
  });

  it('stay as they were if a device is away or answers nonsense', async () => {
    await discover([machine(1)]);
    const lists: unknown[] = [
      Array.from({ length: 100_000 }, () => null),
      Array.from({ length: 1001 }, (_, at) => ({ ...machine(at), disks: [] })),
      [machine(1, { id: '../../x' })],
      [{ ...machine(1), memoryBytes: -1 }],
      'all of them',
    ];
    for (const list of lists) expect((await discover(list)).status).to.equal(502);
    const loop = { id: 'a', name: 'a', parentId: 'a', createdAt: null };
    const twice = await discover([machine(1, { checkpoints: [loop] }), machine(1, { name: 'twice' })]);
    expect(twice.body.data).to.have.length(1);
    device?.close();
    device = undefined;
    await eventually(
      () => Promise.resolve(app.server.hub.live(enrolled.deviceId)?.isConnected),
      (isConnected) => isConnected !== true,
    );
    expect((await get(`vms/${enrolled.deviceId}?refresh=true`)).body.code).to.equal('DEVICE_OFFLINE');
    expect((await get(`vms/${enrolled.deviceId}`)).body.data).to.have.length(1);
  });

  it('change their state and their checkpoints by commands that dashboards see', async () => {
    await discover([
      machine(1, { checkpoints: [{ id: idOf(9), name: 'Before', parentId: null, createdAt: null }] }),
      machine(2, { name: 'twin' }),
      machine(3, { name: 'Twin' }),
    ]);
    const dashboard = await connectDashboard(app, tenant.admin.token);
    const updates: JobUpdate[] = [];
    dashboard.socket.on('job:update', (update: JobUpdate) => updates.push(update));
    await dashboard.send('jobs:subscribe', {});
    try {
      const stopped = await post('vm-state', { vmName: 'VM 1', state: 'stop' });
      expect(stopped.status, JSON.stringify(stopped.body)).to.equal(202);
      expect(stopped.body).to.include({ type: 'state', vmId: idOf(1), backupJobId: null });
      const frame = await device!.nextCommand();
      expect(frame).to.deep.include({ type: 'backup.vm-state', id: stopped.body.commandId });
      expect(frame.payload).to.include({ machineId: idOf(1), hypervisor: 'hyperv', state: 'stop' });
      await device!.succeed(frame, { machine: machine(1, { state: 'off' }) });
      await eventually(
        () => Promise.resolve(updates.filter(({ id }) => id === stopped.body.id).at(-1)),
        (update) => update?.kind === 'backup.vm-state' && update.state === 'succeeded',
      );
      await post('checkpoint', { vmId: idOf(1), action: 'apply', checkpointName: 'Before' });
      expect((await device!.nextCommand()).payload).to.include({ action: 'apply', checkpointId: idOf(9) });
    } finally {
      dashboard.close();
    }
    const refusals = [
      [{ vmName: 'twin', state: 'stop' }, 'body.vmName'],
      [{ vmName: 'nobody', state: 'stop' }, 'body.vmName'],
      [{ vmId: '*', state: 'stop' }, 'body.vmId'],
      [{ vmName: 'a', vmId: idOf(1), state: 'stop' }, 'body.vmName'],
      [{ vmName: 'a\nb', state: 'stop' }, 'body.vmName'],
      [{ vmId: idOf(1), state: 'explode' }, 'body.state'],
    ] as const;
    for (const [body, field] of refusals) {
      const answer = await post('vm-state', body);
      expect([answer.status, answer.body.details?.[0]?.path], JSON.stringify(body)).to.deep.equal([
        400,
        field,
      ]);
    }
  });

  it('are backed up by a job whose snapshot says which machines it has', async () => {
    const agent = await connect();
    const hostile = `'; Remove-VM * -Force; $(x) [a]`;
    const made = await post('backup', { vmName: hostile, consistencyType: 'crash' });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    expect(made.body).to.include({ type: 'backup', backupJobId: made.body.id });
    const frame: CommandFrame = await agent.nextCommand();
    expect(frame).to.include({ type: 'backup.machine' });
    expect(frame.payload).to.deep.include({
      jobId: made.body.id,
      hypervisor: 'hyperv',
      machines: [hostile],
      consistency: 'crash',
    });
    const saved = {
      id: idOf(1),
      name: hostile,
      generation: 2,
      bootMode: 'uefi',
      memoryBytes: 1,
      processors: 1,
      consistency: 'crash',
      bytes: 5,
    };
    await agent.succeed(frame, {
      status: 'completed',
      snapshotId: ENGINE_ID,
      filesNew: 1,
      filesChanged: 0,
      filesUnmodified: 0,
      bytesProcessed: 5,
      bytesAdded: 5,
      seconds: 1,
      unreadable: { count: 0, paths: [] },
      details: { kind: 'machines', hypervisor: 'hyperv', machines: [saved] },
    });
    const job = await eventually(
      async () => (await tenant.send('GET', `/backup/jobs/${made.body.id}`)).body,
      ({ status }) => status === 'completed',
    );
    const { body } = await tenant.send('GET', `/backup/snapshots/${job.snapshotId}`);
    expect(body).to.include({ backupType: 'system_image' });
    expect(body.details.machines).to.deep.equal([saved]);
    expect(body.paths).to.deep.equal([hostile]);
  });

  it('are exported into a folder of the device, where no configuration is needed', async () => {
    await discover([machine(1)]);
    const made = await post('backup', { vmName: 'vm 1', exportPath: String.raw`E:\Exports` });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    const frame = await device!.nextCommand();
    expect(frame).to.include({ type: 'backup.vm-export' });
    expect(frame.payload).to.include({ machineId: idOf(1), exportPath: String.raw`E:\Exports` });
    for (const exportPath of ['relative', String.raw`C:\a\..\b`, 'C:\\', 'C:\\a"b']) {
      const answer = await post('backup', { vmName: 'vm 1', exportPath });
      expect(answer.body.details?.[0]?.path, exportPath).to.equal('body.exportPath');
    }
  });

  it('are left alone if the device has no Hyper-V, and by people who may only read', async () => {
    await connect(COMMAND_TYPES.filter((type) => !type.startsWith('backup.vm') && type !== 'backup.machine'));
    for (const [path, body] of [
      ['vm-state', { vmId: idOf(1), state: 'stop' }],
      ['checkpoint', { vmId: idOf(1), action: 'create' }],
      ['backup', { vmId: idOf(1) }],
      ['backup', { vmId: idOf(1), exportPath: String.raw`E:\a` }],
    ] as const) {
      const answer = await post(path, body);
      expect([answer.status, answer.body.code], path).to.deep.equal([409, 'CAPABILITY_MISSING']);
    }
    expect((await get(`vms/${enrolled.deviceId}?refresh=true`)).body.code).to.equal('CAPABILITY_MISSING');
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    for (const path of ['backup', 'restore', 'checkpoint', 'vm-state']) {
      expect((await post(path, { vmId: idOf(1) }, viewer)).status, path).to.equal(403);
    }
  });
});
