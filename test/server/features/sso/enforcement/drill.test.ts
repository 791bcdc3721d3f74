import { expect } from 'chai';
import { BrowserClient, type Page } from '../../../../support/browser-client.ts';
import { buildPerson, buildTenant, PASSWORD, type Person } from '../../../../support/factories.ts';
import { EXPIRED_CERTIFICATE, startHttpsServer, TEST_AUTHORITY } from '../../../../support/https-server.ts';
import { type OidcProvider, startOidcProvider } from '../../../../support/oidc-provider.ts';
import { samlFile, signingKey } from '../../../../support/saml-certificates.ts';
import { type SamlIdp, startSamlIdp } from '../../../../support/saml-idp.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { codeOf } from '../../../../support/auth/second-factor-support.ts';
import {
  browserUrl,
  createSsoApp,
  insertOidcProvider,
  proveDomain,
  query,
} from '../../../../support/sso/sso-support.ts';
import { enforceFor, entriesOf } from '../../../../support/sso/enforcement/enforcement-support.ts';

/**
 * What everyone sees on the day on which an enforced identity provider fails: the named person gets in by password, nobody
 * else does, and the others learn what is wrong.
 */
describe('the drill: an enforced identity provider fails', function () {
  this.timeout(120_000);
  let app: TestApp;
  let orgId: string;
  let named: Person;
  let other: Person;
  let providerId: string;
  before(async () => {
    app = await createSsoApp({ outbound: { allowHttp: true, ca: TEST_AUTHORITY + EXPIRED_CERTIFICATE } });
  });
  after(() => app.close());
  beforeEach(async () => {
    ({ orgId } = await buildTenant(app));
    await query(app, 'delete from sso_domains');
    await proveDomain(app, orgId);
    named = await buildPerson(app, { scope: 'organization', orgId });
    other = await buildPerson(app, { scope: 'organization', orgId });
  });

  const loginUrl = () => `${browserUrl(app)}/api/v1/sso/login/${orgId}`;
  const byPassword = ({ email }: Person) =>
    app.call('POST', '/auth/login', { body: { email, password: PASSWORD } });
  const failureOf = ({ url }: Page) => {
    const { pathname, searchParams } = new URL(url);
    return `${pathname} ${searchParams.get('error')} ${searchParams.get('reason')}`;
  };
  const newBrowser = () => new BrowserClient({ ca: TEST_AUTHORITY });
  /** Up to the page of the dashboard, or as far as the browser comes. */
  async function come(browser = newBrowser()): Promise<Page> {
    const page = await browser.open(loginUrl());
    return page.text.includes('SAMLResponse') ? browser.submit(page) : page;
  }
  const expectSignedIn = ({ url }: Page) => expect(url).to.match(/#ssoCode=[\w-]{43}$/);

  /** Passwords, while the provider fails. */
  async function expectDoors(): Promise<void> {
    const refused = await byPassword(other);
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'SSO_REQUIRED']);
    expect(refused.body.error).to.equal('Your account requires single sign-on. Sign in with Acme Login.');
    expect(refused.body.details).to.deep.equal({ loginUrl: loginUrl() });

    const admitted = await byPassword(named);
    expect(admitted.status).to.equal(200);
    expect(await entriesOf(app, 'sso.break_glass', named.id)).to.have.lengthOf(1);
    const alerts = await query(app, `select kind, status, count from alerts where org_id = ?`, [orgId]);
    expect(alerts).to.deep.equal([{ kind: 'sso_break_glass', status: 'active', count: 1 }]);
  }
  /** What the trail of the organization says of the failed sign-ins with the provider. */
  async function reasonsInTrail(): Promise<unknown[]> {
    await app.server.chainWriter.flush();
    const entries = await query<{ reason: unknown }>(
      app,
      `select details ->> 'reason' as reason from audit_logs
      where org_id = ? and resource_id = ? and action = 'user.login.failed' order by id`,
      [orgId, providerId],
    );
    return entries.map(({ reason }) => reason);
  }

  it('and the named person repairs it: a second factor, a step up, and enforcement ends', async () => {
    providerId = await enforceFor(app, { org_id: orgId }, [named]);
    const { accessToken: token } = (await byPassword(named)).body.tokens;
    const call = (method: string, path: string, body: object) => app.call(method, path, { token, body });
    const endEnforcement = () => call('PATCH', `/sso/providers/${providerId}`, { enforceSSO: false });
    expect((await endEnforcement()).body.code).to.equal('MFA_REQUIRED');

    const setup = await call('POST', '/auth/mfa/setup', { currentPassword: PASSWORD });
    const { secret, recoveryCodes } = setup.body;
    expect((await call('POST', '/auth/mfa/enable', { code: codeOf(secret) })).status).to.equal(200);
    expect((await call('POST', '/auth/mfa/step-up', { code: recoveryCodes[0] })).status).to.equal(200);
    const repaired = await endEnforcement();
    expect([repaired.status, repaired.body.enforceSSO]).to.deep.equal([200, false]);
    expect((await byPassword(other)).status).to.equal(200);
  });

  describe('by OpenID Connect', () => {
    let idp: OidcProvider;
    beforeEach(async () => {
      idp = await startOidcProvider();
      for (const { id, email } of [named, other]) {
        idp.accounts.set(id, { claims: { email, email_verified: true, name: 'Ada Lovelace' } });
      }
      idp.person = other.id;
      providerId = await insertOidcProvider(
        app,
        idp,
        { org_id: orgId },
        { name: 'Acme Login', enforce_sso: true, break_glass_user_ids: [named.id] },
      );
      expectSignedIn(await come());
    });
    afterEach(() => idp.stop());

    /** A sign-in whose second half begins after the provider has failed. */
    async function comeBackAfter(fail: () => unknown): Promise<Page> {
      const browser = newBrowser();
      const begun = await fetch(loginUrl(), { redirect: 'manual' });
      browser.keep(begun.headers.get('set-cookie') ?? '', browserUrl(app));
      const back = await idp.signIn(begun.headers.get('location') ?? '');
      await fail();
      return browser.open(back);
    }
    const refusal = (error: NodeJS.ErrnoException) => error.code;

    it('because it has vanished', async () => {
      expect(failureOf(await comeBackAfter(() => idp.stop()))).to.equal(
        '/login sso_error provider_unreachable',
      );
      expect(await come().catch(refusal), 'the browser says so itself').to.equal('ECONNREFUSED');
      await expectDoors();
      expect(await reasonsInTrail()).to.deep.equal(['provider_unreachable']);

      await idp.start();
      expectSignedIn(await come());
    });

    it('because its certificate has expired', async () => {
      expect(failureOf(await comeBackAfter(() => idp.expireCertificate()))).to.equal(
        '/login sso_error provider_unreachable',
      );
      const trusting = new BrowserClient({ ca: EXPIRED_CERTIFICATE });
      expect(await come(trusting).catch(refusal)).to.equal('CERT_HAS_EXPIRED');
      await expectDoors();
    });

    it('because its keys have changed and the new ones are unreachable', async () => {
      await idp.rotateKeys();
      const gone = await startHttpsServer(() => undefined);
      await gone.stop();
      await query(app, 'update sso_providers set jwks_url = ? where id = ?', [
        `https://127.0.0.1:${gone.port}/jwks`,
        providerId,
      ]);
      expect(failureOf(await come())).to.equal('/login sso_error provider_unreachable');
      await expectDoors();
      expect(await reasonsInTrail()).to.deep.equal(['provider_unreachable']);
    });

    it('because our client was deleted there', async () => {
      const [{ client_id: clientId } = { client_id: '' }] = await query<{ client_id: string }>(
        app,
        'select client_id from sso_providers where id = ?',
        [providerId],
      );
      const page = await comeBackAfter(() => idp.deleteClient(clientId));
      expect(failureOf(page)).to.equal('/login sso_error client_refused');
      const stopped = await come();
      expect([stopped.url.startsWith(idp.issuer), stopped.status]).to.deep.equal([true, 400]);
      await expectDoors();
      expect(await reasonsInTrail()).to.deep.equal(['client_refused']);
    });
  });

  describe('by SAML', () => {
    let idp: SamlIdp;
    beforeEach(async () => {
      idp = await startSamlIdp();
      providerId = await enforceFor(app, { org_id: orgId }, [named], {
        entity_id: idp.entityId,
        sso_url: idp.ssoUrl,
        certificate: idp.certificate,
      });
      idp.person = { nameId: other.email, attributes: { email: other.email, name: 'Ada Lovelace' } };
      expectSignedIn(await come());
    });
    afterEach(() => idp.close());

    it('because it has vanished', async () => {
      await idp.close();
      const failed = await come().catch((error: NodeJS.ErrnoException) => error.code);
      expect(failed, 'the browser says so itself').to.equal('ECONNREFUSED');
      await expectDoors();
    });

    it('because its certificate has expired', async () => {
      await query(app, 'update sso_providers set certificate = ? where id = ?', [
        samlFile('expired.pem'),
        providerId,
      ]);
      expect(failureOf(await come())).to.equal('/login sso_error certificate_expired');
      await expectDoors();
    });

    it('because its key has changed', async () => {
      idp.useKey(signingKey('next'));
      expect(failureOf(await come())).to.equal('/login sso_error signature_invalid');
      await expectDoors();
      expect(await reasonsInTrail()).to.deep.equal(['signature_invalid']);
    });

    it('because our client was deleted there', async () => {
      idp.person = undefined;
      expect(failureOf(await come())).to.equal('/login sso_error provider_refused');
      await expectDoors();
      expect(await reasonsInTrail()).to.deep.equal(['provider_refused']);
    });
  });
});
