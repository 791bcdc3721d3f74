import { expect } from 'chai';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { createRepository } from '../../../../src/features/backup-store/repository.service.ts';
import { buildTenant } from '../../../support/factories.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { createStoreApp, inSystem } from '../../../support/backup/store-support.ts';

describe('the comparison of backup snapshots', function () {
  this.timeout(60_000);
  let app: TestApp & { dataDir: string };
  let device: BackedUpDevice;
  let earlier: BackupSnapshot;
  let later: BackupSnapshot;

  before(async function () {
    needsRestic(this);
    app = await createStoreApp();
    device = await buildBackedUpDevice(app);
    await device.write({ 'a.txt': 'first', 'gone.txt': 'gone', 'same/b': 'b' });
    earlier = await device.backUp();
    await rm(path.join(device.folder, 'gone.txt'));
    const added = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`new/${at + 10}`, 'added']));
    await device.write({ 'a.txt': 'changed', ...added });
    later = await device.backUp();
  });
  after(async () => app?.close());

  const diff = (query: string, id = later.id, person = device.admin) =>
    device.send('GET', `/backup/snapshots/${id}/diff?${query}`, undefined, person);

  it('lists what differs, page by page, with totals of everything', async () => {
    const { status, body } = await diff(`against=${earlier.id}&limit=10&path=${device.folder}`);
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body).to.include({ isComplete: true, path: device.folder, against: earlier.id });
    expect(body.pagination).to.deep.equal({ page: 1, limit: 10, total: 33 });
    expect(body.totals).to.deep.equal({
      added: { entries: 31, bytes: 150 },
      removed: { entries: 1, bytes: 4 },
      changed: { entries: 1, bytes: 7 },
      typeChanged: { entries: 0, bytes: 0 },
    });
    expect(body.data[0]).to.deep.include({ path: `${device.folder}/a.txt`, change: 'changed' });
    expect(body.data[0].before).to.include({ type: 'file', sizeBytes: 5 });
    expect(body.data[0].after).to.include({ type: 'file', sizeBytes: 7 });
    const last = await diff(`against=${earlier.id}&limit=10&page=4&path=${device.folder}`);
    expect(last.body.data).to.have.length(3);
    const back = await diff(`against=${later.id}&path=${device.folder}`, earlier.id);
    expect(back.body.totals.removed).to.deep.equal({ entries: 31, bytes: 150 });
    expect((await diff('')).body).to.include({ against: earlier.id });
    expect((await diff('', earlier.id)).status).to.equal(404);
    const same = await diff(`against=${later.id}`);
    expect(same.body).to.deep.include({ compared: 0, data: [] });
  });

  it('is refused for snapshots of other repositories and of others, and for nonsense', async () => {
    const other = await buildBackedUpDevice(app);
    await other.write({ x: 'x' });
    const theirs = await other.backUp();
    const stranger = (await buildTenant(app)).admin;
    expect((await diff(`against=${theirs.id}`)).status).to.equal(404);
    expect((await diff(`against=${earlier.id}`, theirs.id)).status).to.equal(404);
    expect((await diff(`against=${earlier.id}`, later.id, stranger)).status).to.equal(404);
    const elsewhere = await inSystem(app, async (tx) => {
      const { orgId, deviceId } = device;
      const { id: repositoryId } = await createRepository(tx, { orgId, deviceId, configId: null });
      const { engineId, receivedAt } = earlier;
      return BackupSnapshot.query(tx).insertAndFetch({ orgId, deviceId, repositoryId, engineId, receivedAt });
    });
    expect((await diff(`against=${elsewhere.id}`)).body.details[0].path).to.equal('query.against');
    for (const wrong of ['against=1', `against=${earlier.id}&path=a`, `against=${'f'.repeat(10_000)}`]) {
      expect((await diff(wrong)).status, wrong.slice(0, 50)).to.equal(400);
    }
    const none = await diff(`against=${earlier.id}&path=/none`);
    expect(none.status).to.equal(404);
  });
});
