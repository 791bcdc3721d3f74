import { expect } from 'chai';
import { execFileSync } from 'node:child_process';
import { cp, mkdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic, resticFor } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { type RealDevice, realDevice } from '../../features/backup/backup-devices.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';

/** The whole way: a real agent backs up and copies with real restic, and stock restic restores from the vaults. */

describe('vaults of a real device', function () {
  this.timeout(180_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let device: RealDevice;
  let source: string;
  let disk: string;
  const vaults: Record<'server' | 'local', string> = { server: '', local: '' };

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    tenant = await buildBackupTenant(app);
    device = await realDevice(app, tenant.orgId);
    source = path.join(app.dataDir, 'source');
    disk = path.join(app.dataDir, 'disk');
    await mkdir(source);
    await mkdir(disk);
    await writeFile(path.join(source, 'a.txt'), 'first');
    await writeFile(path.join(source, 'b.bin'), Buffer.alloc(500_000, 7));
    const { id: configId } = await tenant.createConfig({
      sources: { paths: { linux: [source] } },
      isDefault: true,
    });
    const create = async (more: object) => {
      const answer = await tenant.send('POST', '/backup/vault', {
        deviceId: device.deviceId,
        configId,
        ...more,
      });
      expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
      return String(answer.body.id);
    };
    vaults.server = await create({ name: 'Second repository', provider: 'server' });
    vaults.local = await create({ name: 'Disk', provider: 'local', details: { path: disk } });
    await device.start();
  });
  after(async () => {
    await device?.close();
    await app?.close();
  });

  const statusOf = async (id: string) => (await tenant.send('GET', `/backup/vault/${id}/status`)).body.data;
  const vaultOf = async (id: string) => (await tenant.send('GET', `/backup/vault/${id}`)).body;
  const synced = (id: string, snapshots: number) =>
    eventually(
      () => statusOf(id),
      ({ syncs: [newest], snapshots: found }) => {
        if (newest?.status === 'failed') throw new Error(JSON.stringify(newest));
        return newest?.status === 'completed' && found === snapshots;
      },
      120_000,
    );
  const backUp = async () => {
    const started = await tenant.send('POST', `/backup/jobs/run/${device.deviceId}`, {});
    expect(started.status, JSON.stringify(started.body)).to.equal(201);
    const job = await eventually(
      async () => (await tenant.send('GET', `/backup/jobs/${started.body.id}`)).body,
      ({ finishedAt }) => finishedAt !== null,
      120_000,
    );
    expect(job, JSON.stringify(job)).to.include({ status: 'completed' });
    return String(job.snapshotId);
  };
  const passwordOf = async (repositoryId: string) => {
    const kit = await tenant.send('GET', `/backup/encryption/keys/${tenant.keyId}/recovery-kit`);
    const repository = kit.body.repositories.find(({ id }: { id: string }) => id === repositoryId);
    const { password } = kit.body.passwords.find(
      ({ version }: { version: number }) => version === repository.keyVersion,
    );
    return { password: String(password), repository };
  };

  it('are synced after a backup, and hold what the device has', async () => {
    const snapshotId = await backUp();
    for (const id of Object.values(vaults)) {
      const status = await synced(id, 1);
      expect(status).to.include({ state: 'current', snapshots: 1, lastError: null });
      expect(status.lag).to.deep.equal({ snapshots: 0, hours: 0, isTooLong: false });
      expect(status.syncs[0]).to.include({ reason: 'backup', copiedSnapshots: 1, error: null });
      expect(status.syncs[0].progress).to.include({ percent: 100, done: 1, total: 1 });
      expect(await vaultOf(id)).to.include({ lastSyncStatus: 'completed', lastSyncSnapshotId: snapshotId });
    }
  });

  it('give back what they hold to stock restic, without the first repository and without Muster', async () => {
    for (const [provider, id] of Object.entries(vaults)) {
      const { repositoryId } = await vaultOf(id);
      const { password, repository } = await passwordOf(repositoryId);
      const copy = path.join(app.dataDir, `copy-${provider}`);
      const place = repository.location.replace('DATA_FOLDER', app.dataDir);
      if (provider === 'local') expect(place).to.equal(path.join(disk, repositoryId));
      await cp(place, copy, { recursive: true });
      const restic = resticFor(copy, path.join(app.dataDir, 'stock-cache'), password);
      expect(await restic.ok('check', '--read-data')).to.include('no errors were found');
      const target = path.join(app.dataDir, `target-${provider}`);
      await restic.ok('restore', 'latest', '--target', target);
      execFileSync('diff', ['-r', source, path.join(target, source)]);
    }
  });

  it('show their copies apart from the backups, and give them back through Muster', async () => {
    const listed = await tenant.send('GET', `/backup/snapshots?deviceId=${device.deviceId}`);
    expect(listed.body.data).to.have.length(1);
    const [original] = listed.body.data;
    const copies = await tenant.send('GET', `/backup/snapshots?vaultId=${vaults.server}`);
    expect(copies.body.data).to.have.length(1);
    const [copy] = copies.body.data;
    expect(copy).to.include({ copyOf: original.id, provider: 'server' });
    const browsed = await tenant.send('GET', `/backup/snapshots/${copy.id}/browse?path=${source}`);
    expect(browsed.body.data.map(({ name }: { name: string }) => name)).to.have.members(['a.txt', 'b.bin']);
    const restore = await tenant.send('POST', '/backup/restore', { snapshotId: copy.id });
    expect(restore.status, JSON.stringify(restore.body)).to.equal(201);
    const ended = await eventually(
      async () => (await tenant.send('GET', `/backup/restore/${restore.body.id}`)).body,
      ({ completedAt }) => completedAt !== null,
      120_000,
    );
    expect(ended, JSON.stringify(ended)).to.include({ status: 'completed', restoredFiles: 2 });
    execFileSync('diff', ['-r', source, path.join(ended.targetPath, source)]);
  });

  it('go on after a sync that the device could not finish, and say what they lack meanwhile', async () => {
    await rename(disk, `${disk}-away`);
    await writeFile(path.join(source, 'c.txt'), 'second');
    await backUp();
    const failed = await eventually(
      () => statusOf(vaults.local),
      ({ syncs: [newest] }) => newest.status === 'failed',
      120_000,
    );
    expect(failed).to.include({ state: 'behind', snapshots: 1 });
    expect(failed.lag).to.include({ snapshots: 1, isTooLong: false });
    expect(failed.lastError.code).to.be.oneOf(['REPOSITORY_MISSING', 'DESTINATION_UNREACHABLE']);
    expect(failed.nextSyncAt, 'it is tried again').to.be.a('string');
    await synced(vaults.server, 2);

    await rename(`${disk}-away`, disk);
    const again = await tenant.send('POST', `/backup/vault/${vaults.local}/sync`, {});
    expect(again.status, JSON.stringify(again.body)).to.equal(201);
    const status = await synced(vaults.local, 2);
    expect(status).to.include({ state: 'current', lastError: null });
    expect(status.syncs[0]).to.include({ reason: 'manual', copiedSnapshots: 1 });
  });

  it('notice that a copy is gone, and make it again', async () => {
    const { repositoryId } = await vaultOf(vaults.local);
    const { password } = await passwordOf(repositoryId);
    const restic = resticFor(path.join(disk, repositoryId), path.join(app.dataDir, 'stock-cache'), password);
    const [gone] = JSON.parse(await restic.ok('snapshots', '--json')) as { id: string }[];
    await restic.ok('forget', gone?.id ?? '');
    const sync = await tenant.send('POST', `/backup/vault/${vaults.local}/sync`, {});
    expect(sync.status, JSON.stringify(sync.body)).to.equal(201);
    const status = await synced(vaults.local, 2);
    expect(status.syncs[0]).to.include({ id: sync.body.id, copiedSnapshots: 1 });
    const rows = await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ repository_id: repositoryId, removed_because: 'missing' }),
    );
    expect(rows.map(({ engine_id: id }: { engine_id: string }) => id)).to.deep.equal([gone?.id]);
  });
});
