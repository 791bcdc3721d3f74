import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, link, lstat, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { type MachineDescription, writeMachine } from '../../../../src/engine/index.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { makeDiskImage, needsDiskPrograms, PARTITION_OFFSET } from '../../../support/disk-image.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildPerson } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { type RealDevice, realDevice } from './backup-devices.ts';
import { buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';

const MIB = 2 ** 20;
const VOLUME = { disk: 'system', partition: 1 };

/** From the image of two disks to folders of devices: the real server, store, agents and restic. */
describe('restores of files out of images', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let device: RealDevice;
  let other: RealDevice;
  let snapshotId: string;
  const at = (...names: string[]) => path.join(app.dataDir, ...names);

  before(async function () {
    needsRestic(this);
    needsDiskPrograms(this);
    app = await createStoreApp();
    tenant = await buildBackupTenant(app);
    await mkdir(at('content/etc/nested'), { recursive: true });
    await writeFile(at('content/etc/hostname'), 'web-01\n');
    await writeFile(at('content/etc/nested/deep.conf'), 'deep');
    await writeFile(at('content/data.bin'), randomBytes(9 * MIB));
    await link(at('content/data.bin'), at('content/same.bin'));
    await symlink('../data.bin', at('content/etc/link'));
    await chmod(at('content/etc/nested'), 0o710);
    await makeDiskImage(at('system.raw'), { folder: at('content') });
    await makeDiskImage(at('second.raw'), { files: { 'only/here.txt': 'second' } });
    [device, other] = [await realDevice(app, tenant.orgId), await realDevice(app, tenant.orgId)];
    const { id: configId } = await tenant.createConfig({
      sources: { kind: 'image', disks: [at('system.raw'), at('second.raw')] },
    });
    for (const each of [device, other]) {
      await each.start();
      await eventually(
        async () => (await tenant.send('GET', `/devices/${each.deviceId}`)).body,
        ({ status }) => status === 'online',
      );
    }
    const started = await tenant.send('POST', `/backup/jobs/run/${device.deviceId}`, { configId });
    expect(started.status, JSON.stringify(started.body)).to.equal(201);
    const job = await eventually(
      () => read(`/backup/jobs/${started.body.id}`),
      ({ finishedAt }) => finishedAt !== null,
      60_000,
    );
    expect(job.error).to.equal(null);
    snapshotId = job.snapshotId;
  });
  after(async () => {
    await device?.close();
    await other?.close();
    await app?.close();
  });

  const read = async (where: string) => (await tenant.send('GET', where)).body;
  const order = (given: object = {}, person = tenant.admin) =>
    tenant.send('POST', '/backup/restore', { snapshotId, volume: VOLUME, ...given }, person);
  async function restored(given: object) {
    const { status, body } = await order(given);
    expect(status, JSON.stringify(body)).to.equal(201);
    return eventually(
      () => read(`/backup/restore/${body.id}`),
      ({ completedAt }) => completedAt !== null,
      60_000,
    );
  }
  /** Every path with its kind, rights, owners, size, times and content. */
  const picture = (folder: string) =>
    execFileSync(
      'bash',
      [
        '-c',
        `cd "$1" && find . -mindepth 1 -not -name lost+found -printf '%P %y %m %U %G %n %l %Ts\\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha256sum`,
        'bash',
        folder,
      ],
      { encoding: 'latin1' },
    );

  it('bring a whole volume back as it was, after they have said what they would write', async () => {
    const targetPath = at('back');
    const tried = await restored({ targetPath, dryRun: true });
    expect(tried).to.deep.include({
      status: 'completed',
      restoredFiles: 5,
      restoredSize: 18 * MIB + 11,
      error: null,
    });
    expect(await lstat(targetPath).catch(() => 'missing')).to.equal('missing');
    const done = await restored({ targetPath });
    expect(done).to.deep.include({
      status: 'completed',
      restoreType: 'full',
      volume: VOLUME,
      selectedPaths: null,
      targetPath,
      restoredFiles: 5,
      restoredSize: 18 * MIB + 11,
      skippedFiles: 0,
      disk: null,
      error: null,
    });
    expect(picture(targetPath)).to.equal(picture(at('content')));
    const [one, same] = [await lstat(at('back/data.bin')), await lstat(at('back/same.bin'))];
    expect(one.ino).to.equal(same.ino);

    const kept = await restored({ targetPath, selectedPaths: ['/etc'] });
    expect(kept).to.include({ restoreType: 'selective', restoredFiles: 0, skippedFiles: 3 });
    const [row] = await inSystem(app, (tx) =>
      tx('audit_logs').where({ action: 'backup.restore', resource_id: done.id }).select('details'),
    );
    expect(row.details).to.deep.include({ volume: VOLUME, targetPath });
  });

  it('come to another device of the organization, into a folder of the agent, also as of a time', async () => {
    const { createdAt } = await read(`/backup/snapshots/${snapshotId}`);
    const done = await restored({
      deviceId: other.deviceId,
      volume: { disk: 'second', partition: 1 },
      selectedPaths: ['/only/here.txt'],
      asOf: createdAt,
    });
    expect(done).to.deep.include({ status: 'completed', restoredFiles: 1, error: null });
    expect(done.targetPath.startsWith(other.dataDir)).to.equal(true);
    expect(picture(path.join(done.targetPath, 'only'))).to.contain('here.txt f');
  });

  it('replace no link that is in their way, and write through none', async () => {
    await mkdir(at('linked/real'), { recursive: true });
    await mkdir(at('elsewhere'));
    await symlink(at('elsewhere'), at('linked/real/etc'));
    const blocked = await restored({ targetPath: at('linked/real'), selectedPaths: ['/etc'] });
    expect(blocked).to.include({ status: 'partial' });
    expect(blocked.failed.paths).to.deep.equal([
      { path: '/etc', message: 'something else than a folder is there' },
    ]);
    expect(await readdir(at('elsewhere'))).to.deep.equal([]);
    const again = await tenant.send('POST', `/backup/restore/${blocked.id}/rerun`, {});
    expect(again.body, JSON.stringify(again.body)).to.include({ attempts: 2 });
    await eventually(
      () => read(`/backup/restore/${blocked.id}`),
      ({ completedAt }) => completedAt !== null,
    );
    expect(await readdir(at('elsewhere'))).to.deep.equal([]);
  });

  it('refuse what is not in the volume, before a device is asked', async () => {
    for (const [field, wrong] of [
      ['selectedPaths.0', { selectedPaths: ['/only/here.txt'] }],
      ['selectedPaths.1', { selectedPaths: ['/etc', '/machine.tar'] }],
      ['selectedPaths.0', { selectedPaths: ['/etc/../etc/hostname'] }],
      ['selectedPaths.0', { selectedPaths: ['/etc/link/x'] }],
      ['selectedPaths.0', { selectedPaths: ['etc'] }],
      ['volume.disk', { volume: { disk: 'sda', partition: 1 } }],
      ['volume.disk', { volume: { disk: '../system', partition: 1 } }],
      ['volume.partition', { volume: { disk: 'system', partition: 2 } }],
      ['volume.partition', { volume: { disk: 'system' } }],
      ['volume.machine', { volume: { ...VOLUME, machine: 'web' } }],
      ['volume', { volume: { partition: 1 } }],
      ['volume', { restoreType: 'image', targetPath: '/srv/disk.raw' }],
      ['disk', { disk: 'system' }],
      ['targetPath', { targetPath: '/srv/../etc' }],
      ['restoreType', { restoreType: 'selective' }],
    ] as const) {
      const { status, body } = await order(wrong);
      expect(status, JSON.stringify(wrong)).to.equal(400);
      expect(body.details[0].path).to.match(new RegExp(`^body.${field}`));
    }
  });

  it('are for those who may restore, on devices that can', async () => {
    const stranger = await buildBackupTenant(app);
    expect((await order({}, stranger.admin)).status).to.equal(404);
    const strange = await buildDevice(app, stranger.orgId);
    expect((await order({ deviceId: strange.deviceId })).status).to.equal(400);
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    expect((await order({}, viewer)).status).to.equal(403);
    const old = await buildDevice(app, tenant.orgId);
    const capabilities = COMMAND_TYPES.filter((type) => type !== 'backup.image-files-restore');
    const agent = await connectDevice(app, old.token, {
      capabilities: [...capabilities, SECRETS_CAPABILITY],
    });
    try {
      const { status, body } = await order({ deviceId: old.deviceId });
      expect([status, body.code]).to.deep.equal([409, 'CAPABILITY_MISSING']);
    } finally {
      agent.close();
    }
  });

  it('are refused if the data is not on this server, with what to do instead', async () => {
    const { repositoryId } = await inSystem(app, async (tx) => {
      const [row] = await tx('backup_snapshots').where({ id: snapshotId }).select('repository_id');
      await tx('backup_repositories').where({ id: row.repository_id }).update({ provider: 's3' });
      return { repositoryId: row.repository_id };
    });
    const { status, body } = await order();
    await inSystem(app, (tx) =>
      tx('backup_repositories').where({ id: repositoryId }).update({ provider: 'server' }),
    );
    expect(status).to.equal(409);
    expect(body.error).to.contain('restic').and.contain('recovery kit');
  });

  it('of a guest of a host lead to the archive of that guest', async () => {
    const host = await buildBackedUpDevice(app);
    const content = await readFile(at('second.raw'));
    const volume = { type: 'ext', uuid: null, label: null, content: 'whole' } as const;
    const place = { partition: 1, offset: PARTITION_OFFSET, sizeBytes: content.length - 2 * MIB };
    const disk = { name: 'vda', sizeBytes: content.length, sectorBytes: 512, model: null, serial: null };
    const described: MachineDescription = {
      format: 'muster-machine',
      version: 1,
      source: 'kvm',
      machine: 'files',
      system: null,
      takenAt: '2026-11-24T06:00:00.000Z',
      bootMode: 'bios',
      consistency: 'crash',
      memoryBytes: null,
      processors: null,
      hardware: null,
      fstab: null,
      disks: [{ ...disk, partitionTable: null, volumes: [{ ...place, ...volume }] }],
    };
    const archive: Uint8Array[] = [];
    const written = writeMachine(described, async function* () {
      yield content;
    });
    for await (const piece of written) archive.push(piece);
    const guest = (id: string, name: string) => ({
      id,
      name,
      folder: id,
      generation: null,
      bootMode: 'bios' as const,
      memoryBytes: 2 ** 31,
      processors: 2,
      consistency: 'crash' as const,
      bytes: 64 * MIB,
    });
    const machines = [guest('guest-1', 'mail'), guest('guest-2', 'files')];
    await host.write({
      'muster-machines.json': JSON.stringify({ version: 1, hypervisor: 'kvm', machines }),
      'guest-2/machine.tar': Buffer.concat(archive),
    });
    const saved = await host.backUp({
      details: { kind: 'machines', hypervisor: 'kvm', machines },
      backupType: 'system_image',
    });
    const agent = await connectDevice(app, host.device.token, {
      capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
    });
    try {
      const wanted = { snapshotId: saved.id, selectedPaths: ['/only/here.txt'] };
      const from = (machine?: string) =>
        host.send('POST', '/backup/restore', { ...wanted, volume: { machine, disk: 'vda', partition: 1 } });
      for (const wrong of [undefined, 'none']) {
        const { status, body } = await from(wrong);
        expect([status, body.details[0].path]).to.deep.equal([400, 'body.volume.machine']);
      }
      const { status, body } = await from('files');
      expect(status, JSON.stringify(body)).to.equal(201);
      expect(body.volume).to.deep.equal({ machine: 'files', disk: 'vda', partition: 1 });
      const frame = await agent.nextCommand();
      expect(frame.type).to.equal('backup.image-files-restore');
      expect(frame.payload).to.deep.include({
        volume: { imagePath: `${host.folder}/guest-2/machine.tar`, disk: 'vda', partition: 1 },
        selectedPaths: ['/only/here.txt'],
      });
    } finally {
      agent.close();
    }
  });
});
