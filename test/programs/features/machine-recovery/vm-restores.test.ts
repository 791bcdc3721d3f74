import { expect } from 'chai';
import { type MachineDescription, writeMachine } from '../../../../src/engine/index.ts';
import { refreshAll } from '../../../../src/features/machine-recovery/vm-restore.work.ts';
import { findOutdated, markRemoved } from '../../../../src/features/backup/retention.service.ts';
import type { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import {
  COMMAND_TYPES,
  type CommandFrame,
  type ImageDetails,
  SECRETS_CAPABILITY,
} from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildOrganization, buildPerson } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { storedText } from '../../../support/backup/backup-support.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { createStoreApp, inSystem, request } from '../../../support/backup/store-support.ts';

const describedGuest = (name: string, sizeBytes: number): MachineDescription => ({
  format: 'muster-machine',
  version: 1,
  source: 'kvm',
  machine: name,
  system: null,
  takenAt: '2026-11-24T06:00:00.000Z',
  bootMode: 'bios',
  consistency: 'crash',
  memoryBytes: 2 * 1024 ** 3,
  processors: 3,
  hardware: null,
  fstab: null,
  disks: [
    {
      name: 'vda',
      sizeBytes,
      sectorBytes: 512,
      model: null,
      serial: null,
      partitionTable: null,
      volumes: [],
    },
  ],
});

const collected = async (pieces: AsyncIterable<Uint8Array>): Promise<Buffer> => {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
};

