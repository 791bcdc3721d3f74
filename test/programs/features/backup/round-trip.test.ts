import { expect } from 'chai';
import { createCipheriv, randomBytes } from 'node:crypto';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { watchBackups } from '../../../../src/features/backup/watch.work.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';
import { mountSmallDisk, needsSmallDisk, type SmallDisk } from '../../../support/small-disk.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';
import { type RealDevice, realDevice } from './backup-devices.ts';

/** From the request to the snapshot: the real server, the real agent and the real engine. */

describe('a backup of a device', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let device: RealDevice;
  let source: string;
  let storeDisk: SmallDisk | undefined;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    await mkdir(path.join(app.dataDir, 'backups'), { recursive: true });
    storeDisk = mountSmallDisk(path.join(app.dataDir, 'backups'), '4m');
    tenant = await buildBackupTenant(app);
    device = await realDevice(app, tenant.orgId);
    source = path.join(app.dataDir, 'source');
    await mkdir(source);
    await writeFile(path.join(source, 'letter.txt'), 'Dear Ada');
    await writeFile(path.join(source, 'picture'), randomBytes(300_000));
    await tenant.createConfig({ sources: { paths: { linux: [source] } }, isDefault: true });
  });
  after(async () => {
    await device?.close();
    storeDisk?.remove();
    await app?.close();
  });

  const run = () => tenant.send('POST', `/backup/jobs/run/${device.deviceId}`, {});
  const jobOf = async (id: string) => (await tenant.send('GET', `/backup/jobs/${id}`)).body;
  const ended = (id: string) =>
    eventually(
      () => jobOf(id),
      ({ finishedAt }) => finishedAt !== null,
      60_000,
    );

  it('makes the repository, and ends with a snapshot', async () => {
    await device.start();
    // A device is given its jobs once its presence is stored.
    await eventually(
      async () => (await tenant.send('GET', `/devices/${device.deviceId}`)).body,
      ({ status }) => status === 'online',
    );
    const started = await run();
    expect(started.status, JSON.stringify(started.body)).to.equal(201);
    expect(started.body).to.include({ status: 'pending', waitingFor: 'turn', type: 'manual' });
    const second = await run();
    expect(second.status).to.equal(409);
    expect(second.body.details).to.deep.equal({ jobId: started.body.id });
    const job = await ended(started.body.id);
    expect(job.error).to.equal(null);
    expect(job).to.include({ status: 'completed', waitingFor: null });
    expect(job.progress).to.include({ percent: 100, doneFiles: 2, stalledSince: null });
    const snapshot = (await tenant.send('GET', `/backup/snapshots/${job.snapshotId}`)).body;
    expect(snapshot.paths).to.deep.equal([source]);
    expect(Date.parse(snapshot.takenAt)).to.be.within(Date.parse(job.createdAt), Date.parse(job.finishedAt));
  });

  it('makes the repository on a disk of the device, and none if the disk is missing', async () => {
    const disk = path.join(app.dataDir, 'disk');
    const config = await tenant.createConfig({
      name: 'Disk',
      provider: 'local',
      details: { path: disk },
      sources: { paths: { linux: [source] } },
    });
    const backup = async () => {
      const started = await tenant.send('POST', `/backup/jobs/run/${device.deviceId}`, {
        configId: config.id,
      });
      expect(started.status, JSON.stringify(started.body)).to.equal(201);
      return ended(started.body.id);
    };
    expect((await backup()).error).to.include({ code: 'DESTINATION_UNREACHABLE' });
    await mkdir(disk);
    const made = await backup();
    expect(made).to.include({ status: 'completed', error: null });
    const [{ destination_free_bytes: free, destination_total_bytes: total }] = await inSystem(app, (tx) =>
      tx('backup_repositories').where({ id: made.repositoryId }),
    );
    expect(Number(free)).to.be.greaterThan(0).and.at.most(Number(total));
    await rename(disk, `${disk}-away`);
    await mkdir(disk);
    expect((await backup()).error).to.include({ code: 'REPOSITORY_MISSING' });
    expect(await readdir(disk)).to.deep.equal([]);
  });

  it('fails if the store is full, leaves nothing behind, and succeeds once there is room', async function () {
    const disk = needsSmallDisk(this, storeDisk);
    const large = path.join(source, 'large');
    await writeFile(large, randomBytes(8 * 2 ** 20));
    const { deviceId } = device;
    const read = async (where: string) => (await tenant.send('GET', where)).body;
    const backUp = async () => {
      const { status, body } = await run();
      expect(status, JSON.stringify(body)).to.equal(201);
      return ended(body.id);
    };

    const before = (await read(`/backup/snapshots?deviceId=${deviceId}`)).data;
    const failed = await backUp();
    expect(failed).to.include({ status: 'failed', snapshotId: null });
    expect(failed.error).to.deep.equal({
      code: 'DESTINATION_FULL',
      message: 'The destination of the backup has no space left. Make room there, or have its quota raised.',
    });
    expect((await read(`/backup/snapshots?deviceId=${deviceId}`)).data).to.deep.equal(before);
    const left = await inSystem(app, async (tx) => ({
      locks: await tx('backup_objects')
        .where({ repository_id: failed.repositoryId, type: 'locks' })
        .whereIn('credential_id', tx('backup_store_credentials').select('id').where({ role: 'device' })),
      credentials: await tx('backup_store_credentials')
        .where({ repository_id: failed.repositoryId, role: 'device' })
        .whereNull('ended_at'),
    }));
    expect(left).to.deep.equal({ locks: [], credentials: [] });

    disk.resize('64m');
    const completed = await backUp();
    expect(completed.error).to.equal(null);
    expect(completed.status).to.equal('completed');
    const snapshotId: string = completed.snapshotId;

    // A restore to a disk without room says so before it writes anything.
    const target = path.join(app.dataDir, 'target');
    await mkdir(target);
    const targetDisk = needsSmallDisk(this, mountSmallDisk(target, '4m'));
    try {
      const order = await tenant.send('POST', '/backup/restore', { snapshotId, targetPath: target });
      expect(order.status, JSON.stringify(order.body)).to.equal(201);
      const restore = await eventually(
        () => read(`/backup/restore/${order.body.id}`),
        ({ completedAt }) => completedAt !== null,
        60_000,
      );
      expect(restore).to.include({ status: 'failed', restoredFiles: null });
      expect(restore.error.code).to.equal('TARGET_FULL');
      expect(restore.error.message).to.match(
        /^The restore needs \d+ MiB, and the disk has 4 MiB left\. Make room there/,
      );
      expect(await readdir(target)).to.deep.equal([]);
    } finally {
      targetDisk.remove();
      await rm(large);
    }
  });

  it('raises an alert if its files were encrypted, and if most of them are gone', async () => {
    const files = path.join(app.dataDir, 'files');
    await mkdir(files);
    const names = Array.from({ length: 120 }, (_, n) => path.join(files, `letter-${n}`));
    const text = (name: string) => `Dear ${name}, `.repeat(1000);
    const writeAll = (content: (name: string) => string | Buffer) =>
      Promise.all(names.map((name) => writeFile(name, content(name))));
    await writeAll(text);
    const { id: configId } = await tenant.createConfig({
      name: 'Files',
      sources: { paths: { linux: [files] } },
    });
    const backUp = async () => {
      const { body } = await tenant.send('POST', `/backup/jobs/run/${device.deviceId}`, { configId });
      const job = await ended(body.id);
      expect(job, JSON.stringify(job.error)).to.include({ status: 'completed' });
      const [snapshot] = await inSystem(app, (tx) => tx('backup_snapshots').where({ id: job.snapshotId }));
      return Number(snapshot.received_bytes);
    };
    const alerts = async () => {
      await watchBackups(app.server.database.jobPool, new AbortController().signal);
      const { body } = await tenant.send('GET', `/alerts?deviceId=${device.deviceId}&status=active`);
      return body.data.filter(({ kind }: { kind: string }) => kind === 'backup_size_drop');
    };
    await backUp();
    await writeFile(names[0] ?? '', 'Dear Ada');
    expect(await backUp())
      .to.be.greaterThan(0)
      .and.below(100_000);
    expect(await alerts()).to.deep.equal([]);

    const key = randomBytes(32);
    await writeAll((name) => {
      const cipher = createCipheriv('aes-256-ctr', key, randomBytes(16));
      return Buffer.concat([cipher.update(text(name)), cipher.final()]);
    });
    // Known by the store itself: encrypted data is neither known nor compressible.
    expect(await backUp()).to.be.greaterThan(120 * text(names[0] ?? '').length * 0.9);
    const [flood] = await alerts();
    expect(flood).to.include({ severity: 'critical' });
    expect(flood.message).to.match(/^Files: at least half of the files were changed at once\./);
    expect(flood.details).to.deep.include({ configId, sign: 'changes', changedFiles: 120, fileCount: 120 });

    const resolved = await tenant.send('POST', `/alerts/${flood.id}/resolve`, {});
    expect(resolved.status, JSON.stringify(resolved.body)).to.equal(200);
    expect(await alerts(), 'accepted').to.deep.equal([]);
    await Promise.all(names.slice(10).map((name) => rm(name)));
    await backUp();
    await alerts();
    const [drop] = await alerts();
    expect(drop.message).to.match(/^Files: the newest backup has less than half of the usual size\./);
    expect(drop.details).to.deep.include({ configId, sign: 'size_drop' });
  });
});
