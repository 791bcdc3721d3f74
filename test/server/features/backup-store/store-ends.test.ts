import { expect } from 'chai';
import { recordObject } from '../../../../src/features/backup-store/store.queries.ts';
import {
  buildRepository,
  createStoreApp,
  inSystem,
  issue,
  type Repository,
  request,
} from '../../../support/backup/store-support.ts';
import { buildPerson } from '../../../support/factories.ts';
import { meetAtRow } from '../../../support/meet-at-row.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { insertRestore } from '../../../support/backup/restore-rows.ts';

describe('a credential of the backup store', () => {
  let app: TestApp;
  let repository: Repository;
  before(async () => {
    app = await createStoreApp();
  });
  after(() => app.close());
  beforeEach(async () => {
    repository = await buildRepository(app);
  });

  type Credential = Awaited<ReturnType<typeof issue>>;
  const opens = async (credential: Credential) =>
    (await request(app.url, repository.id, credential, ['HEAD', 'config'])).status !== 401;
  const set = (table: string, id: string, row: object) =>
    inSystem(app, (tx) => tx(table).where({ id }).update(row));

  it('ends with its tenant, but not that of the server itself, and lasts while the tenant is suspended', async () => {
    const { orgId, partnerId } = repository;
    const device = await issue(app, repository.id, 'device');
    const reader = await issue(app, repository.id, 'reader');
    const server = await issue(app, repository.id, 'server');
    await set('organizations', orgId, { status: 'suspended' });
    for (const one of [device, reader, server]) expect(await opens(one)).to.equal(true);
    const gone: [string, string, object, object][] = [
      ['organizations', orgId, { status: 'churned' }, { status: 'active' }],
      ['organizations', orgId, { deleted_at: new Date() }, { deleted_at: null }],
      ['partners', partnerId, { status: 'churned' }, { status: 'active' }],
      ['partners', partnerId, { deleted_at: new Date() }, { deleted_at: null }],
    ];
    for (const [table, id, end, undo] of gone) {
      await set(table, id, end);
      expect([await opens(device), await opens(reader), await opens(server)]).to.deep.equal([
        false,
        false,
        true,
      ]);
      await set(table, id, undo);
      expect(await opens(device)).to.equal(true);
    }
  });

  it('ends for good with its device, and not with another one', async () => {
    const { orgId, partnerId, deviceId } = repository;
    const [own, other] = [
      await issue(app, repository.id, 'reader'),
      await issue(app, repository.id, 'reader'),
    ];
    await inSystem(app, async (tx) => {
      const restoreId = await insertRestore(tx, { orgId, deviceId, work: { status: 'running' } });
      await tx('backup_store_credentials').where({ id: own.id }).update({ job_id: restoreId });
    });
    const { token } = await buildPerson(app, { scope: 'partner', partnerId });
    expect(await opens(own)).to.equal(true);
    expect((await app.call('DELETE', `/devices/${deviceId}`, { token })).status).to.equal(200);
    expect([await opens(own), await opens(other)]).to.deep.equal([false, true]);
    await set('devices', deviceId, { condition: 'normal' });
    expect(await opens(own), 'the device is back').to.equal(false);
  });

  it('records uploads that meet in its repository, each once', async () => {
    const { id: credentialId } = await issue(app, repository.id, 'device');
    const names = ['aa', 'bb', 'cc', 'dd'].map((letters) => letters.repeat(32));
    const stored = await meetAtRow(
      app,
      { table: 'backup_repositories', id: repository.id, column: 'stored_bytes' },
      names.map(
        (name) => () =>
          recordObject(
            app.server.database.pool,
            { repositoryId: repository.id, credentialId },
            { type: 'data', name, size: 1e6 },
          ),
      ),
    );
    expect(stored).to.deep.equal(names.map(() => true));
    const [row] = await inSystem(app, (tx) =>
      tx('backup_repositories').where({ id: repository.id }).select('stored_bytes'),
    );
    expect(Number(row.stored_bytes)).to.equal(names.length * 1e6);
  });
});
