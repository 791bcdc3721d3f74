import { expect } from 'chai';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { FolderStorage } from '../../../../src/features/backup-store/folder-storage.ts';
import { reconcileAll } from '../../../../src/features/backup-store/upkeep.work.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { encryptObject } from '../../../../src/engine/repository/object-encoding.ts';
import {
  masterKeyOf,
  putIndex,
  putObject,
  putSnapshot,
  putTree,
} from '../../../support/engine/repository-forge.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { createStoreApp, inSystem, sha256 } from '../../../support/backup/store-support.ts';

describe('downloads from backup snapshots', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let device: BackedUpDevice;
  let snapshot: BackupSnapshot;
  const big = randomBytes(24_000_000);

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    device = await buildBackedUpDevice(app);
    await device.write({
      'big.bin': big,
      'Übersicht "2026".txt': 'overview',
      'tree/in/a.txt': 'first',
      [`tree/${'long-'.repeat(30)}name`]: 'second',
      'tree/漢字\n.txt': 'third',
      'tree/back\\slash': 'fourth',
      'tree/empty': '',
    });
    await symlink('/etc/passwd', path.join(device.folder, 'tree/link'));
    snapshot = await device.backUp();
  });
  after(async () => app?.close());

  const urlOf = (file: string, { id = snapshot.id, query = '' } = {}) =>
    `${app.url}/api/v1/backup/snapshots/${id}/download?path=${encodeURIComponent(file)}${query}`;
  function download(
    file: string,
    { person = device.admin, ...more }: RequestInit & { person?: Person; id?: string; query?: string } = {},
  ): Promise<Response> {
    const { id, query, headers, ...init } = more;
    return fetch(
      urlOf(file, { ...(id === undefined ? {} : { id }), ...(query === undefined ? {} : { query }) }),
      {
        ...init,
        headers: { authorization: `Bearer ${person.token}`, ...(headers as Record<string, string>) },
      },
    );
  }
  const bytesOf = async (answer: Response) => Buffer.from(await answer.arrayBuffer());
  const inFolder = (name: string) => path.join(device.folder, name);

  it('send a file as it was, whole or a part of it, under its name', async () => {
    const whole = await download(inFolder('big.bin'));
    expect(whole.status).to.equal(200);
    expect(whole.headers.get('content-length')).to.equal(String(big.length));
    expect(sha256(await bytesOf(whole))).to.equal(sha256(big));
    const etag = whole.headers.get('etag') ?? '';

    const headers = { range: 'bytes=9999990-10000009', 'if-range': etag };
    const part = await download(inFolder('big.bin'), { headers });
    expect(part.status).to.equal(206);
    expect(part.headers.get('content-range')).to.equal(`bytes 9999990-10000009/${big.length}`);
    expect(await bytesOf(part)).to.deep.equal(big.subarray(9_999_990, 10_000_010));
    const other = await download(inFolder('Übersicht "2026".txt'), { headers });
    expect([other.status, await other.text()]).to.deep.equal([200, 'overview']);
    expect(other.headers.get('content-disposition')).to.equal(
      `attachment; filename="_bersicht _2026_.txt"; filename*=UTF-8''%C3%9Cbersicht%20_2026_.txt`,
    );
    const beyond = await download(inFolder('tree/in/a.txt'), { headers: { range: 'bytes=5-' } });
    expect(beyond.status).to.equal(416);
    const head = await download(inFolder('big.bin'), { method: 'HEAD' });
    expect(head.headers.get('content-length')).to.equal(String(big.length));
  });

  it('are in the audit trail with what was downloaded', async () => {
    const rows = await inSystem(app, (tx) =>
      tx('audit_logs')
        .whereIn('action', ['backup.snapshot.download', 'data.export'])
        .andWhere({ org_id: device.orgId })
        .orderBy('timestamp')
        .select<{ action: string; resource_id: string; details: Record<string, unknown> }[]>(
          'action',
          'resource_id',
          'details',
        ),
    );
    for (const action of ['backup.snapshot.download', 'data.export']) {
      const { resource_id, details } = rows.find((row) => row.action === action) ?? {};
      expect(resource_id).to.equal(snapshot.id);
      expect(details).to.include({ path: inFolder('big.bin'), kind: 'file', sizeBytes: big.length });
    }
  });

  it('send a folder as an archive that tar unpacks, and list what they leave out', async () => {
    const answer = await download(inFolder('tree'));
    expect(answer.headers.get('content-type')).to.equal('application/x-tar');
    const target = path.join(app.dataDir, 'unpacked');
    await mkdir(target);
    execFileSync('tar', ['-x', '-C', target], { input: await bytesOf(answer) });
    const read = (name: string) => readFile(path.join(target, name), 'utf8');
    expect((await readdir(path.join(target, 'tree'))).sort()).to.deep.equal(
      ['empty', 'in', `${'long-'.repeat(30)}name`, '漢字\n.txt'].sort(),
    );
    expect(await read('tree/in/a.txt')).to.equal('first');
    expect(await read(`tree/${'long-'.repeat(30)}name`)).to.equal('second');
    const left = await read('left-out-of-tree.txt');
    expect(left).to.contain('symbolic link: link -> /etc/passwd');
    expect(left).to.contain('backslash in the name: back\\slash');
    const all = await download('/');
    expect(all.headers.get('content-disposition')).to.contain(
      `snapshot-${snapshot.engineId.slice(0, 8)}.tar`,
    );
    await all.body?.cancel();
  });

  it('of a forged snapshot lead nowhere: they are refused, or left out', async () => {
    const folder = path.join(app.dataDir, 'backups', device.repositoryId);
    const key = await masterKeyOf(folder, device.password);
    const blob = encryptObject(key, Buffer.from('evil'));
    const pack = await putObject(folder, 'data', blob);
    const part = sha256(Buffer.from('evil'));
    await putIndex(folder, key, [
      { id: pack, blobs: [{ id: part, type: 'data', offset: 0, length: blob.length }] },
    ]);
    const file = (name: string) => ({ name, type: 'file', size: 4, content: [part] });
    const inner = await putTree(folder, key, [file('passwd')]);
    const bad = async (name: string) =>
      putSnapshot(folder, key, await putTree(folder, key, [file(name), file('good')]));
    const engineIds = [await bad('../x'), await bad('..'), await bad('a/b'), await bad('a\0b')];
    const tricky = await putTree(folder, key, [
      { name: 'etc', type: 'symlink', linktarget: '/etc' },
      { name: 'etc', type: 'dir', subtree: inner },
      file('..\\..\\windows'),
      file('x'.repeat(5000)),
      { ...file('broken'), content: ['b'.repeat(64)] },
      file('good'),
    ]);
    engineIds.push(await putSnapshot(folder, key, tricky));
    const storage = new FolderStorage(path.join(app.dataDir, 'backups'));
    const parts = { db: app.server.database.jobPool, storage, log: { warn() {}, error() {} } as never };
    await reconcileAll(parts, new AbortController().signal);
    const { orgId, deviceId, repositoryId } = device;
    const added = await inSystem(app, (tx) =>
      BackupSnapshot.query(tx).insertAndFetch(
        engineIds.map((engineId) => ({ orgId, deviceId, repositoryId, engineId, receivedAt: new Date() })),
      ),
    );
    for (const { id } of added.slice(0, 4)) {
      const answer = await download('/', { id });
      expect(answer.status).to.equal(409);
      expect(await answer.text()).to.contain('REPOSITORY_DAMAGED');
    }
    const archive = await bytesOf(await download('/', { id: added[4]?.id ?? '' }));
    await writeFile(path.join(app.dataDir, 'forged.tar'), archive);
    const names = execFileSync('tar', ['-tf', path.join(app.dataDir, 'forged.tar')], { encoding: 'utf8' });
    const top = `snapshot-${engineIds[4]?.slice(0, 8)}`;
    expect(names.trim().split('\n')).to.deep.equal([`${top}/`, `${top}/good`, `left-out-of-${top}.txt`]);
  });

  it('are for those who may restore, of snapshots that they may see and that were not removed', async () => {
    const stranger = (await buildTenant(app)).admin;
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: device.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const file = inFolder('tree/in/a.txt');
    const status = async (...given: Parameters<typeof download>) => (await download(...given)).status;
    expect(await status(file, { person: stranger })).to.equal(404);
    expect(await status(file, { person: viewer })).to.equal(403);
    expect(await status(file, { id: device.repositoryId })).to.equal(404);
    expect(await status('/none')).to.equal(404);
    expect(await status(inFolder('tree/link'))).to.equal(404);
    for (const wrong of ['b', '/../etc', '/a/./b', '/a\0b', `/${'x'.repeat(40_000)}`]) {
      expect(await status(wrong), wrong.slice(0, 20)).to.be.oneOf([400, 431]);
    }
    expect(await status(file, { query: `&asOf=${'9'.repeat(5000)}` })).to.equal(400);
    const removal = { removedAt: new Date(), removedBecause: 'by hand' };
    await inSystem(app, (tx) => snapshot.$query(tx).patch(removal));
    expect(await status(file)).to.equal(409);
    expect(await status(file, { query: `&asOf=${snapshot.receivedAt.toISOString()}` })).to.equal(200);
    await inSystem(app, (tx) => snapshot.$query(tx).patch({ removedAt: null, removedBecause: null }));
  });

  it('run three at a time for a person, and what nobody reads any more frees its place', async () => {
    const leaving = new AbortController();
    const asked = Array.from({ length: 20 }, () => download(inFolder('big.bin'), { signal: leaving.signal }));
    // Their bodies are not read, so the three that are sent cannot end.
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).to.have.length(3);
    expect(statuses.filter((status) => status === 429)).to.have.length(17);
    const colleague = await buildPerson(app, { scope: 'partner', partnerId: device.partnerId });
    const theirs = await download(inFolder('tree/in/a.txt'), { person: colleague });
    expect(await theirs.text()).to.equal('first');
    leaving.abort();
    await eventually(
      () => download(inFolder('tree/in/a.txt')).then((answer) => answer.text()),
      (text) => text === 'first',
    );
  });
});
