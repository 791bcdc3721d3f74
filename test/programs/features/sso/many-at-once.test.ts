import { expect } from 'chai';
import { BrowserClient } from '../../../support/browser-client.ts';
import { buildTenant } from '../../../support/factories.ts';
import { TEST_AUTHORITY } from '../../../support/https-server.ts';
import { type OidcProvider, startOidcProvider } from '../../../support/oidc-provider.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { testClock } from '../../../support/test-clock.ts';
import { browserUrl, createSsoApp, insertOidcProvider } from '../../../support/sso/sso-support.ts';

const PEOPLE = 100;

describe('a hundred people who sign in at once', () => {
  let app: TestApp;
  let idp: OidcProvider;
  before(async () => {
    [app, idp] = await Promise.all([createSsoApp(), startOidcProvider()]);
  });
  afterEach(() => testClock.run());
  after(async () => {
    await Promise.all([app.close(), idp.stop()]);
  });

  it('each get their own account, at the first time and at the second', async () => {
    const { orgId, admin } = await buildTenant(app);
    await insertOidcProvider(app, idp, { org_id: orgId }, { default_role_configured_by: admin.id });
    const subjects = Array.from({ length: PEOPLE }, (_, n) => `person-${n}`);
    for (const subject of subjects) {
      const email = `${subject}@example.com`;
      idp.accounts.set(subject, { claims: { email, email_verified: true, name: subject } });
    }
    const come = async (subject: string): Promise<{ id: string; email: string }> => {
      const browser = new BrowserClient({ ca: TEST_AUTHORITY });
      browser.keep(`account=${subject}; Path=/`, idp.issuer);
      const page = await browser.open(`${browserUrl(app)}/api/v1/sso/login/${orgId}`);
      const body = { code: page.url.split('#ssoCode=')[1] };
      const { accessToken: token } = (await app.call('POST', '/sso/exchange', { body })).body;
      return (await app.call('GET', '/auth/me', { token })).body.user;
    };
    // A hundred at once take a slow machine longer than the limits of a request to the identity provider.
    testClock.stop();
    const first = await Promise.all(subjects.map(come));
    expect(first.map(({ email }) => email)).to.deep.equal(subjects.map((one) => `${one}@example.com`));
    expect(new Set(first.map(({ id }) => id)).size).to.equal(PEOPLE);
    // As many as one address may send at once.
    const again = await Promise.all(subjects.slice(0, 30).map(come));
    expect(again.map(({ id }) => id)).to.deep.equal(first.slice(0, 30).map(({ id }) => id));
  });

  it('are one account if all of them are one person', async () => {
    const { orgId, admin } = await buildTenant(app);
    await insertOidcProvider(app, idp, { org_id: orgId }, { default_role_configured_by: admin.id });
    idp.accounts.set('ada', { claims: { email: 'ada@example.com', email_verified: true, name: 'Ada' } });
    const pages = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const browser = new BrowserClient({ ca: TEST_AUTHORITY });
        browser.keep('account=ada; Path=/', idp.issuer);
        return browser.open(`${browserUrl(app)}/api/v1/sso/login/${orgId}`);
      }),
    );
    expect(pages.filter(({ url }) => !url.includes('#ssoCode='))).to.deep.equal([]);
  });
});
