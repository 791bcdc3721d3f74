import { expect } from 'chai';
import { execFileSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pathText } from '../../../../src/protocol/index.ts';
import { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { reconcileSnapshots } from '../../../../src/features/backup/snapshot-reconciliation.work.ts';
import { eventually } from '../../../support/eventually.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';
import { accessParts } from './care-support.ts';
import { type RealDevice, realDevice } from './backup-devices.ts';

const latin = (text: string) => Buffer.from(text, 'latin1');
const below = (folder: Buffer, name: Buffer) => Buffer.concat([folder, latin('/'), name]);

/** Each byte of its own file, and its text: names that look the same to everything that takes them for characters. */
const NAMES: readonly [string, string][] = [
  ['latin-\xe9t\xe9.txt', 'latin-\\xe9t\\xe9.txt'],
  ['latin-\xe8t\xe8.txt', 'latin-\\xe8t\\xe8.txt'],
  ['latin-\\xe9t\\xe9.txt', 'latin-\\x5cxe9t\\x5cxe9.txt'],
  ['latin-\xef\xbf\xbdt\xef\xbf\xbd.txt', 'latin-\ufffdt\ufffd.txt'],
  ['latin-\xc3\xa9t\xc3\xa9.txt', 'latin-été.txt'],
  ['[abc]*?.txt', '[abc]*?.txt'],
  ['plain.txt', 'plain.txt'],
];
/** Of a folder that is not UTF-8, in a source that is not either. */
const INNER = '/bad-\\xff-dir/inner.txt';

/** Names are bytes from the configured source through restic, the database, REST and the agent, and back. */
describe('files whose names are not UTF-8', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let device: RealDevice;
  /** As the server knows it. */
  let source: string;
  let bytes: Buffer;
  let snapshotId: string;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    tenant = await buildBackupTenant(app);
    device = await realDevice(app, tenant.orgId);
    bytes = below(Buffer.from(app.dataDir), latin('caf\xe9'));
    source = pathText(bytes);
    await mkdir(below(bytes, latin('bad-\xff-dir')), { recursive: true });
    await writeFile(below(bytes, latin('bad-\xff-dir/inner.txt')), INNER);
    for (const [name, text] of NAMES) await writeFile(below(bytes, latin(name)), text);
    await tenant.createConfig({
      sources: { paths: { linux: [source] } },
      isDefault: true,
    });
    await device.start();
    await eventually(
      async () => (await tenant.send('GET', `/devices/${device.deviceId}`)).body,
      ({ status }) => status === 'online',
    );
    snapshotId = await backUp();
  });
  after(async () => {
    await device?.close();
    await app?.close();
  });

  const ended = (where: string) =>
    eventually(
      async () => (await tenant.send('GET', where)).body,
      (body) => (body.finishedAt ?? body.completedAt ?? null) !== null,
      60_000,
    );
  async function backUp(): Promise<string> {
    const { body } = await tenant.send('POST', `/backup/jobs/run/${device.deviceId}`, {});
    const job = await ended(`/backup/jobs/${body.id}`);
    expect(job).to.include({ status: 'completed', error: null });
    return job.snapshotId as string;
  }
  const ask = (rest: string) => tenant.send('GET', `/backup/snapshots/${snapshotId}${rest}`);
  const query = (file: string) => encodeURIComponent(file);
  const download = (file: string) =>
    fetch(`${app.url}/api/v1/backup/snapshots/${snapshotId}/download?path=${query(file)}`, {
      headers: { authorization: `Bearer ${tenant.admin.token}` },
    });
  const target = (name: string) => path.join(app.dataDir, name);
  async function restore(name: string, selectedPaths: string[], more: object = {}) {
    const order = { snapshotId, targetPath: target(name), selectedPaths, ...more };
    const { body, status } = await tenant.send('POST', '/backup/restore', order);
    expect(status, JSON.stringify(body)).to.equal(201);
    return ended(`/backup/restore/${body.id}`);
  }
  const filesIn = (folder: string) =>
    execFileSync('find', [folder, '-type', 'f', '-printf', '%P\\0'], { encoding: 'latin1' })
      .split('\0')
      .filter((each) => each !== '')
      .sort();

  it('are browsed, searched and downloaded by a path that stands for one of them', async () => {
    expect((await ask('')).body.paths).to.deep.equal([source]);
    const { body } = await ask(`/browse?path=${query(source)}`);
    expect(body.data.map(({ name }: { name: string }) => name).sort()).to.deep.equal(
      [...NAMES.map(([, text]) => text), 'bad-\\xff-dir'].sort(),
    );
    for (const [, text] of NAMES) {
      expect(await (await download(`${source}/${text}`)).text()).to.equal(text);
    }
    const inner = await ask(`/browse?path=${query(`${source}/bad-\\xff-dir`)}`);
    expect(inner.body.data[0].path).to.equal(source + INNER);
    expect((await ask(`/browse?path=${query(`${source}/bad-\\xfe-dir`)}`)).status).to.equal(404);
    const found = await ask(`/search?name=${query('\\xe8')}`);
    expect(found.body.data.map(({ path: each }: { path: string }) => each)).to.deep.equal([
      `${source}/latin-\\xe8t\\xe8.txt`,
    ]);
  });

  it('have their bytes in the archive of a folder', async () => {
    const answer = await download(source);
    const archive = target('folder.tar');
    await writeFile(archive, Buffer.from(await answer.arrayBuffer()));
    const folder = target('unpacked');
    await mkdir(folder);
    execFileSync('tar', ['xf', archive, '-C', folder, '--strip-components=1'], { stdio: 'ignore' });
    // A backslash is left out: unpacked on Windows, it would part names.
    const inArchive = NAMES.map(([name]) => name).filter((name) => !name.includes('\\'));
    expect(filesIn(folder).filter((name) => !name.startsWith('left-out'))).to.deep.equal(
      [...inArchive, 'bad-\xff-dir/inner.txt'].sort(),
    );
  });

  it('are restored one by one, and only what is there counts as restored', async () => {
    for (const [at, [name, text]] of NAMES.slice(0, 4).entries()) {
      const done = await restore(`one-${at}`, [`${source}/${text}`]);
      expect(done, text).to.deep.include({
        status: 'completed',
        restoredFiles: 1,
        restoredSize: Buffer.byteLength(text),
        failed: { count: 0, paths: [] },
      });
      const folder = target(`one-${at}`);
      const file = below(below(Buffer.from(folder), bytes.subarray(1)), latin(name));
      expect(await readFile(file, 'utf8')).to.equal(text);
      expect(filesIn(folder)).to.have.length(1);
    }
    const planned = await restore('none', [source + INNER], { dryRun: true });
    expect(planned).to.include({ status: 'completed', restoredFiles: 1 });
    expect((await restore('folder', [`${source}/bad-\\xff-dir/`])).restoredFiles).to.equal(1);
    expect(filesIn(target('folder'))[0]?.endsWith('caf\xe9/bad-\xff-dir/inner.txt')).to.equal(true);
    const unknown = { snapshotId, selectedPaths: [`${source}/latin-\\xe7t\\xe9.txt`] };
    const { status, body } = await tenant.send('POST', '/backup/restore', unknown);
    expect([status, body.details[0].path]).to.deep.equal([400, 'body.selectedPaths.0']);
  });

  it('come to a target whose name is not UTF-8', async () => {
    const done = await restore('to-caf\\xe9', [`${source}/plain.txt`]);
    expect(done).to.include({ status: 'completed', targetPath: target('to-caf\\xe9') });
    const folder = below(Buffer.from(app.dataDir), latin('to-caf\xe9'));
    expect(await readFile(below(below(folder, bytes.subarray(1)), latin('plain.txt')), 'utf8')).to.equal(
      'plain.txt',
    );
  });

  it('pass each test restore', async () => {
    for (let run = 0; run < 2; run++) {
      const { body } = await tenant.send('POST', '/backup/verify', {
        deviceId: device.deviceId,
        verificationType: 'test_restore',
      });
      const done = await eventually(
        async () =>
          (await tenant.send('GET', `/backup/verifications?deviceId=${device.deviceId}`)).body.data.find(
            ({ id }: { id: string }) => id === body.id,
          ),
        (found) => found?.finishedAt != null,
        60_000,
      );
      expect(done, JSON.stringify(done)).to.include({ status: 'passed', filesFailed: 0, errorCode: null });
      expect(done.filesVerified).to.be.greaterThan(5);
    }
  });

  it('are compared with those before, and the source is read again only if it has changed', async () => {
    await writeFile(below(bytes, latin('latin-\xe8t\xe8.txt')), 'changed');
    const later = await backUp();
    const { body } = await tenant.send('GET', `/backup/snapshots/${later}/diff`);
    const changed = body.data.filter(
      (each: { change: string; before: { type: string } }) => each.before?.type !== 'directory',
    );
    expect(changed.map((each: { path: string; change: string }) => [each.path, each.change])).to.deep.equal([
      [`${source}/latin-\\xe8t\\xe8.txt`, 'changed'],
    ]);
    const row = await inSystem(app, (tx) => BackupSnapshot.query(tx).findById(later).throwIfNotFound());
    expect(row.changedFiles).to.equal('1');
  });

  it('keep the name of their source if the snapshot is found again in its repository', async () => {
    const engineId = await inSystem(app, async (tx) => {
      await tx('backup_verification_facts').where({ snapshot_id: snapshotId }).delete();
      await tx('backup_restore_facts').where({ snapshot_id: snapshotId }).delete();
      const [row] = await tx('backup_snapshots').where({ id: snapshotId }).delete().returning('*');
      return row as { engine_id: string; repository_id: string };
    });
    const parts = { ...accessParts(app), log: quietLog };
    await reconcileSnapshots(parts, [engineId.repository_id], new AbortController().signal);
    const found = await inSystem(app, (tx) =>
      BackupSnapshot.query(tx).findOne({ engine_id: engineId.engine_id }).throwIfNotFound(),
    );
    expect(found.paths).to.deep.equal([source]);
  });
});
