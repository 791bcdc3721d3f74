import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { eventually } from '../../support/eventually.ts';
import { needsRestic } from '../../support/restic.ts';
import { needsSmallDisk, type SmallDisk } from '../../support/small-disk.ts';
import type { TestApp } from '../../support/test-app.ts';
import { buildBackupTenant } from './backup-support.ts';
import { type RealDevice, realDevice } from './jobs/backup-devices.ts';
import {
  anObject,
  buildRepository,
  createStoreApp,
  inSystem,
  issue,
  objectRows,
  request,
} from './store-support.ts';

/** A disk that is full in the middle of an object: a small file system in memory, which root may mount. */
describe('the backup store on a disk without space', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let disk: string;
  let smallDisk: SmallDisk | undefined;
  let device: RealDevice | undefined;

  before(async function () {
    // The check before an upload is off, as where two uploads have both been told that there is room.
    app = await createStoreApp({ backupStore: { reserveBytes: -(2 ** 40) } });
    disk = path.join(app.dataDir, 'backups');
    await mkdir(disk, { recursive: true });
    smallDisk = needsSmallDisk(this, disk, '4m');
  });
  after(async () => {
    await device?.close();
    smallDisk?.remove();
    await app?.close();
  });

  it('answers 507, keeps nothing of the object, and goes on with what fits', async () => {
    const { id } = await buildRepository(app);
    const credential = await issue(app, id, 'device');
    const upload = async ({ content, name }: ReturnType<typeof anObject>) =>
      request(app.url, id, credential, ['POST', `data/${name}`], { body: content });
    const large = anObject(6 * 2 ** 20);
    const refused = await upload(large);
    expect([refused.status, JSON.parse(String(refused.body)).code]).to.deep.equal([507, 'STORAGE_FULL']);
    expect(await objectRows(app.server.database.pool, id)).to.deep.equal([]);
    expect(await readdir(path.join(disk, id, 'tmp'))).to.deep.equal([]);
    expect((await request(app.url, id, credential, ['HEAD', `data/${large.name}`])).status).to.equal(404);
    const small = anObject(100_000);
    expect((await upload(small)).status).to.equal(200);
    const [row] = await objectRows(app.server.database.pool, id);
    expect(row).to.include({ name: small.name });
  });

  it('fails the backup of a device, which leaves nothing behind, and goes on once there is room', async function () {
    needsRestic(this);
    const tenant = await buildBackupTenant(app);
    const source = path.join(app.dataDir, 'source');
    await mkdir(source);
    await writeFile(path.join(source, 'large'), randomBytes(8 * 2 ** 20));
    await tenant.createConfig({ sources: { paths: { linux: [source] } }, isDefault: true });
    device = await realDevice(app, tenant.orgId);
    const { deviceId } = device;
    await device.start();
    const read = async (where: string) => (await tenant.send('GET', where)).body;
    const backUp = async () => {
      const { status, body } = await tenant.send('POST', `/backup/jobs/run/${deviceId}`, {});
      expect(status, JSON.stringify(body)).to.equal(201);
      return eventually(
        () => read(`/backup/jobs/${body.id}`),
        ({ finishedAt }) => finishedAt !== null,
        90_000,
      );
    };

    const failed = await backUp();
    expect(failed).to.include({ status: 'failed', snapshotId: null });
    expect(failed.error).to.deep.equal({
      code: 'DESTINATION_FULL',
      message: 'The destination of the backup has no space left. Make room there, or have its quota raised.',
    });
    expect((await read(`/backup/snapshots?deviceId=${deviceId}`)).data).to.deep.equal([]);
    const left = await inSystem(app, async (tx) => ({
      locks: await tx('backup_objects')
        .where({ repository_id: failed.repositoryId, type: 'locks' })
        .whereIn('credential_id', tx('backup_store_credentials').select('id').where({ role: 'device' })),
      credentials: await tx('backup_store_credentials')
        .where({ repository_id: failed.repositoryId, role: 'device' })
        .whereNull('ended_at'),
    }));
    expect(left).to.deep.equal({ locks: [], credentials: [] });

    smallDisk?.resize('64m');
    const completed = await backUp();
    expect(completed.error).to.equal(null);
    expect(completed.status).to.equal('completed');
    const snapshotId: string = completed.snapshotId;

    // A restore to a disk without room says so before it writes anything.
    const target = path.join(app.dataDir, 'target');
    await mkdir(target);
    const targetDisk = needsSmallDisk(this, target, '4m');
    try {
      const order = await tenant.send('POST', '/backup/restore', { snapshotId, targetPath: target });
      expect(order.status, JSON.stringify(order.body)).to.equal(201);
      const restore = await eventually(
        () => read(`/backup/restore/${order.body.id}`),
        ({ completedAt }) => completedAt !== null,
        90_000,
      );
      expect(restore).to.include({ status: 'failed', restoredFiles: null });
      expect(restore.error.code).to.equal('TARGET_FULL');
      expect(restore.error.message).to.match(
        /^The restore needs \d+ MiB, and the disk has 4 MiB left\. Make room there/,
      );
      expect(await readdir(target)).to.deep.equal([]);
    } finally {
      targetDisk.remove();
    }
  });
});
