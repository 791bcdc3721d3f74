import { expect } from 'chai';
import { buildDevice, buildOrganization, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { pathsOf } from '../devices/devices-support.ts';
import { type BackupTenant, buildBackupTenant, storedText } from '../../../support/backup/backup-support.ts';

const S3 = {
  bucket: 'acme-backups',
  endpoint: 'https://s3.example.com',
  prefix: 'muster/acme',
  accessKey: 'AKIA0',
  secretKey: 'a-secret-that-only-this-test-knows',
};

describe('backup configurations', () => {
  let app: TestApp;
  let tenant: BackupTenant;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildBackupTenant(app);
  });

  const post = (given: Record<string, unknown>) =>
    tenant.send('POST', '/backup/configs', tenant.newConfig(given));

  it('are created with defaults, read, listed and changed', async () => {
    const made = await post({ schedule: { frequency: 'daily', time: '22:00' } });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    expect(made.body).to.deep.include({
      orgId: tenant.orgId,
      name: 'Documents',
      provider: 'server',
      details: {},
      enabled: true,
      isDefault: false,
      sources: { kind: 'files', paths: { linux: ['/home'] } },
      schedule: { frequency: 'daily', time: '22:00' },
      retention: {},
      targets: {},
      limits: {},
      providerCapabilities: { isAppendOnly: true, servesEarlierStates: true, prunedBy: 'server' },
    });
    const path = `/backup/configs/${made.body.id}`;
    expect((await tenant.send('GET', path)).body).to.deep.equal(made.body);
    const list = await tenant.send('GET', `/backup/configs?orgId=${tenant.orgId}&provider=server`);
    expect(list.body.data).to.deep.equal([made.body]);
    const changed = await tenant.send('PATCH', path, {
      name: 'Files',
      retention: { keepDaily: 7 },
      schedule: null,
    });
    expect(changed.body).to.deep.include({ name: 'Files', retention: { keepDaily: 7 }, schedule: null });
    expect(pathsOf(await tenant.send('PATCH', path, {}))[0]).to.equal(400);
  });

  it('keep the secret of a bucket sealed, even if a change leaves it out', async () => {
    const made = await post({ provider: 's3', details: S3 });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    const { secretKey, ...place } = S3;
    expect(made.body.details).to.deep.equal({ ...place, secretKey: { hasSecret: true } });
    const path = `/backup/configs/${made.body.id}`;
    const changed = await tenant.send('PATCH', path, { details: { ...place, bucket: 'acme-archive' } });
    expect(changed.body.details).to.deep.equal({
      ...place,
      bucket: 'acme-archive',
      secretKey: { hasSecret: true },
    });
    expect(JSON.stringify(changed.body)).not.to.include(secretKey);
    expect(await storedText(app, ['backup_configs', 'audit_logs', 'audit_outbox'])).not.to.include(secretKey);
    expect(JSON.stringify(app.log)).not.to.include(secretKey);
  });

  it('cannot change provider or key, and their details are those of the provider', async () => {
    const made = await post({ provider: 'local', details: { path: '/mnt/backup' } });
    const path = `/backup/configs/${made.body.id}`;
    expect(pathsOf(await tenant.send('PATCH', path, { details: S3 }))).to.deep.equal([400, 'body.details']);
    expect(pathsOf(await tenant.send('PATCH', path, { provider: 's3' }))[0]).to.equal(400);
    expect(pathsOf(await tenant.send('PATCH', path, { encryptionKeyId: tenant.keyId }))[0]).to.equal(400);
  });

  it('are the default of the organization one at a time', async () => {
    const first = await tenant.createConfig({ isDefault: true });
    const second = await tenant.createConfig({ name: 'Second', isDefault: true });
    const isDefault = async (id: string) =>
      (await tenant.send('GET', `/backup/configs/${id}`)).body.isDefault;
    expect(await isDefault(first.id)).to.equal(false);
    expect(await isDefault(second.id)).to.equal(true);
    await tenant.send('PATCH', `/backup/configs/${first.id}`, { isDefault: true });
    expect(await isDefault(second.id)).to.equal(false);
  });

  it('name devices, groups, filters and keys of their organization only', async () => {
    const own = await buildDevice(app, tenant.orgId);
    const foreignOrg = await buildOrganization(app, tenant.partnerId);
    const foreign = await buildDevice(app, foreignOrg);
    const group = await tenant.send('POST', '/groups', {
      orgId: tenant.orgId,
      name: 'G',
      type: 'static',
    });
    const filter = await tenant.send('POST', '/filters', {
      orgId: tenant.orgId,
      name: 'Linux',
      conditions: { operator: 'AND', conditions: [{ field: 'osType', operator: 'equals', value: 'linux' }] },
    });
    expect([group.status, filter.status], JSON.stringify([group.body, filter.body])).to.deep.equal([
      201, 201,
    ]);
    const targets = { deviceIds: [own.deviceId], groupIds: [group.body.id], filterId: filter.body.id };
    expect((await post({ targets })).status).to.equal(201);
    const refused = async (given: object) => pathsOf(await post({ name: 'Other', ...given }));
    expect(await refused({ targets: { deviceIds: [own.deviceId, foreign.deviceId] } })).to.deep.equal([
      400,
      'body.targets.deviceIds.1',
    ]);
    expect(await refused({ targets: { groupIds: [foreign.deviceId] } })).to.deep.equal([
      400,
      'body.targets.groupIds.0',
    ]);
    expect(await refused({ targets: { filterId: foreign.deviceId } })).to.deep.equal([
      400,
      'body.targets.filterId',
    ]);
    expect(await refused({ encryptionKeyId: foreign.deviceId })).to.deep.equal([400, 'body.encryptionKeyId']);
    const deleted = await tenant.send('DELETE', `/filters/${filter.body.id}`);
    expect([deleted.status, deleted.body.error]).to.deep.equal([
      409,
      'This filter is used by backup configuration Documents.',
    ]);
  });

  it('are out of reach for other tenants and for those who may only look', async () => {
    const config = await tenant.createConfig();
    const other = await buildTenant(app);
    const path = `/backup/configs/${config.id}`;
    for (const [method, body] of [
      ['GET', undefined],
      ['PATCH', { name: 'Taken' }],
    ] as const) {
      expect((await tenant.send(method, path, body, other.admin)).status, method).to.equal(404);
    }
    expect((await tenant.send('POST', '/backup/configs', tenant.newConfig(), other.admin)).status).to.equal(
      403,
    );
    expect((await tenant.send('GET', '/backup/configs', undefined, other.admin)).body.data).to.deep.equal([]);
    expect((await tenant.send('GET', path, undefined, tenant.technician)).status).to.equal(200);
    expect((await tenant.send('PATCH', path, { name: 'No' }, tenant.technician)).status).to.equal(403);
  });

  it('refuse what cannot be backed up, by the name of the field', async () => {
    const refused = async (given: Record<string, unknown>) => [...new Set(pathsOf(await post(given)))];
    const linux = (...paths: unknown[]) => ({ sources: { paths: { linux: paths } } });
    const first = 'body.sources.paths.linux.0';
    for (const path of [
      'home',
      'C:\\Users',
      '/a/../../etc',
      '/a\0b',
      `/${'x'.repeat(5000)}`,
      '/a\nb',
      '',
      5,
    ]) {
      expect(await refused(linux(path)), String(path).slice(0, 30)).to.deep.equal([400, first]);
    }
    expect(await refused({ sources: { paths: {} } })).to.deep.equal([400, 'body.sources.paths']);
    expect(await refused({ sources: { paths: { linux: [] } } })).to.deep.equal([
      400,
      'body.sources.paths.linux',
    ]);
    const windows = { sources: { paths: { windows: [String.raw`\\server\share`] } } };
    const excluding = (...excludes: string[]) => ({ sources: { paths: { linux: ['/home'] }, excludes } });
    expect(await refused(excluding('*.tmp', '[abc'))).to.deep.equal([400, 'body.sources.excludes.1']);
    expect(await refused(windows)).to.deep.equal([400, 'body.sources.paths.windows.0']);
    const bucket = async (given: object) => refused({ provider: 's3', details: { ...S3, ...given } });
    expect(await bucket({ bucket: 'UPPER' })).to.deep.equal([400, 'body.details.bucket']);
    expect(await bucket({ endpoint: 'http://s3.example.com' })).to.deep.equal([400, 'body.details.endpoint']);
    expect(await bucket({ endpoint: 'https://user:pw@s3.example.com' })).to.deep.equal([
      400,
      'body.details.endpoint',
    ]);
    expect(await bucket({ endpoint: undefined })).to.deep.equal([400, 'body.details.region']);
    expect(await bucket({ prefix: 'a/../b' })).to.deep.equal([400, 'body.details.prefix']);
    expect(await refused({ provider: 'local', details: { path: '../x' } })).to.deep.equal([
      400,
      'body.details.path',
    ]);
    expect(await refused({ schedule: { frequency: 'daily', time: '25:00' } })).to.deep.equal([
      400,
      'body.schedule.time',
    ]);
    expect(await refused({ retention: { keepDaily: 0 } })).to.deep.equal([400, 'body.retention.keepDaily']);
    expect((await refused({ extra: 'x'.repeat(1_000_000) }))[0]).to.be.oneOf([400, 413]);
  });
});
