import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { buildDevice, buildPerson } from '../../../support/factories.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant, storedText } from '../../../support/backup/backup-support.ts';
import { anObject, createStoreApp, inSystem, issue, request } from '../../../support/backup/store-support.ts';
import { buildVaultDevice } from '../../../support/backup/vaults/vault-support.ts';

const S3 = {
  provider: 's3',
  details: {
    bucket: 'acme-vault',
    region: 'eu-central-1',
    endpoint: 'https://10.0.0.7',
    accessKey: 'AKIA',
    secretKey: 'very-secret',
  },
};

describe('vaults', function () {
  this.timeout(60_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let stranger: BackupTenant;
  let configId: string;
  let deviceId: string;

  before(async () => {
    app = await createStoreApp();
    tenant = await buildBackupTenant(app);
    stranger = await buildBackupTenant(app);
    configId = (await tenant.createConfig()).id;
    deviceId = (await buildDevice(app, tenant.orgId)).deviceId;
  });
  after(async () => app?.close());

  const create = (body: object) => tenant.send('POST', '/backup/vault', { deviceId, configId, ...body });

  it('are made, listed, changed and deleted, and never show their secret', async () => {
    const made = await create(S3);
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    expect(made.body).to.deep.include({
      deviceId,
      configId,
      name: 'Vault',
      encryptionKeyId: tenant.keyId,
      isActive: true,
      syncAfterBackup: true,
      schedule: null,
      retentionCount: 3,
      maxLagHours: 48,
      details: { ...S3.details, secretKey: { hasSecret: true } },
      lastSyncStatus: null,
      lastSyncAt: null,
    });
    const path = `/backup/vault/${made.body.id}`;
    const changed = await tenant.send('PATCH', path, { name: 'Far', isActive: false, retentionCount: 10 });
    expect(changed.body).to.include({ name: 'Far', isActive: false, retentionCount: 10 });
    expect((await tenant.send('PATCH', path, {})).status).to.equal(400);
    expect((await tenant.send('POST', `${path}/sync`, {})).status, 'not active').to.equal(409);
    expect((await tenant.send('GET', `${path}/status`)).body.data.state).to.equal('inactive');
    const listed = await tenant.send('GET', `/backup/vault?deviceId=${deviceId}&isActive=false`);
    expect(listed.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([made.body.id]);
    await app.server.chainWriter.flush();
    expect(await storedText(app, ['backup_vaults', 'audit_logs'])).not.to.include('very-secret');
    expect((await tenant.send('DELETE', path)).body).to.deep.equal({ success: true, keptSnapshots: 0 });
    expect((await tenant.send('GET', path)).status).to.equal(404);
  });

  it('are tried again at the same time when they are saved with the schedule that they have', async () => {
    const { body } = await create({ ...S3, details: { ...S3.details, prefix: 'saved' }, name: 'Saved' });
    const again = new Date(Date.now() + 3_600_000);
    await inSystem(app, (tx) => tx('backup_vaults').where('id', body.id).update({ next_sync_at: again }));
    const path = `/backup/vault/${body.id}`;
    const saved = await tenant.send('PATCH', path, { name: 'Saved again', schedule: null });
    expect(saved.status, JSON.stringify(saved.body)).to.equal(200);
    expect((await tenant.send('GET', `${path}/status`)).body.data.nextSyncAt).to.equal(again.toISOString());
    await tenant.send('PATCH', path, { schedule: { frequency: 'daily', timezone: 'UTC' } });
    const moved = (await tenant.send('GET', `${path}/status`)).body.data.nextSyncAt;
    expect(moved).to.match(/T00:00:00.000Z$/);
    await tenant.send('DELETE', path);
  });

  it('are refused with what is not theirs, and with nonsense, by the name of the field', async () => {
    const { deviceId: foreignDevice } = await buildDevice(app, stranger.orgId);
    const foreignConfig = (await stranger.createConfig()).id;
    const local = (path: unknown) => ({ provider: 'local', details: { path } });
    const faults: [object, number, string?][] = [
      [{ ...local('/mnt/vault'), deviceId: foreignDevice }, 404],
      [{ ...local('/mnt/vault'), configId: foreignConfig }, 400, 'body.configId'],
      [{ ...local('/mnt/vault'), encryptionKeyId: stranger.keyId }, 400, 'body.encryptionKeyId'],
      [local('relative'), 400, 'body.details.path'],
      [local('/mnt/../etc'), 400, 'body.details.path'],
      [local('/mnt/\0vault'), 400, 'body.details.path'],
      [local(`/${'x'.repeat(2000)}`), 400, 'body.details.path'],
      [{ ...S3, details: { ...S3.details, endpoint: 'http://10.0.0.7' } }, 400, 'body.details.endpoint'],
      [{ ...S3, details: { ...S3.details, endpoint: 'https://u:p@10.0.0.7' } }, 400, 'body.details.endpoint'],
      [{ ...S3, details: { ...S3.details, prefix: '../..' } }, 400, 'body.details.prefix'],
      [{ provider: 'server', retentionCount: 0 }, 400, 'body.retentionCount'],
      [{ provider: 'server', retentionCount: 101 }, 400, 'body.retentionCount'],
      [{ provider: 'server', name: 'x'.repeat(1_000_000) }, 413],
      [{ provider: 'ftp' }, 400, 'body.provider'],
    ];
    for (const [body, status, path] of faults) {
      const answer = await create(body);
      const text = JSON.stringify(answer.body).slice(0, 300);
      expect(answer.status, `${JSON.stringify(body).slice(0, 100)}: ${text}`).to.equal(status);
      if (path !== undefined) expect(answer.body.details[0].path).to.equal(path);
      expect(text).not.to.include('very-secret');
    }
    expect((await tenant.send('GET', `/backup/vault?deviceId=${deviceId}`)).body.data).to.deep.equal([]);
  });

  it('are not in the folder or bucket that they copy', async () => {
    const config = await tenant.createConfig({
      name: 'Disk',
      provider: 'local',
      details: { path: '/mnt/backup' },
    });
    const same = await create({
      configId: config.id,
      provider: 'local',
      details: { path: '/mnt/backup/' },
    });
    expect([same.status, same.body.details?.[0].path]).to.deep.equal([400, 'body.details.path']);
    const other = await create({ configId: config.id, provider: 'local', details: { path: '/mnt/other' } });
    expect(other.status).to.equal(201);
    const path = `/backup/vault/${other.body.id}`;
    for (const details of [{ path: '/mnt/backup' }, { path: '../x' }, { bucket: 'x' }, {}]) {
      expect((await tenant.send('PATCH', path, { details })).status, JSON.stringify(details)).to.equal(400);
    }
    await tenant.send('DELETE', path);
  });

  it('are seen and changed within their tenant, by people with the right', async () => {
    const { vaultId } = await buildVaultDevice(app, tenant, configId);
    const path = `/backup/vault/${vaultId}`;
    const viewer = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    const calls: [string, string, object?][] = [
      ['GET', path],
      ['GET', `${path}/status`],
      ['PATCH', path, { name: 'Mine' }],
      ['POST', `${path}/sync`, {}],
      ['POST', `${path}/cancel`],
      ['DELETE', path],
    ];
    for (const [method, url, body] of calls) {
      expect((await stranger.send(method, url, body)).status, `${method} ${url}`).to.equal(404);
      if (method === 'GET') continue;
      expect((await tenant.send(method, url, body, viewer)).status, `${method} ${url}`).to.equal(403);
    }
    expect((await stranger.send('GET', '/backup/vault')).body.data).to.deep.equal([]);
    const mine = (await stranger.send('GET', `/backup/snapshots?vaultId=${vaultId}`)).body.data;
    expect(mine).to.deep.equal([]);
  });

  it('keep what is on hold, and otherwise take their copies along', async () => {
    const vault = await buildVaultDevice(app, tenant, configId);
    const path = `/backup/vault/${vault.vaultId}`;
    await vault.addSnapshot(1, { repository_id: vault.copiesId, legal_hold: true });
    const held = await tenant.send('DELETE', path);
    expect([held.status, held.body.details]).to.deep.equal([409, { held: 1 }]);
    const copies = () =>
      inSystem(app, (tx) => tx('backup_snapshots').where({ repository_id: vault.copiesId }));
    await inSystem(app, (tx) =>
      tx('backup_snapshots').where({ repository_id: vault.copiesId }).update({ legal_hold: false }),
    );
    expect((await tenant.send('DELETE', path)).status).to.equal(200);
    expect((await copies())[0]).to.include({ removed_because: 'vault_deleted' });
    const [repository] = await inSystem(app, (tx) => tx('backup_repositories').where({ id: vault.copiesId }));
    expect(repository.prune_due_since).to.be.instanceOf(Date);
  });

  it('in the store are open to a device that appends, with few snapshots and until the server prunes', async () => {
    const made = await create({ provider: 'server' });
    const { repositoryId } = made.body;
    const credential = await issue(app, repositoryId, 'vault');
    const write = async (place: 'snapshots' | 'keys') => {
      const { content, name } = anObject();
      const answer = await request(app.url, repositoryId, credential, ['POST', `${place}/${name}`], {
        body: content,
      });
      return { status: answer.status, name };
    };
    const first = await write('snapshots');
    expect([first.status, (await write('snapshots')).status]).to.deep.equal([200, 200]);
    expect((await write('keys')).status).to.equal(403);
    const removed = await request(app.url, repositoryId, credential, ['DELETE', `snapshots/${first.name}`]);
    expect(removed.status).to.equal(403);
    await inSystem(app, (tx) =>
      tx.raw(
        `insert into backup_objects (repository_id, type, name, size, credential_id)
        select ?, 'snapshots', md5(n::text) || md5(n::text), 1, ? from generate_series(1, 198) n`,
        [repositoryId, credential.id],
      ),
    );
    expect((await write('snapshots')).status, 'a flood').to.equal(503);
    await inSystem(app, (tx) =>
      tx('backup_repositories')
        .where({ id: repositoryId })
        .update({ pruning_until: new Date(Date.now() + 60_000) }),
    );
    expect((await write('snapshots')).status, 'while it is pruned').to.equal(503);
  });
});
