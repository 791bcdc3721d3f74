import { expect } from 'chai';
import { BrowserClient } from '../../../../support/browser-client.ts';
import { buildPerson, buildTenant } from '../../../../support/factories.ts';
import { TEST_AUTHORITY } from '../../../../support/https-server.ts';
import { type SamlIdp, startSamlIdp } from '../../../../support/saml-idp.ts';
import {
  browserUrl,
  createSsoApp,
  insertProvider,
  proveDomain,
} from '../../../../support/sso/sso-support.ts';
import type { TestApp } from '../../../../support/test-app.ts';

/** What browsers add to a request of a page of their own. */
const FROM_PAGE = { origin: 'http://localhost', 'sec-fetch-site': 'same-origin' };

describe('the code of a single sign-on', () => {
  let app: TestApp;
  let idp: SamlIdp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  before(async () => {
    [app, idp] = await Promise.all([createSsoApp(), startSamlIdp()]);
    tenant = await buildTenant(app);
    await proveDomain(app, tenant.orgId);
    const { entityId: entity_id, ssoUrl: sso_url, certificate } = idp;
    await insertProvider(app, { partner_id: tenant.partnerId }, { entity_id, sso_url, certificate });
    idp.person = { nameId: tenant.admin.email };
  });
  after(() => Promise.all([app.close(), idp.close()]));

  const newBrowser = () => new BrowserClient({ ca: TEST_AUTHORITY });
  async function codeOf(browser: BrowserClient): Promise<string> {
    const form = await browser.open(`${browserUrl(app)}/api/v1/sso/login/partner/${tenant.partnerId}`);
    const { url } = await browser.submit(form);
    return url.split('#ssoCode=')[1] ?? '';
  }
  const cookieOf = ({ cookies }: BrowserClient) => {
    const { name = '', value = '' } = cookies.find((one) => one.name === 'svc_sso_browser') ?? {};
    return `${name}=${value}`;
  };
  const exchange = async (body: object, headers: Record<string, string> = {}) => {
    const { status, body: answer } = await app.call('POST', '/sso/exchange', { body, headers });
    return { status, answer };
  };

  it('opens nothing in a browser that has not finished the sign-in, and stays good for the one that has', async () => {
    const [own, other] = [newBrowser(), newBrowser()];
    const [code, foreign] = [await codeOf(own), await codeOf(other)];
    for (const headers of [
      FROM_PAGE,
      { origin: 'https://evil.test' },
      { 'sec-fetch-site': 'cross-site' },
      { cookie: 'svc_refresh=x' },
      { cookie: 'svc_sso_browser=' },
      { cookie: cookieOf(other) },
      { ...FROM_PAGE, cookie: cookieOf(other) },
    ]) {
      const { status, answer } = await exchange({ code }, headers);
      expect([status, answer.error], JSON.stringify(headers)).to.deep.equal([
        400,
        'This sign-in was begun in another browser. Begin it again in this one.',
      ]);
    }
    expect((await exchange({ code }, { ...FROM_PAGE, cookie: cookieOf(own) })).status).to.equal(200);
    // A client without cookies is no browser, and has no session that could be replaced.
    expect((await exchange({ code: foreign })).status).to.equal(200);
  });

  it('of two sign-ins at once in one browser opens both', async () => {
    const browser = newBrowser();
    const codes = [await codeOf(browser), await codeOf(browser)];
    for (const code of codes) {
      expect((await exchange({ code }, { ...FROM_PAGE, cookie: cookieOf(browser) })).status).to.equal(200);
    }
  });

  it('says that it is of another person than the one who is signed in, before it replaces anything', async () => {
    const colleague = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
    const browser = newBrowser();
    const headers = { ...FROM_PAGE, cookie: cookieOf(browser) };
    const code = await codeOf(browser);
    headers.cookie = cookieOf(browser);
    const asked = await exchange({ code, signedInAs: colleague.id }, headers);
    expect([asked.status, asked.answer.details]).to.deep.equal([
      409,
      { code: 'OTHER_PERSON', email: tenant.admin.email },
    ]);
    expect((await exchange({ code }, headers)).status, 'the person has agreed').to.equal(200);
    const again = await codeOf(browser);
    expect((await exchange({ code: again, signedInAs: tenant.admin.id }, headers)).status).to.equal(200);
  });

  it('of a link of the server opens any browser, which asks a person who is signed in', async () => {
    const link = async () => (await app.server.signInFragment(tenant.admin.id)).replace('#ssoCode=', '');
    expect((await exchange({ code: await link() }, FROM_PAGE)).status).to.equal(200);
    const code = await link();
    const { id: signedInAs } = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
    expect((await exchange({ code, signedInAs }, FROM_PAGE)).status).to.equal(409);
    expect((await exchange({ code }, FROM_PAGE)).status).to.equal(200);
  });
});
