import { expect } from 'chai';
import { newId } from '../../../../../src/platform/ids.ts';
import { BrowserClient } from '../../../../support/browser-client.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildTenant } from '../../../../support/factories.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { browserUrl, createSsoApp, insertProvider, query } from '../../../../support/sso/sso-support.ts';

describe('a sign-in with an identity provider, up to its answer', () => {
  let app: TestApp;
  let orgId: string;
  let partnerId: string;
  let providerId: string;
  before(async () => {
    app = await createSsoApp();
    ({ orgId, partnerId } = await buildTenant(app));
    providerId = await insertProvider(app, { org_id: orgId });
  });
  after(() => app.close());
  afterEach(() => query(app, `update sso_providers set status = 'active'`));

  const get = (path: string, cookie?: string) =>
    fetch(`${app.url}/api/v1${path}`, {
      redirect: 'manual',
      headers: cookie === undefined ? {} : { cookie },
    });

  /** Begins a sign-in, and answers what the browser has of it. */
  async function begun(path = `/sso/login/${orgId}`) {
    const answer = await get(path);
    expect(answer.status).to.equal(303);
    const setCookie = answer.headers.get('set-cookie') ?? '';
    const url = new URL(answer.headers.get('location') ?? '');
    return {
      url,
      setCookie,
      cookie: setCookie.split(';')[0] ?? '',
      state: url.searchParams.get('RelayState') ?? '',
    };
  }
  const isOpen = async (state: string) =>
    (await query(app, 'select from sso_sessions where state = ?', [state])).length === 1;
  const failureIn = async (response: Promise<Response>) => {
    const answer = await response;
    expect(answer.status).to.equal(303);
    const url = new URL(answer.headers.get('location') ?? '');
    expect(`${url.origin}${url.pathname}`).to.equal(`${browserUrl(app)}/login`);
    return `${url.searchParams.get('error')} ${url.searchParams.get('reason')}`;
  };
  const UNKNOWN = 'session_expired session_unknown';

  it('leads to the provider, with a state that only this browser can bring back', async () => {
    const { url, setCookie, state } = await begun(`/sso/login/${orgId}?redirect=/devices`);
    expect(url.href).to.match(/^https:\/\/127\.0\.0\.1:4443\/sso\?/);
    expect(state).to.match(/^[\w-]{43}$/);
    expect(setCookie).to.match(
      /^svc_sso_state=[\w-]{43}; Max-Age=600; Path=\/api\/v1\/sso\/callback; Expires=[^;]+; HttpOnly; SameSite=Lax$/,
    );
    expect(setCookie).not.to.contain(state);
    const [session] = await query<Record<string, unknown>>(
      app,
      `select redirect_url, provider_version, expires_at - created_at = interval '10 minutes' as ten from sso_sessions where state = ?`,
      [state],
    );
    expect(session).to.deep.equal({ redirect_url: '/devices', provider_version: 1, ten: true });
  });

  it('sets a Secure cookie if people reach the server by https', async () => {
    const secure = await createSsoApp({ env: { PUBLIC_URL: 'https://muster.test' } });
    try {
      const tenant = await buildTenant(secure);
      await insertProvider(secure, { org_id: tenant.orgId });
      const answer = await fetch(`${secure.url}/api/v1/sso/login/${tenant.orgId}`, { redirect: 'manual' });
      expect(answer.headers.get('set-cookie')).to.contain('; Secure;');
    } finally {
      await secure.close();
    }
  });

  it('is refused with the same words for an organization without a provider and for one that does not exist', async () => {
    const { orgId: other } = await buildTenant(app);
    for (const id of [other, newId(), partnerId]) {
      const answer = await app.call('GET', `/sso/login/${id}`);
      expect([answer.status, answer.body.error]).to.deep.equal([
        404,
        'No active SSO provider for this organization',
      ]);
      expect((await app.call('GET', `/sso/check/${id}`)).body).to.deep.equal({
        ssoEnabled: false,
        provider: null,
        enforceSSO: false,
        loginUrl: null,
      });
    }
    expect((await app.call('GET', `/sso/login/partner/${orgId}`)).status).to.equal(404);
    expect((await app.call('GET', `/sso/check/${orgId}`)).body).to.deep.equal({
      ssoEnabled: true,
      provider: { id: providerId, name: 'Test provider', type: 'saml' },
      enforceSSO: false,
      loginUrl: `${browserUrl(app)}/api/v1/sso/login/${orgId}`,
    });
  });

  it('goes to the oldest active provider', async () => {
    const { orgId: other } = await buildTenant(app);
    const at = (minutes: number) => new Date(Date.now() - minutes * 60_000);
    await insertProvider(app, { org_id: other }, { status: 'testing', created_at: at(3) });
    const oldest = await insertProvider(app, { org_id: other }, { created_at: at(2) });
    await insertProvider(app, { org_id: other }, { created_at: at(1) });
    expect((await app.call('GET', `/sso/check/${other}`)).body.provider.id).to.equal(oldest);
  });

  it('never leaves the dashboard by its redirect', async () => {
    const foreign = [
      '//evil.test',
      '/\\evil.test',
      'https://evil.test',
      '/a\nb',
      '/a#b',
      '/a\\b',
      'devices',
      '/ a',
    ];
    for (const redirect of [...foreign, `/${'a'.repeat(500)}`]) {
      const answer = await app.call(
        'GET',
        `/sso/login/${orgId}?${new URLSearchParams({ redirect }).toString()}`,
      );
      expect([redirect, answer.status]).to.deep.equal([redirect, 400]);
      expect(answer.body.details[0].path).to.equal('query.redirect');
    }
    const twice = await app.call('GET', `/sso/login/${orgId}?redirect=/a&redirect=//evil.test`);
    expect(twice.status).to.equal(400);
  });

  it('ends on the login page for a state that is missing, malformed, unknown or endless', async () => {
    const { cookie } = await begun();
    const states = [
      '',
      '?state=',
      '?state=short',
      `?state=${'a'.repeat(43)}`,
      `?state=${'a'.repeat(12_000)}`,
    ];
    for (const query of [...states, '?state=a&state=b', `?state=${encodeURIComponent('\0'.repeat(43))}`]) {
      expect(await failureIn(get(`/sso/callback${query}`, cookie))).to.equal(UNKNOWN);
    }
  });

  it('cannot be used up by a browser that did not begin it', async () => {
    const mine = await begun();
    const theirs = await begun();
    const wrong = [
      undefined,
      '',
      'svc_sso_state=',
      theirs.cookie,
      `${mine.cookie}x`,
      `svc_sso_state=${mine.state}`,
    ];
    for (const cookie of wrong) {
      expect(await failureIn(get(`/sso/callback?state=${mine.state}`, cookie))).to.equal(UNKNOWN);
      expect(await isOpen(mine.state)).to.equal(true);
    }
  });

  it('is used up by its first callback, whatever that brings', async () => {
    const { state, cookie } = await begun();
    const answer = get(`/sso/callback?state=${state}`, cookie);
    expect(await failureIn(answer)).to.equal('sso_error answer_invalid');
    expect((await answer).headers.get('set-cookie')).to.match(/^svc_sso_state=; Max-Age=0;/);
    expect(await isOpen(state)).to.equal(false);
    expect(await failureIn(get(`/sso/callback?state=${state}`, cookie))).to.equal(UNKNOWN);
  });

  it('goes to one of eight callbacks that come at once', async () => {
    const { state, cookie } = await begun();
    const ends = await Promise.all(
      Array.from({ length: 8 }, () => failureIn(get(`/sso/callback?state=${state}`, cookie))),
    );
    expect(ends.filter((end) => end !== UNKNOWN)).to.deep.equal(['sso_error answer_invalid']);
  });

  it('ends with its ten minutes', async () => {
    const { state, cookie } = await begun();
    await query(app, `update sso_sessions set expires_at = now() where state = ?`, [state]);
    expect(await failureIn(get(`/sso/callback?state=${state}`, cookie))).to.equal(UNKNOWN);
  });

  it('ends if the provider was disabled, reconfigured or deleted meanwhile, and if its version is not known', async () => {
    const changes = [
      `update sso_providers set status = 'inactive' where id = ?`,
      `update sso_providers set status = 'testing' where id = ?`,
      'update sso_providers set config_version = config_version + 1 where id = ?',
      'update sso_sessions set provider_version = null where provider_id = ?',
    ];
    for (const change of changes) {
      const { state, cookie } = await begun();
      await query(app, change, [providerId]);
      expect(await failureIn(get(`/sso/callback?state=${state}`, cookie))).to.equal(
        'session_expired provider_changed',
      );
      await query(app, `update sso_providers set status = 'active' where id = ?`, [providerId]);
    }
    const { orgId: other } = await buildTenant(app);
    const gone = await insertProvider(app, { org_id: other });
    const { state, cookie } = await begun(`/sso/login/${other}`);
    await query(app, 'delete from sso_providers where id = ?', [gone]);
    expect(await failureIn(get(`/sso/callback?state=${state}`, cookie))).to.equal(UNKNOWN);
  });

  it('is audited with the provider and the reason if it fails', async () => {
    const { state, cookie } = await begun();
    await query(app, `update sso_providers set name = 'Audited provider'`);
    await get(`/sso/callback?state=${state}`, cookie);
    const entries = await eventually(
      () =>
        query(
          app,
          `select org_id, result, details from audit_logs
          where action = 'user.login.failed' and resource_name = 'Audited provider'`,
        ),
      (found) => found.length > 0,
    );
    expect(entries).to.deep.equal([
      {
        org_id: orgId,
        result: 'failure',
        details: {
          reason: 'answer_invalid',
          error: 'sso_error',
          provider: { id: providerId, name: 'Audited provider' },
        },
      },
    ]);
  });

  it('leads to the login page if the provider cannot be used, and is audited there', async () => {
    const { orgId: other } = await buildTenant(app);
    await insertProvider(app, { org_id: other }, { certificate: null });
    expect(await failureIn(get(`/sso/login/${other}`))).to.equal('sso_error not_configured');
    await eventually(
      () =>
        query(
          app,
          `select from audit_logs where org_id = ? and action = 'user.login.failed'
            and details ->> 'reason' = 'not_configured'`,
          [other],
        ),
      (found) => found.length === 1,
    );
  });

  it('answers a browser, which shows the login page with the reason', async () => {
    const browser = new BrowserClient();
    const page = await browser.open(`${browserUrl(app)}/api/v1/sso/callback?state=${'a'.repeat(43)}`);
    expect(page.url).to.equal(`${browserUrl(app)}/login?error=session_expired&reason=session_unknown`);
  });
});

describe('the code of a sign-in', () => {
  let app: TestApp;
  before(async () => {
    app = await createSsoApp();
  });
  after(() => app.close());

  it('is refused with the sentence of the specification if it is not known', async () => {
    for (const code of ['x', 'a'.repeat(200)]) {
      const answer = await app.call('POST', '/sso/exchange', { body: { code } });
      expect([answer.status, answer.body.error]).to.deep.equal([
        400,
        'Invalid or expired token exchange code',
      ]);
    }
  });

  it('is refused by name if it is no text', async () => {
    for (const code of [undefined, '', 5, ['a'], 'a'.repeat(201), { a: 1 }]) {
      const answer = await app.call('POST', '/sso/exchange', { body: { code } });
      expect([answer.status, answer.body.details?.[0]?.path]).to.deep.equal([400, 'body.code']);
    }
  });
});
