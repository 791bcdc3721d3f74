import { expect } from 'chai';
import { EncryptionKeyVersion, passwordOf } from '../../../../src/features/backup/key.model.ts';
import { createRepository } from '../../../../src/features/backup-store/repository.service.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice } from '../../../support/factories.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import {
  anObject,
  createStoreApp,
  end,
  inSystem,
  issue,
  objectRows,
  request,
  storeNewRepository,
} from '../../../support/backup/store-support.ts';
import { TEST_ENCRYPTION_KEY, type TestApp } from '../../../support/test-app.ts';

describe('a rotation of an encryption key', () => {
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let keyPath: string;
  let repository: { id: string; deviceId: string };

  before(async () => {
    app = await createStoreApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildBackupTenant(app);
    keyPath = `/backup/encryption/keys/${tenant.keyId}`;
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const encryptor = createEncryptor({ current: TEST_ENCRYPTION_KEY, old: [] });
    const made = await inSystem(app, async (tx) => {
      const version = await EncryptionKeyVersion.query(tx)
        .findOne({ key_id: tenant.keyId, version: 1 })
        .throwIfNotFound();
      const key = { encryptionKeyId: tenant.keyId, keyVersion: 1 };
      return {
        password: passwordOf(encryptor, version),
        stored: await createRepository(tx, {
          orgId: tenant.orgId,
          deviceId,
          configId: null,
          provider: 'server',
          ...key,
        }),
      };
    });
    repository = { id: made.stored.id, deviceId };
    const server = await issue(app, repository.id, 'server');
    const keyId = await storeNewRepository(app, repository.id, server, made.password);
    await end(app, server);
    await inSystem(app, (tx) =>
      made.stored.$query(tx).patch({ engineKeyId: keyId, initializedAt: new Date() }),
    );
  });

  const rotate = () => tenant.send('POST', `${keyPath}/rotate`);
  const key = async () => (await tenant.send('GET', keyPath)).body;
  const keysInStore = async () =>
    (await objectRows(app.server.database.pool, repository.id)).filter(
      ({ type, trashed_at: trashedAt }) => type === 'keys' && trashedAt === null,
    ).length;
  const sql = (text: string, values: string[]) =>
    inSystem(app, async (tx) => void (await tx.raw(text, values)));
  const away = (since: string) =>
    sql(
      `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason)
      values (?, ?, 1, 'test', 'disconnected', now() - ?::interval, 'socket_closed')
      on conflict (device_id) do update set since = excluded.since`,
      [repository.deviceId, tenant.orgId, since],
    );

  /** As after five minutes, by the clock of the database. */
  const nextRound = async () => {
    await sql(`select enqueue_job(?, 'backup.rotate-keys', null, null, '{}', null, 0, 86400, 1)`, [newId()]);
    await app.settle();
  };

  it('begins with the request, and ends without the device', async () => {
    await away('3 days');
    const bucket = await inSystem(app, (tx) =>
      createRepository(tx, {
        orgId: tenant.orgId,
        deviceId: repository.deviceId,
        configId: null,
        provider: 's3',
        encryptionKeyId: tenant.keyId,
        keyVersion: 1,
      }),
    );
    await inSystem(app, (tx) => bucket.$query(tx).patch({ initializedAt: new Date() }));
    expect((await rotate()).body).to.deep.include({
      version: 2,
      status: 'rotating',
      repositories: { total: 2, onNewestVersion: 0, outOfReach: 1 },
    });
    await app.settle();
    expect(await key(), 'a bucket is not claimed to be rotated').to.deep.include({
      version: 2,
      status: 'active',
      repositories: { total: 2, onNewestVersion: 1, outOfReach: 1 },
    });
    expect(await keysInStore()).to.equal(1);
  });

  it('waits for a device that writes, and refuses another one meanwhile', async () => {
    const device = await issue(app, repository.id, 'device');
    await rotate();
    await app.settle();
    expect(await key()).to.include({ status: 'rotating' });
    expect(await keysInStore()).to.equal(2);
    expect((await rotate()).status).to.equal(409);
    await end(app, device);
    await nextRound();
    expect(await key()).to.include({ status: 'active' });
  });

  it('ends without a device that went away in the middle of a backup', async () => {
    const device = await issue(app, repository.id, 'device');
    const { name, content } = anObject();
    const sent = await request(app.url, repository.id, device, ['POST', `data/${name}`], { body: content });
    expect(sent.status).to.equal(200);
    const old = `now() - interval '2 hours'`;
    await sql(`update backup_store_credentials set created_at = ${old} where id = ?`, [device.id]);

    await away('2 hours');
    await rotate();
    await app.settle();
    expect(await key(), 'it was sending a moment ago').to.include({ status: 'rotating' });

    await sql(`update backup_objects set arrived_at = ${old} where credential_id = ?`, [device.id]);
    await away('10 minutes');
    await nextRound();
    expect(await key(), 'it can come back').to.include({ status: 'rotating' });

    await away('2 hours');
    await nextRound();
    expect(await key()).to.include({ status: 'active' });
    const late = anObject();
    const refused = await request(app.url, repository.id, device, ['POST', `data/${late.name}`], {
      body: late.content,
    });
    expect(refused.status, 'it may write nothing more').to.equal(401);
  });
});
