import { expect } from 'chai';
import { routesAsData } from '../../src/features/index.ts';
import { changesOf } from '../../src/platform/http/mount/changes.ts';
import {
  buildDevice,
  buildPerson,
  buildTenant,
  giveSecondFactor,
  type Person,
} from '../support/factories.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';

/**
 * Every update that is in the audit trail shows what it has changed, from what to what, and no secret. What answers 201
 * only creates.
 */

const updates = routesAsData()
  .flatMap(({ routes }) => routes)
  .filter(
    ({ method, audit, access, status }) =>
      /^(put|patch)$/.test(method) && audit !== undefined && access !== 'agent' && status !== 201,
  )
  .map(({ method, path }) => `${method.toUpperCase()} ${path}`);

interface Update {
  path: string;
  body: object;
  by?: Person;
  before: object;
  after: object;
}

const S3_DETAILS = {
  bucket: 'acme-backups',
  region: 'eu-central-1',
  accessKey: 'AKIA0',
  secretKey: 'hunter1',
};

describe('changes in the audit trail', function () {
  this.timeout(120_000);
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let system: Person;
  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    await giveSecondFactor(app, tenant.admin);
    system = await buildPerson(app, { scope: 'system' });
  });
  after(() => app.close());

  const make = async (path: string, body: object): Promise<string> => {
    const made = await app.call('POST', path, { token: tenant.admin.token, body });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    return (made.body.id ?? made.body.data?.id) as string;
  };
  const renaming = async (path: string, body: object): Promise<Update> => ({
    path: `${path}/${await make(path, { name: 'Old', ...body })}`,
    body: { name: 'New' },
    before: { name: 'Old' },
    after: { name: 'New' },
  });
  const conditions = (value: string) => ({
    operator: 'AND',
    conditions: [{ field: 'hostname', operator: 'equals', value }],
  });

  const connect = (displayName: string) =>
    make('/c2c/connections', {
      orgId: tenant.orgId,
      provider: 'microsoft_365',
      displayName,
      tenantId: tenant.siteId,
      clientId: tenant.siteId,
      clientSecret: 'hunter1',
    });

  /** For each of these routes one request that changes something. */
  const UPDATES: Record<string, () => Promise<Update>> = {
    'PATCH /users/me': async () => {
      const by = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const { name } = (await app.call('GET', '/users/me', { token: by.token })).body;
      return {
        path: '/users/me',
        body: { name: 'Renamed' },
        by,
        before: { name },
        after: { name: 'Renamed' },
      };
    },
    'PATCH /users/:id': async () => {
      const { id } = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const path = `/users/${id}`;
      return {
        path,
        body: { status: 'disabled' },
        before: { status: 'active' },
        after: { status: 'disabled' },
      };
    },
    'PATCH /api-keys/:id': () => renaming('/api-keys', { scopes: ['devices:read'] }),
    'PATCH /roles/:id': () => renaming('/roles', { permissions: ['devices:read'] }),
    'PATCH /orgs/partners/me': async () => ({
      path: '/orgs/partners/me',
      body: { settings: { language: 'en', contact: { name: 'A' } } },
      before: {},
      after: { settings: { language: 'en', contact: { name: 'A' } } },
    }),
    'PATCH /orgs/partners/:id': async () => ({
      path: `/orgs/partners/${tenant.partnerId}`,
      body: { maxDevices: 77 },
      by: system,
      before: { maxDevices: null },
      after: { maxDevices: 77 },
    }),
    'PATCH /orgs/organizations/order': async () => ({
      path: '/orgs/organizations/order',
      body: { organizationOrder: [tenant.orgId] },
      before: { organizationOrder: null },
      after: { organizationOrder: [tenant.orgId] },
    }),
    'PATCH /orgs/organizations/:id': async () => ({
      path: `/orgs/organizations/${tenant.orgId}`,
      body: { name: 'Renamed', ssoConfig: { issuer: 'https://id.example.com', clientSecret: 'hunter2' } },
      before: {},
      after: { name: 'Renamed', ssoConfig: { issuer: 'https://id.example.com', clientSecret: '(secret)' } },
    }),
    'PUT /orgs/organizations/:id/audit-retention': async () => ({
      path: `/orgs/organizations/${tenant.orgId}/audit-retention`,
      body: { retentionDays: 99, archiveToS3: false },
      before: { retentionDays: 365 },
      after: { retentionDays: 99 },
    }),
    'PUT /orgs/organizations/:id/log-retention': async () => ({
      path: `/orgs/organizations/${tenant.orgId}/log-retention`,
      body: { diagnosticDays: 5, eventDays: 90 },
      before: { diagnosticDays: 30 },
      after: { diagnosticDays: 5 },
    }),
    'PATCH /orgs/organizations/:id/alert-settings': async () => ({
      path: `/orgs/organizations/${tenant.orgId}/alert-settings`,
      body: { diskPercent: 77 },
      before: { diskPercent: 90 },
      after: { diskPercent: 77 },
    }),
    'PUT /partners/me/login-branding': async () => ({
      path: '/partners/me/login-branding',
      body: { headline: 'Welcome', accentColor: '#1A2B3C' },
      before: { headline: null, accentColor: null },
      after: { headline: 'Welcome', accentColor: '#1a2b3c' },
    }),
    'PATCH /orgs/sites/:id': () => renaming('/orgs/sites', { orgId: tenant.orgId }),
    'PATCH /scripts/:id': () =>
      renaming('/scripts', { orgId: tenant.orgId, language: 'bash', content: 'true' }),
    'PATCH /filters/:id': () => renaming('/filters', { orgId: tenant.orgId, conditions: conditions('a') }),
    'PATCH /groups/:id': () => renaming('/groups', { orgId: tenant.orgId, type: 'static' }),
    'PATCH /webhooks/:id': () =>
      renaming('/webhooks', {
        orgId: tenant.orgId,
        url: 'https://1.1.1.1/hook',
        eventTypes: ['alert.raised'],
      }),
    'PATCH /custom-fields/:id': () =>
      renaming('/custom-fields', { orgId: tenant.orgId, key: 'asset_tag', type: 'string' }),
    'PATCH /sso/providers/:id': async () => {
      const { path } = await renaming('/sso/providers', { orgId: tenant.orgId, type: 'oidc' });
      return {
        path,
        body: { name: 'New', clientSecret: 'hunter2' },
        before: { name: 'Old', clientSecret: null, configVersion: 1 },
        after: { name: 'New', clientSecret: '(secret)', configVersion: 2 },
      };
    },
    'PATCH /backup/vault/:id': async () => {
      const encryptionKeyId = await make('/backup/encryption/keys', {
        orgId: tenant.orgId,
        name: 'Key of vaults',
      });
      const configId = await make('/backup/configs', {
        orgId: tenant.orgId,
        name: 'Of a vault',
        provider: 'server',
        encryptionKeyId,
        sources: { paths: { linux: ['/home'] } },
      });
      const { deviceId } = await buildDevice(app, tenant.orgId);
      return renaming('/backup/vault', { deviceId, configId, provider: 's3', details: S3_DETAILS });
    },
    'PATCH /c2c/connections/:id': async () => ({
      path: `/c2c/connections/${await connect('Old')}`,
      body: { displayName: 'New' },
      before: { displayName: 'Old' },
      after: { displayName: 'New' },
    }),
    'PATCH /c2c/configs/:id': async () => {
      const encryptionKeyId = await make('/backup/encryption/keys', {
        orgId: tenant.orgId,
        name: 'Cloud key',
      });
      const connectionId = await connect('Directory');
      const kinds = { backupScope: ['mail'], allUsers: true };
      return renaming('/c2c/configs', { connectionId, encryptionKeyId, ...kinds });
    },
    'PATCH /dr/plans/:id': () => renaming('/dr/plans', { orgId: tenant.orgId }),
    'PATCH /dr/plans/:id/groups/:groupId': async () => {
      const planId = await make('/dr/plans', { orgId: tenant.orgId, name: 'With a group' });
      const { deviceId } = await buildDevice(app, tenant.orgId);
      const devices = [{ deviceId, restore: { type: 'files' } }];
      return renaming(`/dr/plans/${planId}/groups`, { sequence: 0, devices });
    },
    'PATCH /backup/configs/:id': async () => {
      const encryptionKeyId = await make('/backup/encryption/keys', { orgId: tenant.orgId, name: 'Key' });
      const sources = { paths: { linux: ['/home'] } };
      const { path } = await renaming('/backup/configs', {
        orgId: tenant.orgId,
        provider: 's3',
        details: S3_DETAILS,
        encryptionKeyId,
        sources,
      });
      return {
        path,
        body: { name: 'New', details: { ...S3_DETAILS, secretKey: 'hunter2' } },
        before: { name: 'Old', sealedSecret: '(secret)' },
        after: { name: 'New', sealedSecret: '(secret)' },
      };
    },
    'PATCH /backup/sla/configs/:id': () =>
      renaming('/backup/sla/configs', {
        orgId: tenant.orgId,
        rpoTargetMinutes: 1440,
        rtoTargetMinutes: 240,
      }),
    'PATCH /devices/:id': async () => {
      const { deviceId } = await buildDevice(app, tenant.orgId);
      return {
        path: `/devices/${deviceId}`,
        body: { displayName: 'Front desk', tags: ['a'] },
        before: { displayName: null, tags: [] },
        after: { displayName: 'Front desk', tags: ['a'] },
      };
    },
  };

  it('are asked below of every route that updates something', () => {
    expect(Object.keys(UPDATES)).to.have.members(updates);
  });

  for (const [route, prepare] of Object.entries(UPDATES)) {
    it(`are in the entry of ${route}`, async () => {
      const { path, body, by = tenant.admin, before, after } = await prepare();
      const [method] = route.split(' ');
      const answer = await app.call(method!, path, { token: by.token, body });
      expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
      await app.server.auditSealer.flush();
      const { entries } = (await app.call('GET', '/audit-logs?limit=1', { token: tenant.admin.token })).body;
      const { changes } = entries[0];
      expect(changes.before, 'before').to.deep.include(before);
      expect(changes.after, 'after').to.deep.include(after);
      expect(JSON.stringify(entries)).not.to.include('hunter2');
      // What stayed is not repeated.
      expect(Object.keys(changes.after)).to.have.members(Object.keys(after));
    });
  }
});