/** Snapshots that become virtual machines, as people ask for them and as hosts report them. */
describe('virtual machines of snapshots', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let device: BackedUpDevice;
  let snapshot: BackupSnapshot;
  let files: BackupSnapshot;
  let agent: FakeDevice | undefined;

  const IMAGE: ImageDetails = {
    kind: 'image',
    source: 'disk',
    machine: 'web-01',
    disks: [{ name: 'sda', sizeBytes: 3 * 1024 ** 3, offset: 4096, sectorBytes: 512 }],
    bootMode: 'uefi',
    consistency: 'crash',
    memoryBytes: 4 * 1024 ** 3,
    processors: 2,
    system: 'Debian GNU/Linux 12',
  };
  const BOOTED = {
    state: 'running',
    folder: '/var/lib/muster/machines/1',
    console: '/var/lib/muster/machines/1/console.sock',
    forwards: [{ hostPort: 40_080, guestPort: 80 }],
    accelerator: 'kvm',
    warnings: [],
    seconds: { mount: 0.5, overlay: 0.1, start: 0.2 },
  };

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    device = await buildBackedUpDevice(app);
    await device.write({ 'a.txt': 'first' });
    files = await device.backUp();
    await device.write({ 'a.txt': 'second' });
    snapshot = await device.backUp({ details: IMAGE });
  });
  after(async () => app?.close());
  afterEach(async () => {
    agent?.close();
    agent = undefined;
    await inSystem(app, async (tx) => {
      await tx('commands').whereNull('finished_at').update({ status: 'cancelled', finished_at: new Date() });
      await tx('backup_vm_restores').delete();
    });
  });

  const connect = async () => {
    agent = await connectDevice(app, device.device.token, {
      capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
    });
    return agent;
  };
  const post = (path: string, body: unknown = {}, person = device.admin) =>
    device.send('POST', `/backup/restore/${path}`, body, person);
  const boot = async (given: object = {}) => {
    const answer = await post('instant-boot', { snapshotId: snapshot.id, vmName: 'web', ...given });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return answer.body.id as string;
  };
  const read = async (id: string) => (await device.send('GET', `/backup/restore/vm/${id}`)).body;
  const reached = (id: string, status: string) =>
    eventually(
      () => read(id),
      (found) => found.status === status,
    );
  const active = async () => (await device.send('GET', '/backup/restore/instant-boot/active')).body.data;
  const snapshotNow = async () => (await device.send('GET', `/backup/snapshots/${snapshot.id}`)).body;
  /** A machine that runs from its snapshot. */
  const running = async () => {
    const id = await boot();
    const host = await connect();
    const frame = await next(host);
    await host.succeed(frame, BOOTED);
    await reached(id, 'running');
    return { id, host, frame };
  };
  /** The next command. The server may also ask by itself what the machines are doing. */
  const next = async (host: FakeDevice, type?: string): Promise<CommandFrame> => {
    const frame = await host.nextCommand();
    const isWanted = type === undefined ? frame.type !== 'backup.vm-boots' : frame.type === type;
    return isWanted ? frame : next(host, type);
  };
  interface Payload {
    repository: { destination: { user: string; secret: { secretRef: string } } };
  }
  const readKeys = async ({ payload, secrets }: CommandFrame) => {
    const { user, secret } = (payload as Payload).repository.destination;
    const credential = { id: user, user, secret: secrets?.[secret.secretRef] ?? '' };
    return (await request(app.url, device.repositoryId, credential, ['GET', 'keys/'])).status;
  };
  const ask = () =>
    refreshAll({ db: app.server.database.jobPool, hub: app.server.hub }, AbortSignal.timeout(20_000));
  /** Asks the host, which answers with these machines. */
  const refresh = async (host: FakeDevice, boots: object[]) => {
    const asked = ask();
    await host.succeed(await next(host, 'backup.vm-boots'), { boots });
    await asked;
  };

  it('are estimated by what the snapshot says, and made of snapshots of machines only', async () => {
    expect((await post('as-vm/estimate', { snapshotId: snapshot.id })).body).to.deep.include({
      memoryMb: 4096,
      cpuCount: 2,
      diskSizeGb: 3,
      platform: 'linux',
      bootMode: 'uefi',
    });
    for (const path of ['as-vm/estimate', 'as-vm', 'instant-boot']) {
      const more = path === 'as-vm/estimate' ? {} : { vmName: 'web' };
      const kind = path === 'as-vm' ? { hypervisor: 'kvm' } : {};
      const answer = await post(path, { snapshotId: files.id, ...more, ...kind });
      expect(answer.status, path).to.equal(409);
    }
  });

  it('are made of one of the guests that a host of KVM has saved', async () => {
    const guest = (name: string, id: string) => ({
      id,
      name,
      folder: id,
      generation: null,
      bootMode: 'bios' as const,
      memoryBytes: 2 * 1024 ** 3,
      processors: 3,
      consistency: 'crash' as const,
      bytes: 4096,
    });
    const machines = [guest('web', 'guest-1'), guest('mail', 'guest-2')];
    const archive = (name: string, sizeBytes: number) =>
      collected(
        writeMachine(describedGuest(name, sizeBytes), async function* () {
          yield Buffer.alloc(sizeBytes, name);
        }),
      );
    await device.write({
      'muster-machines.json': JSON.stringify({ version: 1, hypervisor: 'kvm', machines }),
      'guest-1/machine.tar': await archive('web', 8192),
      'guest-2/machine.tar': await archive('mail', 1024 * 1024),
    });
    const details = { kind: 'machines' as const, hypervisor: 'kvm' as const, machines };
    const saved = await device.backUp({ details, backupType: 'system_image' });
    const wanted = { snapshotId: saved.id, vmName: 'copy' };
    for (const machine of [undefined, 'none', 'guest-1/../guest-2']) {
      const answer = await post('instant-boot', { ...wanted, ...(machine === undefined ? {} : { machine }) });
      expect(answer.status, JSON.stringify(answer.body)).to.equal(400);
      expect(JSON.stringify(answer.body)).to.contain('body.machine');
    }
    expect(
      (await post('instant-boot', { snapshotId: snapshot.id, vmName: 'x', machine: 'web' })).status,
    ).to.equal(400);
    const { body } = await post('as-vm/estimate', { snapshotId: saved.id, machine: 'Mail' });
    expect(body).to.deep.include({
      memoryMb: 2048,
      cpuCount: 3,
      disks: [{ name: 'vda', sizeBytes: 1024 ** 2 }],
    });
    const id = await boot({ ...wanted, machine: 'mail' });
    const host = await connect();
    const imagePath = `${device.folder}/guest-2/machine.tar`;
    const frame = await next(host);
    expect(frame.payload).to.deep.include({ snapshotId: saved.engineId, imagePath });
    const { image } = frame.payload as { image: ImageDetails };
    expect(image).to.deep.include({ source: 'kvm', machine: 'mail', bootMode: 'bios' });
    expect(image.disks[0]).to.deep.include({ name: 'vda', sizeBytes: 1024 ** 2, sectorBytes: 512 });
    // Started again, it is the same machine of the snapshot.
    await host.succeed(frame, BOOTED);
    await reached(id, 'running');
    expect((await post(`instant-boot/${id}/start`)).status).to.equal(200);
    expect((await next(host)).payload).to.deep.include({ imagePath, image });
    const files = await device.send('GET', `/backup/snapshots/${saved.id}/machine?machine=web`);
    expect(files.body).to.deep.include({ machine: 'web', file: `${device.folder}/guest-1/machine.tar` });
  });

  it('take over no absurd needs of a snapshot without being asked', async () => {
    const details = { ...IMAGE, memoryBytes: Number.MAX_SAFE_INTEGER, processors: 1_000_000 };
    await inSystem(app, (tx) => tx('backup_snapshots').where({ id: snapshot.id }).update({ details }));
    try {
      const { body } = await post('as-vm/estimate', { snapshotId: snapshot.id });
      expect(body).to.deep.include({ memoryMb: 16_384, cpuCount: 8 });
    } finally {
      await inSystem(app, (tx) =>
        tx('backup_snapshots').where({ id: snapshot.id }).update({ details: IMAGE }),
      );
    }
  });

  it('run from their snapshot, are migrated while they run, and need it no more', async () => {
    const id = await boot({ network: { type: 'user', forwards: [80] } });
    expect(await read(id)).to.include({ status: 'pending', hostDeviceId: device.deviceId });
    const host = await connect();
    const frame = await next(host);
    expect(frame.type).to.equal('backup.vm-instant-boot');
    expect(frame.payload).to.deep.include({
      restoreId: id,
      snapshotId: snapshot.engineId,
      vmName: 'web',
      memoryMb: 4096,
      cpuCount: 2,
      network: { type: 'user', isIsolated: true, forwards: [80] },
    });
    await reached(id, 'booting');
    await host.succeed(frame, BOOTED);
    expect(await reached(id, 'running')).to.deep.include({
      console: BOOTED.console,
      forwards: BOOTED.forwards,
      accelerator: 'kvm',
      completedAt: null,
    });
    expect((await active()).map((each: { id: string }) => each.id)).to.deep.equal([id]);

    expect((await post(`instant-boot/${id}/migrate`)).body.status).to.equal('migrating');
    const copy = await next(host);
    expect(copy).to.deep.include({ type: 'backup.vm-migrate' });
    await host.send('command:progress', { id: copy.id, seq: 0, phase: 'copying', percent: 40 });
    await eventually(
      () => read(id),
      (found) => found.syncProgress === 40,
    );
    expect((await post(`instant-boot/${id}/start`)).status).to.equal(409);
    expect(await readKeys(frame)).to.equal(200);
    await host.succeed(copy, { copiedBytes: 3, seconds: 1 });
    expect(await reached(id, 'completed')).to.include({ syncProgress: 100, vmState: 'running' });
    expect(await active()).to.deep.equal([]);
    const listed = async (query: string) =>
      (await device.send('GET', `/backup/restore/vm${query}`)).body.data;
    expect(await listed(`?kind=instant_boot&deviceId=${device.deviceId}`)).to.deep.equal([await read(id)]);
    expect(await listed('?kind=as_vm')).to.deep.equal([]);
    expect(await readKeys(frame)).to.equal(401);
    expect(await storedText(app, ['commands', 'backup_vm_restores'])).not.to.contain(device.password);
  });

  it('keep their snapshot from being removed, from the first moment to the last', async () => {
    const id = await boot();
    const gone = () => markRemoved(app.server.database.jobPool, device.repositoryId, [snapshot]);
    expect((await snapshotNow()).retentionBlockedReason).to.equal('in_use');
    expect(await gone()).to.equal(0);
    const host = await connect();
    await host.succeed(await next(host), BOOTED);
    await reached(id, 'running');
    expect(await gone()).to.equal(0);
    expect(
      (await findOutdated(app.server.database.jobPool, device.repositoryId)).map((each) => each.id),
    ).not.to.contain(snapshot.id);
    expect((await post(`instant-boot/${id}/discard`)).body.status).to.equal('discarding');
    const frame = await next(host);
    expect((await snapshotNow()).retentionBlockedReason).to.equal('in_use');
    await host.succeed(frame, { wasThere: true });
    await reached(id, 'discarded');
    expect((await snapshotNow()).retentionBlockedReason).to.equal(null);
  });

  it('end if their host could not start them, and the snapshot is free again', async () => {
    const id = await boot();
    const host = await connect();
    await host.fail(await next(host), 'HYPERVISOR_MISSING', 'qemu is not installed.');
    const failed = await reached(id, 'failed');
    expect(failed.error).to.deep.equal({ code: 'HYPERVISOR_MISSING', message: 'qemu is not installed.' });
    expect((await snapshotNow()).retentionBlockedReason).to.equal(null);
    expect((await post(`instant-boot/${id}/migrate`)).status).to.equal(409);
  });

  it('are kept if their host was interrupted, until it says what became of them', async () => {
    const id = await boot();
    const host = await connect();
    await host.fail(await next(host), 'INTERRUPTED');
    await reached(id, 'unknown');
    expect((await snapshotNow()).retentionBlockedReason).to.equal('in_use');
    const boots = [{ restoreId: id, state: 'stopped', isPermanent: false, isBaseThere: false }];
    await refresh(host, boots);
    const stopped = await read(id);
    expect(stopped).to.include({ status: 'stopped' });
    expect(stopped.error.code).to.equal('SNAPSHOT_UNREADABLE');
    const again = await post(`instant-boot/${id}/start`);
    expect(again.status, JSON.stringify(again.body)).to.equal(200);
    const frame = await next(host);
    expect(frame).to.include({ type: 'backup.vm-instant-boot' });
    expect(frame.payload).to.include({ restoreId: id });
    await host.succeed(frame, BOOTED);
    expect(await reached(id, 'running')).to.include({ error: null });
  });

  it('follow what their host reports, and end if it has no such machine', async () => {
    const { id, host } = await running();
    await refresh(host, [{ restoreId: id, state: 'faulty', isPermanent: false, isBaseThere: true }]);
    expect(await read(id)).to.include({ status: 'faulty' });
    await refresh(host, []);
    const gone = await read(id);
    expect(gone.status).to.equal('failed');
    expect(gone.error.code).to.equal('MACHINE_MISSING');
    expect((await snapshotNow()).retentionBlockedReason).to.equal(null);
  });

  it('stay as they are while their host cannot be asked', async () => {
    const { id, host } = await running();
    host.close();
    await eventually(
      () => app.server.hub.live(device.deviceId)?.isConnected ?? false,
      (isConnected) => !isConnected,
    );
    await ask();
    expect(await read(id)).to.include({ status: 'running' });
  });

  it('go on from their snapshot if the copy has failed, and say why', async () => {
    const { id, host } = await running();
    await post(`instant-boot/${id}/migrate`);
    await host.fail(await next(host), 'TARGET_FULL');
    const back = await reached(id, 'running');
    expect(back.error.code).to.equal('TARGET_FULL');
    expect((await snapshotNow()).retentionBlockedReason).to.equal('in_use');
  });

  it('become disks for another hypervisor, or larger ones, and never smaller', async () => {
    const wanted = { snapshotId: snapshot.id, vmName: 'web', hypervisor: 'kvm' };
    for (const [field, wrong] of [
      ['start', { format: 'vhdx', start: true, targetPath: '/srv/disks' }],
      ['targetPath', { format: 'vhdx' }],
      ['grow', { grow: true }],
      ['format', { format: 'vmdk' }],
      ['vmSpecs.diskSizeGb', { vmSpecs: { diskSizeGb: 2 } }],
    ] as const) {
      const answer = await post('as-vm', { ...wanted, ...wrong });
      expect(answer.status, field).to.equal(400);
      expect(JSON.stringify(answer.body)).to.contain(`body.${field}`);
    }
    const small = await post('as-vm', { ...wanted, vmSpecs: { diskSizeGb: 2 } });
    expect(JSON.stringify(small.body)).to.contain(String(3 * 1024 ** 3));
    const more = { format: 'vhdx', targetPath: '/srv/disks', grow: true, vmSpecs: { diskSizeGb: 8 } };
    expect((await post('as-vm', { ...wanted, ...more })).status).to.equal(201);
    expect((await next(await connect())).payload).to.deep.include({
      format: 'vhdx',
      start: false,
      grow: true,
      diskSizeGb: 8,
    });
  });

  it('get disks of their own, and are refused if they start in another way', async () => {
    const body = { snapshotId: snapshot.id, hypervisor: 'kvm', vmName: 'web', vmSpecs: { diskSizeGb: 20 } };
    const crossed = await post('as-vm', { ...body, bootMode: 'bios' });
    expect(crossed.status).to.equal(400);
    expect(crossed.body.details[0]).to.deep.include({ path: 'body.bootMode' });
    expect((await post('as-vm', { ...body, hypervisor: 'hyperv' })).body.code).to.equal('CAPABILITY_MISSING');
    const made = await post('as-vm', { ...body, bootMode: 'uefi', start: false });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    const host = await connect();
    const frame = await next(host);
    expect(frame.type).to.equal('backup.vm-from-image');
    expect(frame.payload).to.deep.include({ diskSizeGb: 20, format: 'qcow2', start: false });
    await reached(made.body.id, 'restoring');
    const { accelerator: _none, ...access } = BOOTED;
    const disks = [{ name: 'disk0.qcow2', sizeBytes: 20, storedBytes: 3 }];
    await host.succeed(frame, { ...access, state: 'stopped', disks, warnings: ['look'], seconds: 3 });
    expect(await reached(made.body.id, 'completed')).to.deep.include({
      vmState: 'stopped',
      warnings: ['look'],
    });
  });

  it('are started by people who may restore, on devices of the same organization', async () => {
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: device.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const wanted = { snapshotId: snapshot.id, vmName: 'web' };
    expect((await post('instant-boot', wanted, viewer)).status).to.equal(403);
    const other = await buildOrganization(app, device.partnerId);
    const { deviceId: targetDeviceId } = await buildDevice(app, other);
    const refused = await post('instant-boot', { ...wanted, targetDeviceId });
    expect(refused.status).to.equal(400);
    expect(refused.body.details[0].path).to.equal('body.targetDeviceId');
    const { id } = await running();
    for (const action of ['migrate', 'discard', 'start']) {
      expect((await post(`instant-boot/${id}/${action}`, {}, viewer)).status, action).to.equal(403);
    }
    const stranger = await buildPerson(app, { scope: 'organization', orgId: other });
    const list = (query = '') => device.send('GET', `/backup/restore/vm${query}`, undefined, stranger);
    expect((await list(`?deviceId=${device.deviceId}`)).body.data).to.deep.equal([]);
    expect((await list(`?orgId=${device.orgId}`)).status).to.equal(403);
  });

  it('that wait for their host are taken back by discarding them', async () => {
    const id = await boot();
    await post(`instant-boot/${id}/discard`);
    expect(await reached(id, 'cancelled')).to.include({ vmState: null });
    expect((await snapshotNow()).retentionBlockedReason).to.equal(null);
  });
});
