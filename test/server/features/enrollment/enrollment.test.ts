import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { newToken } from '../../../../src/platform/secrets/tokens.ts';
import { buildEnrollmentKey, buildSite, buildTenant, MACHINE } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('enrollment', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp({ env: { PUBLIC_URL: 'https://rmm.example.com/' } });
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const enroll = (enrollmentKey: string, more = {}) =>
    app.call('POST', '/agents/enroll', { body: { ...MACHINE, ...more, enrollmentKey } });
  const inDatabase = (sql: string, values: readonly (string | number)[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values));
  const createKey = (body: object, token = tenant.admin.token) =>
    app.call('POST', '/enrollment-keys', { token, body });

  it('creates a key, shows it once, and counts its uses', async () => {
    const created = await createKey({
      orgId: tenant.orgId,
      name: 'Front desk',
      maxUsage: 2,
      expiresAt: '2099-01-01T00:00:00+02:00',
    });
    expect(created.status).to.equal(201);
    expect(created.body.key).to.match(/^menr_[0-9A-Za-z]{46}$/);
    expect(created.body).to.include({
      name: 'Front desk',
      usageCount: 0,
      maxUsage: 2,
      expiresAt: '2098-12-31T22:00:00.000Z',
      createdBy: tenant.admin.id,
    });

    const { status, body } = await enroll(created.body.key);
    expect(status).to.equal(201);
    expect(body).to.include({ orgId: tenant.orgId, siteId: tenant.siteId, agentId: body.deviceId });
    expect(body.token).to.match(/^magt_[0-9A-Za-z]{46}$/);
    expect(body.config).to.deep.include({ heartbeatSeconds: 60, hubUrl: 'https://rmm.example.com/hub' });

    const read = await app.call('GET', `/enrollment-keys/${created.body.id}`, { token: tenant.admin.token });
    expect(read.body.usageCount).to.equal(1);
    expect(read.body).not.to.have.any.keys('key', 'keyHash');
    const listed = await app.call('GET', `/enrollment-keys?orgId=${tenant.orgId}`, {
      token: tenant.admin.token,
    });
    expect(listed.body.pagination.total).to.equal(1);
    expect(JSON.stringify(listed.body)).not.to.contain(created.body.key);
  });

  it('leaves an audit entry with each key that is made or revoked', async () => {
    const { body } = await createKey({ orgId: tenant.orgId, name: 'Audited' });
    await app.call('DELETE', `/enrollment-keys/${body.id}`, { token: tenant.admin.token });
    await app.server.chainWriter.flush();
    const { rows } = await inDatabase(
      `select action, org_id, actor_id, resource_id, resource_name, result from audit_logs where resource_id = ? order by id`,
      [body.id],
    );
    const common = {
      org_id: tenant.orgId,
      actor_id: tenant.admin.id,
      resource_id: body.id,
      resource_name: 'Audited',
      result: 'success',
    };
    expect(rows).to.deep.equal([
      { action: 'enrollment_key.create', ...common },
      { action: 'enrollment_key.revoke', ...common },
    ]);
  });

  it('refuses to make a key for a foreign organization or site', async () => {
    const stranger = await buildTenant(app);
    const foreign = await createKey({ orgId: stranger.orgId, name: 'x' });
    expect([foreign.status, foreign.body.error]).to.deep.equal([403, 'Access to this organization denied']);
    const site = await createKey({ orgId: tenant.orgId, siteId: stranger.siteId, name: 'x' });
    expect([site.status, site.body.error]).to.deep.equal([403, 'Access to this site denied']);
    const past = await createKey({ orgId: tenant.orgId, name: 'x', expiresAt: '2001-01-01T00:00:00Z' });
    expect(past.body.details).to.deep.equal([{ path: 'body.expiresAt', message: 'must lie in the future' }]);
  });

  it('puts the device at the site of the key, or the first of the organization, or a new one', async () => {
    const second = await buildSite(app, tenant.orgId);
    expect(
      (await enroll(await buildEnrollmentKey(app, tenant.orgId, { site_id: second }))).body.siteId,
    ).to.equal(second);
    expect((await enroll(await buildEnrollmentKey(app, tenant.orgId))).body.siteId).to.equal(tenant.siteId);
    const empty = newId();
    await inDatabase(
      `insert into organizations (id, partner_id, name, slug) values (?, ?, 'Empty', 'empty')`,
      [empty, tenant.partnerId],
    );
    const { body } = await enroll(await buildEnrollmentKey(app, empty));
    const { rows } = await inDatabase('select name from sites where id = ?', [body.siteId]);
    expect(rows).to.deep.equal([{ name: 'Default' }]);
  });

  it('names what is wrong with a key', async () => {
    const cases = [
      ['not known', 'nonsense'],
      ['not known', newToken('enrollmentKey')],
      ['expired', await buildEnrollmentKey(app, tenant.orgId, { expires_at: new Date(0) })],
      ['revoked', await buildEnrollmentKey(app, tenant.orgId, { revoked_at: new Date() })],
      ['usage limit', await buildEnrollmentKey(app, tenant.orgId, { max_usage: 3, usage_count: 3 })],
    ] as const;
    for (const [text, key] of cases) {
      const { status, body } = await enroll(key);
      expect([status, body.code], text).to.deep.equal([401, 'UNAUTHENTICATED']);
      expect(body.error).to.contain(text);
    }
  });

  it('takes no devices for an organization or partner that is not active', async () => {
    const key = await buildEnrollmentKey(app, tenant.orgId);
    await inDatabase(`update organizations set status = 'suspended' where id = ?`, [tenant.orgId]);
    expect((await enroll(key)).body.code).to.equal('TENANT_INACTIVE');
    await inDatabase(`update organizations set status = 'trial' where id = ?`, [tenant.orgId]);
    await inDatabase(`update partners set status = 'suspended' where id = ?`, [tenant.partnerId]);
    const refused = await enroll(key);
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'TENANT_INACTIVE']);
  });

  it('lets the last use of a key go to one machine only, however many ask at once', async () => {
    const key = await buildEnrollmentKey(app, tenant.orgId, { max_usage: 3 });
    const answers = await Promise.all(Array.from({ length: 12 }, () => enroll(key)));
    expect(answers.filter(({ status }) => status === 201)).to.have.length(3);
    expect(answers.filter(({ status }) => status === 401)).to.have.length(9);
  });

  for (const table of ['organizations', 'partners'] as const) {
    it(`holds the cap on devices of ${table}, however many ask at once`, async () => {
      await inDatabase(`update ${table} set max_devices = 2 where id = ?`, [
        table === 'partners' ? tenant.partnerId : tenant.orgId,
      ]);
      const keys = await Promise.all(Array.from({ length: 4 }, () => buildEnrollmentKey(app, tenant.orgId)));
      const answers = await Promise.all(keys.flatMap((key) => [enroll(key), enroll(key)]));
      expect(answers.filter(({ status }) => status === 201)).to.have.length(2);
      const [refused] = answers.filter(({ status }) => status !== 201);
      expect([refused!.status, refused!.body.code]).to.deep.equal([403, 'LIMIT_REACHED']);
      const { rows } = await inDatabase('select count(*)::int as n from devices where org_id = ?', [
        tenant.orgId,
      ]);
      expect(rows[0].n).to.equal(2);
    });
  }

  it('knows a machine that enrolls again: the same device, a new token, also at the cap', async () => {
    await inDatabase(`update organizations set max_devices = 1 where id = ?`, [tenant.orgId]);
    const key = await buildEnrollmentKey(app, tenant.orgId);
    const first = await enroll(key, { machineId: 'm-1', hostname: 'OLD' });
    const second = await enroll(key, { machineId: 'm-1', hostname: 'NEW' });
    expect(second.status).to.equal(201);
    expect(second.body.deviceId).to.equal(first.body.deviceId);
    expect(second.body.token).not.to.equal(first.body.token);
    const device = await app.call('GET', `/devices/${first.body.deviceId}`, { token: tenant.admin.token });
    expect(device.body.hostname).to.equal('NEW');

    const other = await buildTenant(app);
    const elsewhere = await enroll(await buildEnrollmentKey(app, other.orgId), { machineId: 'm-1' });
    expect(elsewhere.body.deviceId).not.to.equal(first.body.deviceId);
  });

  it('knows a machine without a machine id by the token that it sends, in its own organization only', async () => {
    const key = await buildEnrollmentKey(app, tenant.orgId);
    const again = (enrollmentKey: string, token: string) =>
      app.call('POST', '/agents/enroll', { token, body: { ...MACHINE, enrollmentKey } });
    const first = await enroll(key);
    const second = await again(key, first.body.token);
    expect(second.body.deviceId).to.equal(first.body.deviceId);
    expect((await enroll(key)).body.deviceId).not.to.equal(first.body.deviceId);
    expect((await again(key, newToken('agent'))).body.deviceId).not.to.equal(first.body.deviceId);

    const other = await buildTenant(app);
    const elsewhere = await again(await buildEnrollmentKey(app, other.orgId), second.body.token);
    expect(elsewhere.body.deviceId).not.to.equal(first.body.deviceId);
  });

  it('stores neither keys nor tokens, only their hashes', async () => {
    const key = await buildEnrollmentKey(app, tenant.orgId);
    const { body } = await enroll(key);
    const { rows } = await inDatabase(
      `select (select string_agg(t::text, ' ') from enrollment_keys t) || (select string_agg(t::text, ' ') from agent_credentials t) as text`,
      [],
    );
    expect(rows[0].text)
      .to.be.a('string')
      .and.not.contain(key.slice(10))
      .and.not.contain(body.token.slice(5));
  });
});
