import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildPerson, buildTenant, giveSecondFactor } from '../../../support/factories.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import {
  type CloudFixture,
  connectionOf,
  createCloudFixture,
} from '../../../support/cloud-backup/cloud-support.ts';

describe('cloud connections', function () {
  this.timeout(60_000);
  let cloud: CloudFixture;
  before(async () => {
    cloud = await createCloudFixture();
  });
  after(() => cloud.close());

  it('keep their secret to themselves, and say whether Microsoft accepts it', async () => {
    const body = { ...connectionOf(cloud.tenant.orgId), clientSecret: 'wrong' };
    const { body: made } = await cloud.call('POST', '/c2c/connections', body);
    const read = await cloud.call('GET', `/c2c/connections/${made.id}`);
    expect(JSON.stringify([made, read.body]))
      .not.to.include('wrong')
      .and.not.to.include(body.clientId);
    const test = await cloud.call('POST', `/c2c/connections/${made.id}/test`);
    expect(test.body.checks[0]).to.include({ ok: false, code: 'AUTHENTICATION_FAILED' });
    expect((await cloud.call('GET', `/c2c/connections/${made.id}`)).body.status).to.equal('failing');
    expect((await cloud.call('POST', `/c2c/connections/${cloud.connectionId}/test`)).body.status).to.equal(
      'success',
    );
    const change = (fields: object) => cloud.call('PATCH', `/c2c/connections/${made.id}`, fields);
    expect((await change({ clientId: newId() })).body.details[0].path).to.equal('body.clientSecret');
    const renewed = await change({ clientSecret: 'a-newer-secret' });
    expect(renewed.body, 'nothing is known of the new secret').to.include({ status: 'active' });
    expect((await cloud.call('POST', `/c2c/connections/${made.id}/test`)).body.status).to.equal('success');
    await cloud.app.server.chainWriter.flush();
    const log = await asOwner(
      cloud.app.database.ownerUrl,
      `select details from audit_logs where action = 'c2c.connection.update'`,
    );
    expect(JSON.stringify([renewed.body, log]))
      .to.include('clientSecret')
      .and.not.match(/a-newer-secret|v1\./);
    expect((await cloud.call('DELETE', `/c2c/connections/${made.id}`)).status).to.equal(200);
    const [{ sealed_secret: sealed } = {}] = await asOwner<{ sealed_secret?: string }>(
      cloud.app.database.ownerUrl,
      `select sealed_secret from c2c_connections where id = '${cloud.connectionId}'`,
    );
    expect(sealed).to.match(/^v1\./);
  });

  it('are refused for Google Workspace', async () => {
    const body = { orgId: cloud.tenant.orgId, provider: 'google_workspace', displayName: 'Google' };
    const { status, body: answer } = await cloud.call('POST', '/c2c/connections', body);
    expect({ status, code: answer.code }).to.deep.equal({ status: 400, code: 'PROVIDER_UNSUPPORTED' });
  });

  it('and all that belongs to them are not there for other tenants', async () => {
    const configId = await cloud.config({ backupScope: ['mail'] });
    cloud.mailbox('ada@example.com').message('m', 'Mail');
    const job = await cloud.run(configId);
    const [item] = await cloud.items(`configId=${configId}`);
    const other = await buildTenant(cloud.app);
    await giveSecondFactor(cloud.app, other.admin);
    const { token } = other.admin;
    for (const [method, path] of [
      ['GET', `/c2c/connections/${cloud.connectionId}`],
      ['POST', `/c2c/connections/${cloud.connectionId}/test`],
      ['DELETE', `/c2c/connections/${cloud.connectionId}`],
      ['GET', `/c2c/configs/${configId}`],
      ['GET', `/c2c/configs/${configId}/users`],
      ['DELETE', `/c2c/configs/${configId}`],
      ['POST', `/c2c/configs/${configId}/run`],
      ['GET', `/c2c/jobs/${job.id}`],
      ['POST', `/c2c/jobs/${job.id}/cancel`],
      ['GET', `/c2c/items/${item!.id}`],
      ['GET', `/c2c/items/${item!.id}/content`],
      ['GET', `/c2c/items/${item!.id}/versions`],
    ] as const) {
      expect((await cloud.app.call(method, path, { token })).status, `${method} ${path}`).to.equal(404);
    }
    expect((await cloud.app.call('GET', '/c2c/items', { token })).body.data).to.deep.equal([]);
    expect((await cloud.app.call('GET', '/c2c/usage', { token })).body).to.deep.equal({ storedBytes: 0 });
    const rename = { token, body: { displayName: 'Mine' } };
    expect((await cloud.app.call('PATCH', `/c2c/connections/${cloud.connectionId}`, rename)).status).to.equal(
      404,
    );
    expect((await cloud.call('GET', `/c2c/configs/${configId}/users?search=ADA`)).body.data).to.deep.equal([
      { userEmail: 'ada@example.com' },
    ]);
    for (const [path, body] of [
      ['/c2c/items/restore', { itemIds: [item!.id] }],
      ['/c2c/items/export', { itemIds: [item!.id] }],
      [
        '/c2c/configs',
        {
          connectionId: cloud.connectionId,
          encryptionKeyId: cloud.keyId,
          name: 'x',
          backupScope: ['mail'],
          allUsers: true,
        },
      ],
    ] as const) {
      expect((await cloud.app.call('POST', path, { token, body })).status, path).to.equal(404);
    }
    const { body: foreign } = await cloud.app.call('POST', '/c2c/connections', {
      token,
      body: connectionOf(other.orgId),
    });
    const restore = { itemIds: [item!.id], targetConnectionId: foreign.id };
    expect(
      (await cloud.call('POST', '/c2c/items/restore', restore)).status,
      'into a foreign directory',
    ).to.equal(400);
  });

  it('are not changed by people who may only look, and deleted with a second factor only', async () => {
    const configId = await cloud.config();
    const viewer = await buildPerson(cloud.app, {
      scope: 'organization',
      orgId: cloud.tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const admin = await buildPerson(cloud.app, { scope: 'organization', orgId: cloud.tenant.orgId });
    const call = (token: string, method: string, path: string) => cloud.app.call(method, path, { token });
    expect((await call(viewer.token, 'POST', `/c2c/configs/${configId}/run`)).status).to.equal(403);
    expect((await call(viewer.token, 'GET', `/c2c/items/${newId()}/content`)).status).to.equal(403);
    const refused = await call(admin.token, 'DELETE', `/c2c/configs/${configId}`);
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'MFA_REQUIRED']);
    expect((await cloud.call('DELETE', `/c2c/configs/${configId}`)).status).to.equal(200);
    expect((await cloud.call('GET', `/c2c/configs/${configId}`)).status).to.equal(404);
  });

  describe('with the app of this server', () => {
    const begin = async () => {
      const { headers, body } = await cloud.call('GET', `/c2c/m365/consent-url?orgId=${cloud.tenant.orgId}`);
      const state = new URL(body.url as string).searchParams.get('state') ?? '';
      return { state, cookie: (headers.get('set-cookie') ?? '').split(';')[0] ?? '' };
    };
    const back = async (query: Record<string, string>, cookie: string) => {
      const url = `${cloud.app.url}/api/v1/c2c/m365/callback?${new URLSearchParams(query).toString()}`;
      const answer = await fetch(url, { redirect: 'manual', headers: { cookie } });
      return new URL(answer.headers.get('location') ?? '', cloud.app.url);
    };
    const signedIn = async (tenant: string) => {
      const { state, cookie } = await begin();
      const signIn = await back({ admin_consent: 'True', tenant, state }, cookie);
      cloud.graph.nonce = signIn.searchParams.get('nonce') ?? '';
      return back({ code: 'a-code', state }, cookie);
    };

    it('connect the directory in which an administrator has signed in', async () => {
      cloud.graph.person.isAdministrator = true;
      const page = await signedIn(cloud.graph.person.tenantId);
      const { body } = await cloud.call('GET', `/c2c/connections/${page.searchParams.get('connected')}`);
      expect(body).to.include({ authMethod: 'platform_app', tenantId: cloud.graph.person.tenantId });
      const again = await signedIn(cloud.graph.person.tenantId);
      expect(again.searchParams.get('connected'), 'a second consent mends the first').to.equal(body.id);
      const secret = await cloud.call('PATCH', `/c2c/connections/${body.id}`, { clientSecret: 'mine' });
      expect(secret.status, 'a secret for the app of the server').to.equal(400);
    });

    it('do not connect a directory that the browser only claims', async () => {
      expect((await signedIn(newId())).searchParams.get('c2c_error')).to.equal('token_invalid');
    });

    it('do not connect a directory for a person who is no administrator there', async () => {
      cloud.graph.person.isAdministrator = false;
      const page = await signedIn(cloud.graph.person.tenantId);
      expect(page.searchParams.get('c2c_error')).to.equal('administrator_required');
    });

    it('accept only the state of the same person, and each state once', async () => {
      const [mine, theirs] = [await begin(), await begin()];
      const tenant = cloud.graph.person.tenantId;
      const stolen = await back({ tenant, state: theirs.state }, mine.cookie);
      expect(stolen.searchParams.get('c2c_error')).to.equal('state_unknown');
      expect((await back({ tenant, state: mine.state }, '')).searchParams.get('c2c_error')).to.equal(
        'state_unknown',
      );
      await back({ error: 'access_denied', state: mine.state }, mine.cookie);
      const again = await back({ code: 'a-code', state: mine.state }, mine.cookie);
      expect(again.searchParams.get('c2c_error')).to.equal('state_unknown');
    });
  });
});
