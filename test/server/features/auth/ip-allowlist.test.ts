import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { buildTenant, PASSWORD } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const BEHIND_PROXY = { TRUST_PROXY_HEADERS: 'true', TRUSTED_PROXY_CIDRS: '127.0.0.1' };
const HOME = { 'x-forwarded-for': '198.51.100.7' };
const AWAY = { 'x-forwarded-for': '203.0.113.9' };

describe('the IP allowlist of a partner', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp({ env: BEHIND_PROXY, dashboardRecheckMs: 150 });
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const patch = (ipAllowlist: string[], headers: Record<string, string>, more = {}) =>
    app.call('PATCH', '/orgs/partners/me', {
      token: tenant.admin.token,
      headers,
      body: { settings: { security: { ipAllowlist } }, ...more },
    });
  const me = (headers: Record<string, string>, token = tenant.admin.token) =>
    app.call('GET', '/auth/me', { token, headers });
  const login = (headers: Record<string, string>) =>
    app.call('POST', '/auth/login', { headers, body: { email: tenant.admin.email, password: PASSWORD } });

  it('lets the partner’s people in from its addresses only: at sign-in, and with each request', async () => {
    expect((await patch(['198.51.100.0/24', '2001:db8::1'], HOME)).status).to.equal(200);
    expect((await me(HOME)).body.clientIp).to.equal(HOME['x-forwarded-for']);
    expect((await me({ 'x-forwarded-for': '2001:db8::1' })).status).to.equal(200);
    const refused = await me(AWAY);
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'IP_NOT_ALLOWED']);

    expect((await login(HOME)).status).to.equal(200);
    const atLogin = await login(AWAY);
    expect([atLogin.status, atLogin.body.code]).to.deep.equal([401, 'IP_NOT_ALLOWED']);
    expect(atLogin.headers.getSetCookie()).to.deep.equal([]);
    const wrong = await app.call('POST', '/auth/login', {
      headers: AWAY,
      body: { email: tenant.admin.email, password: 'wrong' },
    });
    expect(wrong.body.code).to.equal('UNAUTHENTICATED');
  });

  it('holds for an address with a port, and for one that the proxy hides', async () => {
    expect((await patch(['198.51.100.0/24', '2001:db8::1'], HOME)).status).to.equal(200);
    for (const hop of ['198.51.100.7:44321', '"[2001:db8::1]:443"']) {
      expect((await me({ 'x-forwarded-for': hop })).status, hop).to.equal(200);
      expect((await login({ 'x-forwarded-for': hop })).status, hop).to.equal(200);
    }
    expect((await me({ forwarded: 'for=198.51.100.7;proto=https' })).status).to.equal(200);
    for (const headers of [
      { 'x-forwarded-for': '203.0.113.50:44321' },
      { 'x-forwarded-for': 'unknown' },
      { 'x-forwarded-for': '198.51.100.7, _hidden:1', 'x-real-ip': '198.51.100.7' },
      { forwarded: 'for=_hidden' },
    ]) {
      const refused = [await me(headers), await login(headers)];
      expect(
        refused.map(({ status }) => status),
        JSON.stringify(headers),
      ).to.deep.equal([403, 401]);
      for (const { body } of refused) expect(body.code).to.equal('IP_NOT_ALLOWED');
    }
    expect((await me({ 'x-forwarded-for': 'unknown' })).body.error).to.contain('x-forwarded-for');
    const warnings = app.log.filter(({ event }) => event === 'http.client_address_unreadable');
    expect(warnings).to.have.length(1);
  });

  it('is not for the people of customers, nor for agents', async () => {
    await patch(['198.51.100.7'], HOME);
    expect((await me(AWAY, tenant.technician.token)).status).to.equal(200);
  });

  it('stays when it is not sent, and ends with an empty list', async () => {
    await patch(['198.51.100.7'], HOME);
    const kept = await app.call('PATCH', '/orgs/partners/me', {
      token: tenant.admin.token,
      headers: HOME,
      body: { settings: { security: {}, timeFormat: '24h' } },
    });
    expect(kept.body.settings).to.deep.equal({
      security: { ipAllowlist: ['198.51.100.7'] },
      timeFormat: '24h',
    });
    expect((await me(AWAY)).status).to.equal(403);
    await patch([], HOME);
    expect((await me(AWAY)).status).to.equal(200);
  });

  it('does not shut out the person who writes it, unless they confirm that', async () => {
    const refused = await patch(['203.0.113.1'], HOME);
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'CONFLICT']);
    expect(refused.body.error).to.contain('198.51.100.7');
    expect((await patch(['203.0.113.1'], { 'x-forwarded-for': 'unknown' })).status).to.equal(409);
    expect((await me(HOME)).status).to.equal(200);
    expect((await patch(['203.0.113.1'], HOME, { force: true })).status).to.equal(200);
    expect((await me(HOME)).status).to.equal(403);
  });

  it('takes nothing that is no address or range', async () => {
    for (const entry of [
      '10.0.0.0/08',
      '01.2.3.4',
      '10.0.0',
      'fe80::1%eth0',
      '10.0.0.0/33',
      'localhost',
      '',
    ]) {
      const { status, body } = await patch([entry], HOME);
      expect([status, body.details?.[0]?.path], entry).to.deep.equal([
        400,
        'body.settings.security.ipAllowlist.0',
      ]);
      expect(body.error, entry).to.contain('invalid allowlist entry');
    }
  });

  it('ends live dashboards that are not on it', async () => {
    const client = await connectDashboard(app, tenant.admin.token);
    await patch(['198.51.100.7'], HOME);
    // The socket came without a header, so its address cannot be trusted: it stays, with a warning.
    await eventually(
      () => app.log,
      (lines) => lines.some(({ event }) => event === 'auth.ip_allowlist_not_enforced'),
    );
    expect(client.socket.connected).to.equal(true);
    client.close();
  });

  it('refuses everyone if it cannot be read, at sign-in and with tokens that were issued before', async () => {
    const other = await buildTenant(app);
    const signIn = () =>
      app.call('POST', '/auth/login', {
        headers: HOME,
        body: { email: other.admin.email, password: PASSWORD },
      });
    const session = await signIn();
    const cookie = session.headers.getSetCookie()[0]?.split(';')[0] ?? '';
    const answers = async () => [
      await signIn(),
      await app.call('POST', '/auth/refresh', { headers: { ...HOME, cookie } }),
      await app.call('GET', '/auth/me', { headers: HOME, token: session.body.tokens.accessToken }),
    ];
    const expectRefused = async (why: string) => {
      for (const { status, body } of await answers()) {
        expect([status, body.error], why).to.deep.equal([503, 'Service temporarily unavailable']);
      }
    };
    const keep = (ipAllowlist: unknown) =>
      asOwner(app.database.ownerUrl, 'update partners set settings = $1 where id = $2', [
        { security: { ipAllowlist } },
        other.partnerId,
      ]);
    for (const damaged of [['not an address'], 'text', [7]]) {
      await keep(damaged);
      await expectRefused(JSON.stringify(damaged));
    }
    await keep([]);
    await asOwner(app.database.ownerUrl, 'alter function person_holder(uuid) rename to gone');
    await expectRefused('a failing query');
    await asOwner(app.database.ownerUrl, 'alter function gone(uuid) rename to person_holder');
    expect((await signIn()).status).to.equal(200);
  });

  it('cannot be switched on if no trusted proxies are configured, and then fails open with one warning', async () => {
    const bare = await createTestApp();
    const other = await buildTenant(bare);
    const body = { settings: { security: { ipAllowlist: ['198.51.100.7'] } } };
    const refused = await bare.call('PATCH', '/orgs/partners/me', { token: other.admin.token, body });
    expect([refused.status, refused.body.code]).to.deep.equal([400, 'proxy_trust_required']);
    expect(
      (
        await bare.call('PATCH', '/orgs/partners/me', {
          token: other.admin.token,
          body: { settings: { security: { ipAllowlist: [] } } },
        })
      ).status,
    ).to.equal(200);
    await bare.close();
  });
});
