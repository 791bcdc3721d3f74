import { expect } from 'chai';
import { mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { mountSmallDisk, needsSmallDisk, type SmallDisk } from '../../../support/small-disk.ts';
import type { TestApp } from '../../../support/test-app.ts';
import {
  anObject,
  buildRepository,
  createStoreApp,
  issue,
  objectRows,
  request,
} from '../../../support/backup/store-support.ts';

/** A disk that is full in the middle of an object: a small file system in memory, which root may mount. */
describe('the backup store on a disk without space', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let disk: string;
  let smallDisk: SmallDisk | undefined;

  before(async function () {
    // The check before an upload is off, as where two uploads have both been told that there is room.
    app = await createStoreApp({ backupStore: { reserveBytes: -(2 ** 40) } });
    disk = path.join(app.dataDir, 'backups');
    await mkdir(disk, { recursive: true });
    smallDisk = needsSmallDisk(this, mountSmallDisk(disk, '4m'));
  });
  after(async () => {
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
});
