import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import type { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { buildPerson, buildTenant } from '../../../support/factories.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { createStoreApp, end, inSystem } from '../../../support/backup/store-support.ts';

describe('backup snapshots', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let device: BackedUpDevice;
  let snapshot: BackupSnapshot;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    device = await buildBackedUpDevice(app);
    await device.write({
      'a.txt': 'first',
      'b/inner.txt': 'second',
      'b/odd\nname.txt': 'third',
      'b/ünïcode': 'fourth',
      'sum/Report 2026.PDF': randomBytes(2000),
    });
    snapshot = await device.backUp();
  });
  after(async () => app?.close());

  const get = (path: string) => device.send('GET', path);
  const browse = (id: string, folder: string, query = '') =>
    get(`/backup/snapshots/${id}/browse?path=${encodeURIComponent(folder)}${query}`);
  const names = ({ body }: { body: { data: { name: string }[] } }) => body.data.map(({ name }) => name);

  it('are listed by their arrival, read, and browsed page by page', async () => {
    const { id, engineId } = snapshot;
    const list = await get(`/backup/snapshots?deviceId=${device.deviceId}`);
    expect(list.body.data[0]).to.include({ id, engineId, provider: 'server', isImmutable: false });
    expect((await get(`/backup/snapshots/${id}`)).body).to.deep.equal(list.body.data[0]);

    const top = await browse(id, device.folder);
    expect(top.body.data).to.have.length(3);
    expect(top.body.data[0]).to.include({
      name: 'a.txt',
      path: `${device.folder}/a.txt`,
      type: 'file',
      sizeBytes: 5,
    });
    expect(top.body.data[1]).to.include({ name: 'b', type: 'directory' });
    const inner = await browse(id, `${device.folder}/b/`, '&limit=2&page=2');
    expect(inner.body.path).to.equal(`${device.folder}/b`);
    expect(names(inner)).to.deep.equal(['ünïcode']);
    expect(inner.body.pagination).to.deep.equal({ page: 2, limit: 2, total: 3 });
    expect(names(await browse(id, `${device.folder}/b`, '&limit=2'))).to.deep.equal([
      'inner.txt',
      'odd\nname.txt',
    ]);
  });

  it('are searched by name, in any case, within a folder', async () => {
    const { id } = snapshot;
    const search = (query: string) => get(`/backup/snapshots/${id}/search?${query}`);
    const found = await search('name=report');
    expect(found.body).to.deep.include({ isComplete: true });
    expect(found.body.data[0]).to.include({ path: `${device.folder}/sum/Report 2026.PDF`, sizeBytes: 2000 });
    const folder = encodeURIComponent(`${device.folder}/b`);
    expect((await search(`name=report&path=${folder}`)).body.data).to.deep.equal([]);
    expect(names(await search(`name=INNER&path=${folder}`))).to.deep.equal(['inner.txt']);
    // In the other Unicode form.
    expect(names(await search(`name=${encodeURIComponent('ünïcode'.normalize('NFD'))}`))).to.deep.equal([
      'ünïcode',
    ]);
  });

  it('answer 404 for a path that is none, and 400 for one that leads elsewhere', async () => {
    const { id } = snapshot;
    const missing = await browse(id, '/none');
    expect(missing.body).to.include({ code: 'NOT_FOUND' });
    expect((await browse(id, `${device.folder}/a.txt`)).status).to.equal(404);
    for (const path of ['b', '/../etc', '/a/./b', '/a\0b', `/${'x'.repeat(40_000)}`]) {
      const { status } = await browse(id, path);
      expect(status, path.slice(0, 20)).to.be.oneOf([400, 431]);
    }
  });

  it('of an earlier time are browsed after a wrong removal, until the trash is emptied', async () => {
    const ransomed = await buildBackedUpDevice(app);
    await ransomed.write({ 'good.txt': 'good' });
    const good = await ransomed.backUp();
    const before = good.receivedAt;
    await new Promise((resolve) => setTimeout(resolve, 20));
    const server = await ransomed.as('server');
    await server.ok('forget', good.engineId, '--prune');
    await end(app, server.credential);
    await inSystem(app, (tx) => good.$query(tx).patch({ removedAt: new Date(), removedBecause: 'by hand' }));

    const ask = (path: string) => ransomed.send('GET', path);
    const asOf = `asOf=${before.toISOString()}`;
    expect((await ask('/backup/snapshots')).body.data).to.deep.equal([]);
    expect((await ask(`/backup/snapshots?${asOf}`)).body.data[0]).to.include({ id: good.id });
    const path = `path=${encodeURIComponent(ransomed.folder)}`;
    expect((await ask(`/backup/snapshots/${good.id}/browse?${path}`)).status).to.equal(409);
    expect(names(await ask(`/backup/snapshots/${good.id}/browse?${path}&${asOf}`))).to.deep.equal([
      'good.txt',
    ]);
    await inSystem(app, (tx) =>
      tx('backup_repositories').where({ id: ransomed.repositoryId }).update({ purged_through: new Date() }),
    );
    const gone = await ask(`/backup/snapshots/${good.id}/browse?${path}&${asOf}`);
    expect(gone.status).to.equal(409);
    expect(gone.body.error).to.contain('is gone');
  });

  it('open with an earlier version of the key, as of the time before its rotation', async () => {
    const { id, receivedAt } = snapshot;
    await device.send('POST', `/backup/encryption/keys/${device.encryptionKeyId}/rotate`, {});
    await inSystem(app, (tx) =>
      tx('backup_repositories')
        .where({ id: device.repositoryId })
        .update({ key_version: 2, engine_key_id: 'f'.repeat(64) }),
    );
    const answer = await browse(id, device.folder, `&asOf=${receivedAt.toISOString()}`);
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
  });

  it('are invisible to other tenants, and not changed by viewers', async () => {
    const { id } = snapshot;
    const stranger = (await buildTenant(app)).admin;
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: device.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    for (const path of ['', '/browse', '/search?name=a']) {
      expect(
        (await device.send('GET', `/backup/snapshots/${id}${path}`, undefined, stranger)).status,
      ).to.equal(404);
    }
    const hold = { reason: 'court' };
    const held = (person: typeof stranger) =>
      device.send('POST', `/backup/snapshots/${id}/legal-hold`, hold, person);
    expect((await held(stranger)).status).to.equal(404);
    expect((await held(viewer)).status).to.equal(403);
  });

  it('are held until a person with a second factor releases them, and immutable without a way back', async () => {
    const { id } = snapshot;
    const at = `/backup/snapshots/${id}`;
    expect((await device.send('POST', `${at}/legal-hold`, {})).status).to.equal(400);
    const held = await device.send('POST', `${at}/legal-hold`, { reason: 'court' });
    expect(held.body).to.include({ legalHold: true, retentionBlockedReason: 'legal_hold' });
    const plain = await buildPerson(app, { scope: 'partner', partnerId: device.partnerId });
    const release = { enabled: false };
    expect((await device.send('POST', `${at}/legal-hold`, release, plain)).body.code).to.equal(
      'MFA_REQUIRED',
    );
    const released = await device.send('POST', `${at}/legal-hold`, release);
    expect(released.body).to.include({ legalHold: false, legalHoldReason: null });

    const immutable = await device.send('POST', `${at}/immutability`, { immutableDays: 30 });
    expect(immutable.body).to.include({ isImmutable: true, retentionBlockedReason: 'immutable' });
    expect((await device.send('POST', `${at}/immutability`, { immutableDays: 29 })).status).to.equal(409);
    expect((await device.send('POST', `${at}/immutability`, { immutableDays: 31 })).status).to.equal(200);
    for (const wrong of [{}, { extendUntil: '2020-01-01' }, { extendUntil: '2999-01-01' }]) {
      expect((await device.send('POST', `${at}/immutability`, wrong)).status).to.equal(400);
    }
  });
});