describe('what an update has changed', () => {
  it('is what differs, down to the single setting', () => {
    const both = changesOf(
      { name: 'a', updatedAt: new Date(0), settings: { kept: 1, changed: { deep: true, same: 1 }, gone: 1 } },
      {
        name: 'a',
        updatedAt: new Date(1),
        settings: { kept: 1, changed: { deep: false, same: 1 }, come: null },
      },
    );
    expect(both).to.deep.equal({
      before: { settings: { changed: { deep: true }, gone: 1 } },
      after: { settings: { changed: { deep: false }, come: null } },
    });
  });

  it('shows that a secret was changed, and neither the old nor the new one', () => {
    for (const name of [
      'password',
      'clientSecret',
      'client_secret',
      'API_KEY',
      'refreshToken',
      'privateKeyPem',
      'keyHash',
      'psk',
    ]) {
      for (const wrap of [
        (value: unknown) => ({ [name]: value }),
        (value: unknown) => ({ a: [{ b: { [name]: value } }] }),
      ]) {
        const text = JSON.stringify(changesOf(wrap('hunter1'), wrap('hunter2')));
        expect(text, name).not.to.match(/hunter/);
      }
      expect(changesOf({ [name]: 'hunter1' }, { [name]: { inner: 'hunter2' } })).to.deep.equal({
        before: { [name]: '(secret)' },
        after: { [name]: '(secret)' },
      });
    }
    expect(changesOf({ pin: 1234 }, { pin: null })).to.deep.equal({
      before: { pin: '(secret)' },
      after: { pin: null },
    });
  });

  it('shows what only sounds like a secret', () => {
    const before = { requirePassword: true, passwordMinLength: 8, keyboard: 'de', tokenizer: 'a' };
    const after = { requirePassword: false, passwordMinLength: 12, keyboard: 'us', tokenizer: 'b' };
    expect(changesOf(before, after)).to.deep.equal({ before, after });
  });

  it('is never long, however long the values are', () => {
    const long = (character: string) => ({
      content: character.repeat(100_000),
      list: Array.from({ length: 2000 }, (_, n) => `${character}${n}`),
      deep: Array.from({ length: 200 }).reduce<unknown>((inner) => ({ inner }), character.repeat(9000)),
      ...Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`field${n}`, character.repeat(400)])),
    });
    const both = changesOf(long('a'), long('b'));
    expect(JSON.stringify(both).length).to.be.lessThan(30_000);
    expect(both.after['content']).to.equal(`${'b'.repeat(500)}… (100000 characters)`);
    expect(both.after['list']).to.match(/^\(\d+ characters, too long to keep\)$/);
  });

  it('takes names that mean something to JavaScript', () => {
    const after = JSON.parse('{"__proto__": {"a": 1}, "constructor": 2}') as object;
    expect(JSON.stringify(changesOf({}, { settings: after }).after)).to.equal(
      '{"settings":{"__proto__":{"a":1},"constructor":2}}',
    );
  });
});
