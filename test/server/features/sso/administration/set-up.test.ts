import { expect } from 'chai';
import { BrowserClient } from '../../../../support/browser-client.ts';
import { TEST_AUTHORITY } from '../../../../support/https-server.ts';
import { type OidcProvider, startOidcProvider } from '../../../../support/oidc-provider.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { browserUrl, createSsoApp, query } from '../../../../support/sso/sso-support.ts';
import { buildSsoTenant, refusal, requestsOf, type SsoTenant } from './administration-support.ts';

describe('single sign-on that an administrator sets up', function () {
  this.timeout(120_000);
  let app: TestApp;
  let tenant: SsoTenant;
  let idp: OidcProvider;
  before(async () => {
    app = await createSsoApp();
    tenant = await buildSsoTenant(app);
    idp = await startOidcProvider();
  });
  after(async () => {
    await idp.stop();
    await app.close();
  });

  it('works from the first request to its enforcement', async () => {
    const { orgId, orgAdmin } = tenant;
    const { create, change, read, status, test } = requestsOf(app, orgAdmin);
    const client = idp.addClient(`${browserUrl(app)}/api/v1/sso/callback`);
    const made = await create({
      ...client,
      issuer: idp.issuer,
      defaultRoleId: SYSTEM_ROLES.organizationViewer,
      allowedDomains: 'Example.com',
    });
    const { id } = made.body;
    expect((await test(id)).body.success).to.equal(true);
    expect((await status(id, 'active')).status).to.equal(200);
    const enforced = { enforceSSO: true, breakGlassUserIds: [orgAdmin.id] };
    expect(refusal(await change(id, enforced))).to.deep.equal([409, 'SSO_NOT_PROVEN']);

    const signIn = async (person: string) => {
      idp.accounts.set(person, {
        claims: { email: `${person}@example.com`, email_verified: true, name: person },
      });
      idp.person = person;
      const browser = new BrowserClient({ ca: TEST_AUTHORITY });
      const page = await browser.open(`${browserUrl(app)}/api/v1/sso/login/${orgId}`);
      browser.close();
      return new URL(page.url);
    };
    expect((await signIn('ada')).hash).to.match(/^#ssoCode=/);
    expect((await read(id)).body.lastSuccessAt).to.be.a('string');
    expect((await change(id, enforced)).body).to.deep.include(enforced);

    // The role may be given for as long as the administrator could give it.
    const [member] = await query<{ role_id: string }>(
      app,
      'select role_id from organization_users m join users u on u.id = m.user_id where u.email = ?',
      ['ada@example.com'],
    );
    expect(member?.role_id).to.equal(SYSTEM_ROLES.organizationViewer);
    await query(app, "update users set status = 'disabled' where id = ?", [orgAdmin.id]);
    expect((await signIn('bob')).searchParams.get('error')).to.equal('default_role_required');
    expect((await signIn('ada')).hash).to.match(/^#ssoCode=/);
  });
});
