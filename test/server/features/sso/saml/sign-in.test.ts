import { expect } from 'chai';
import { readIdpMetadata } from '../../../../../src/features/sso/saml-metadata.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { BrowserClient } from '../../../../support/browser-client.ts';
import { buildTenant } from '../../../../support/factories.ts';
import { getOverHttps, TEST_AUTHORITY } from '../../../../support/https-server.ts';
import { signingKey } from '../../../../support/saml-certificates.ts';
import { PERSISTENT_FORMAT, type SamlIdp, startSamlIdp } from '../../../../support/saml-idp.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { browserUrl, createSsoApp, insertProvider, query } from '../../../../support/sso/sso-support.ts';

const CLAIM = 'http://schemas.xmlsoap.org/ws/2005/05/identity/claims';

describe('a sign-in with a SAML identity provider', () => {
  let app: TestApp;
  let idp: SamlIdp;
  let orgId: string;
  let providerId: string;

  before(async () => {
    idp = await startSamlIdp();
    app = await createSsoApp({ env: { SAML_ENTITY_ID: 'urn:example:muster' } });
    const tenant = await buildTenant(app);
    ({ orgId } = tenant);
    const { body } = await getOverHttps(idp.metadataUrl);
    const { entityId, ssoUrl, certificate } = readIdpMetadata(body);
    providerId = await insertProvider(
      app,
      { org_id: orgId },
      {
        entity_id: entityId,
        sso_url: ssoUrl,
        certificate: certificate + signingKey('next').certificate,
        default_role_configured_by: tenant.admin.id,
        trusts_idp_mfa: true,
      },
    );
    await query(
      app,
      `insert into sso_domains (id, org_id, domain, status, token, verified_at) values (?, ?, 'example.com', 'verified', '', now())`,
      [newId(), orgId],
    );
  });
  after(async () => {
    await app.close();
    await idp.close();
  });

  /** As a person sees it: the link of the login page, and the button of the provider's page. */
  async function signIn(): Promise<string> {
    const browser = new BrowserClient({ ca: TEST_AUTHORITY });
    const page = await browser.open(`${browserUrl(app)}/api/v1/sso/login/${orgId}?redirect=/devices`);
    return (await browser.submit(page)).url;
  }

  it('goes the whole way, with the entity ID that the operator has chosen', async () => {
    idp.person = {
      nameId: 'u-1815',
      nameIdFormat: PERSISTENT_FORMAT,
      attributes: {
        [`${CLAIM}/emailaddress`]: 'ada@example.com',
        [`${CLAIM}/givenname`]: 'Ada',
        [`${CLAIM}/surname`]: 'Lovelace',
        'http://schemas.microsoft.com/ws/2008/06/identity/claims/groups': ['engineers', 'countesses'],
      },
      contextClass: 'https://refeds.org/profile/mfa',
    };
    const end = new URL(await signIn());
    expect(end.pathname).to.equal('/devices');
    const code = end.hash.replace('#ssoCode=', '');
    const tokens = await app.call('POST', '/sso/exchange', { body: { code } });
    expect(tokens.status).to.equal(200);
    const [link] = await query<Record<string, unknown>>(
      app,
      `select i.external_id, i.profile->'groups' as groups, u.email, u.name, s.mfa_by_provider as mfa from user_sso_identities i
        join users u on u.id = i.user_id join sessions s on s.user_id = u.id where i.provider_id = ?`,
      [providerId],
    );
    expect(link).to.deep.equal({
      external_id: 'u-1815',
      groups: ['engineers', 'countesses'],
      email: 'ada@example.com',
      name: 'Ada Lovelace',
      mfa: true,
    });
  });

  it('goes on while the provider changes its key, and says so when the key is not known', async () => {
    idp.person = { nameId: 'grace@example.com' };
    expect(await signIn()).to.match(/#ssoCode=/);
    idp.useKey(signingKey('next'));
    expect(await signIn()).to.match(/#ssoCode=/);
    idp.useKey(signingKey('foreign'));
    expect(await signIn()).to.match(/\/login\?error=sso_error&reason=signature_invalid$/);
    idp.useKey(signingKey('signing'));
  });

  it('never sends a browser into an inner network, or anywhere without TLS', async () => {
    for (const address of ['https://10.0.0.1/sso', 'https://169.254.169.254/sso', 'http://127.0.0.1/sso']) {
      const tenant = await buildTenant(app);
      await insertProvider(app, { org_id: tenant.orgId }, { sso_url: address });
      const end = await new BrowserClient().open(`${browserUrl(app)}/api/v1/sso/login/${tenant.orgId}`);
      expect(end.url, address).to.match(/\/login\?error=sso_error&reason=provider_unreachable$/);
    }
  });

  it('says that the provider has refused the person', async () => {
    idp.person = undefined;
    expect(await signIn()).to.match(/\/login\?error=sso_error&reason=provider_refused$/);
  });
});
