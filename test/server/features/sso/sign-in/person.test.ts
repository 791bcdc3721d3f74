import { expect } from 'chai';
import { newId } from '../../../../../src/platform/ids.ts';
import { BrowserClient, type Page } from '../../../../support/browser-client.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildPerson, buildTenant, PASSWORD } from '../../../../support/factories.ts';
import { TEST_AUTHORITY } from '../../../../support/https-server.ts';
import { type OidcProvider, startOidcProvider } from '../../../../support/oidc-provider.ts';
import { PERSISTENT_FORMAT, type SamlIdp, startSamlIdp } from '../../../../support/saml-idp.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import {
  browserUrl,
  createSsoApp,
  insertOidcProvider,
  insertProvider,
  query,
  proveDomain as prove,
} from '../../../../support/sso/sso-support.ts';

/** Someone at the identity provider. */
interface Human {
  subject: string;
  email: string;
  name: string;
}

/** An identity provider of one of the two protocols, as these tests need it. */
interface Place {
  insertProvider(owner: Parameters<typeof insertProvider>[1], row?: Record<string, unknown>): Promise<string>;
  /** Who sits at the browser from now on; undefined: the provider refuses. */
  seat(human: Human | undefined, isMfa?: boolean): void;
}

const oidcPlace = (app: TestApp, idp: OidcProvider): Place => ({
  insertProvider: (owner, row) => insertOidcProvider(app, idp, owner, row),
  seat(human, isMfa = false) {
    idp.person = human?.subject;
    if (human === undefined) return;
    const { subject, email, name } = human;
    idp.accounts.set(subject, {
      claims: { email, email_verified: true, name },
      amr: isMfa ? ['pwd', 'mfa'] : ['pwd'],
    });
  },
});

const samlPlace = (app: TestApp, idp: SamlIdp): Place => ({
  insertProvider: (owner, row) =>
    insertProvider(app, owner, {
      entity_id: idp.entityId,
      sso_url: idp.ssoUrl,
      certificate: idp.certificate,
      ...row,
    }),
  seat(human, isMfa = false) {
    idp.person = human && {
      nameId: human.subject,
      nameIdFormat: PERSISTENT_FORMAT,
      attributes: { email: human.email, name: human.name },
      ...(isMfa ? { contextClass: 'https://refeds.org/profile/mfa' } : {}),
    };
  },
});

for (const protocol of ['OpenID Connect', 'SAML'] as const) {
  describe(`a person who signs in by ${protocol}`, () => {
    let app: TestApp;
    let oidc: OidcProvider;
    let saml: SamlIdp;
    let place: Place;
    let tenant: Awaited<ReturnType<typeof buildTenant>>;
    before(async () => {
      app = await createSsoApp();
      [oidc, saml] = await Promise.all([startOidcProvider(), startSamlIdp()]);
      place = protocol === 'SAML' ? samlPlace(app, saml) : oidcPlace(app, oidc);
    });
    after(async () => {
      await Promise.all([app.close(), oidc.stop(), saml.close()]);
    });
    beforeEach(async () => {
      tenant = await buildTenant(app);
    });

    const newHuman = (email = `ada-${newId()}@example.com`): Human => ({
      subject: `subject-${newId()}`,
      email,
      name: 'Ada Lovelace',
    });

    /** From the login button to the page of the dashboard. */
    async function come(path: string, browser = new BrowserClient({ ca: TEST_AUTHORITY })): Promise<Page> {
      const page = await browser.open(`${browserUrl(app)}/api/v1${path}`);
      return page.text.includes('SAMLResponse') ? browser.submit(page) : page;
    }
    const toOrganization = () => `/sso/login/${tenant.orgId}`;
    const toPartner = () => `/sso/login/partner/${tenant.partnerId}`;

    /** What the page of the dashboard gets for its code. */
    async function tokensOf(page: Page) {
      const code = /#ssoCode=([\w-]{43})$/.exec(page.url)?.[1];
      expect(code, page.url).to.be.a('string');
      expect(page.visited.at(-2)).to.contain('/api/v1/sso/callback');
      const answer = await app.call('POST', '/sso/exchange', { body: { code } });
      expect(answer.status).to.equal(200);
      expect((await app.call('POST', '/sso/exchange', { body: { code } })).status).to.equal(400);
      return answer.body as { accessToken: string; refreshToken: string; expiresInSeconds: number };
    }
    const failureOf = ({ url }: Page) => {
      const { pathname, searchParams } = new URL(url);
      return `${pathname} ${searchParams.get('error')} ${searchParams.get('reason')}`;
    };
    const me = async (token: string) => (await app.call('GET', '/auth/me', { token })).body;
    const insertForOrganization = (row = {}) =>
      place.insertProvider({ org_id: tenant.orgId }, { default_role_configured_by: tenant.admin.id, ...row });
    const proveDomain = (domain?: string) => prove(app, tenant.orgId, domain);
    const releaseDomain = () => query(app, 'delete from sso_domains');
    afterEach(releaseDomain);

    it('gets an account of the organization at the first time, and finds it at the second', async () => {
      await proveDomain();
      await insertForOrganization();
      const human = newHuman();
      place.seat(human);
      const first = await tokensOf(await come(toOrganization()));
      expect(first.expiresInSeconds).to.equal(900);
      const account = await me(first.accessToken);
      expect(account.user).to.include({ email: human.email, name: human.name });
      expect(account).to.include({ scope: 'organization', orgId: tenant.orgId });
      expect(account.role.name).to.equal('Organization Viewer');

      // At the provider, the address has changed.
      place.seat({ ...human, email: `grace-${newId()}@example.com` });
      const second = await me((await tokensOf(await come(toOrganization()))).accessToken);
      expect(second.user.id).to.equal(account.user.id);
      expect(second.user.email).to.equal(human.email);
      const links = await query(
        app,
        'select external_id, email <> ? as moved, last_login_at is not null as noted from user_sso_identities where user_id = ?',
        [human.email, account.user.id],
      );
      expect(links).to.deep.equal([{ external_id: human.subject, moved: true, noted: true }]);
    });

    it('may be another one at the provider with the same address; the trail shows that', async () => {
      await proveDomain();
      await insertForOrganization();
      const human = newHuman();
      place.seat(human);
      const before = await me((await tokensOf(await come(toOrganization()))).accessToken);
      place.seat({ ...human, subject: `subject-${newId()}` });
      const after = await me((await tokensOf(await come(toOrganization()))).accessToken);
      expect(after.user.id).to.equal(before.user.id);
      await eventually(
        () =>
          query(
            app,
            `select from audit_logs where action = 'sso.identity.link' and details ->> 'outcome' = 'moved' and actor_id = ?`,
            [after.user.id],
          ),
        (found) => found.length === 1,
      );
    });

    it('goes on with the refresh token, and ends with the sign-out', async () => {
      await proveDomain();
      await insertForOrganization();
      place.seat(newHuman());
      const { refreshToken } = await tokensOf(await come(toOrganization()));
      const refreshed = await app.call('POST', '/auth/refresh', { body: { refreshToken } });
      expect(refreshed.status).to.equal(200);
      const { accessToken: token } = refreshed.body.tokens;
      expect((await me(token)).scope).to.equal('organization');
      await app.call('POST', '/auth/logout', { token });
      expect((await app.call('GET', '/auth/me', { token })).status).to.equal(401);
      const again = { body: { refreshToken: refreshed.body.refreshToken } };
      expect((await app.call('POST', '/auth/refresh', again)).status).to.equal(401);
    });

    it('comes to the page of the dashboard that was asked for', async () => {
      await proveDomain();
      await insertForOrganization();
      place.seat(newHuman());
      const page = await come(`${toOrganization()}?redirect=/devices?status=online`);
      expect(page.url).to.match(/\/devices\?status=online#ssoCode=/);
    });

    it('gets no account if the organization gives none', async () => {
      await proveDomain();
      await insertForOrganization({ auto_provision: false });
      const human = newHuman();
      place.seat(human);
      expect(failureOf(await come(toOrganization()))).to.equal('/login user_not_found account_unknown');
      expect(await query(app, 'select from users where email = ?', [human.email])).to.deep.equal([]);
    });

    it('gets no account without a default role that still may be given', async () => {
      await proveDomain();
      await insertForOrganization({ default_role_id: null });
      place.seat(newHuman());
      expect(failureOf(await come(toOrganization()))).to.equal(
        '/login default_role_required default_role_invalid',
      );
    });

    it('stays outside of another tenant, whose account the address is', async () => {
      await proveDomain();
      const other = await buildTenant(app);
      await insertForOrganization();
      place.seat(newHuman(other.admin.email));
      expect(failureOf(await come(toOrganization()))).to.equal('/login no_org_access not_a_member');
    });

    it('of a partner signs in to an account that was invited, and never gets one', async () => {
      await proveDomain();
      await place.insertProvider({ partner_id: tenant.partnerId });
      place.seat(newHuman());
      expect(failureOf(await come(toPartner()))).to.equal('/login user_not_found invitation_required');

      place.seat(newHuman(tenant.admin.email.toUpperCase()));
      const account = await me((await tokensOf(await come(toPartner()))).accessToken);
      expect(account).to.include({ scope: 'partner', partnerId: tenant.partnerId });
      expect(account.user.id).to.equal(tenant.admin.id);

      const member = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      place.seat(newHuman(member.email));
      expect(failureOf(await come(toPartner()))).to.equal('/login no_org_access not_a_member');
    });

    it('opens no existing account unless its domain is proven or it was linked', async () => {
      const toEach = [
        { path: toPartner(), who: tenant.admin, owner: { partner_id: tenant.partnerId } },
        {
          path: toOrganization(),
          who: await buildPerson(app, { scope: 'organization', orgId: tenant.orgId }),
          owner: { org_id: tenant.orgId },
        },
      ];
      const other = await buildTenant(app);
      // Of another tenant, and of a neighbour's name.
      await prove(app, other.orgId);
      await proveDomain('example.org');
      for (const { path, who, owner } of toEach) {
        const providerId = await place.insertProvider(owner, { default_role_configured_by: tenant.admin.id });
        const human = newHuman(who.email);
        place.seat(human);
        expect(failureOf(await come(path))).to.equal('/login sso_error domain_not_proven');
        await query(
          app,
          `insert into user_sso_identities (id, user_id, provider_id, external_id, profile) values (?, ?, ?, ?, '{}')`,
          [newId(), who.id, providerId, human.subject],
        );
        expect((await me((await tokensOf(await come(path))).accessToken)).user.id).to.equal(who.id);
      }
    });

    it('is refused if the account is disabled or the partner inactive', async () => {
      await proveDomain();
      await place.insertProvider({ partner_id: tenant.partnerId });
      const colleague = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
      place.seat(newHuman(colleague.email));
      await query(app, `update users set status = 'disabled' where id = ?`, [colleague.id]);
      expect(failureOf(await come(toPartner()))).to.equal('/login no_org_access account_disabled');
      await query(app, `update users set status = 'active' where id = ?`, [colleague.id]);
      await query(app, `update partners set status = 'suspended' where id = ?`, [tenant.partnerId]);
      expect(failureOf(await come(toPartner()))).to.equal('/login sso_error partner_inactive');
    });

    it('has a second factor only if the provider is trusted with one and reports it', async () => {
      await proveDomain();
      await place.insertProvider({ partner_id: tenant.partnerId });
      const human = newHuman(tenant.admin.email);
      const mfaOf = async () => {
        const { accessToken: token } = await tokensOf(await come(toPartner()));
        const answer = await app.call('POST', '/sso/domains', { token, body: {} });
        return answer.body.code as string;
      };
      place.seat(human, true);
      expect(await mfaOf()).to.equal('MFA_REQUIRED');
      await query(app, 'update sso_providers set trusts_idp_mfa = true');
      place.seat(human, false);
      expect(await mfaOf()).to.equal('MFA_REQUIRED');
      place.seat(human, true);
      expect(await mfaOf()).to.equal('VALIDATION_FAILED');
    });

    it('learns that the provider has refused', async () => {
      await insertForOrganization();
      place.seat(undefined);
      expect(failureOf(await come(toOrganization()))).to.equal('/login sso_error provider_refused');
    });

    it('links the identity to the account of the profile, and unlinks it', async () => {
      const providerId = await place.insertProvider({ partner_id: tenant.partnerId });
      const { token } = tenant.admin;
      const linkAs = async (human: Human) => {
        place.seat(human);
        const started = await fetch(`${app.url}/api/v1/sso/link/start/${providerId}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}` },
        });
        expect(started.status).to.equal(200);
        const browser = new BrowserClient({ ca: TEST_AUTHORITY });
        browser.keep(started.headers.get('set-cookie') ?? '', browserUrl(app));
        const { url } = (await started.json()) as { url: string };
        const page = await browser.open(url);
        return page.text.includes('SAMLResponse') ? browser.submit(page) : page;
      };
      expect(failureOf(await linkAs(newHuman()))).to.equal('/profile email_mismatch email_mismatch');
      const human = newHuman(tenant.admin.email);
      expect((await linkAs(human)).url).to.equal(`${browserUrl(app)}/profile?sso=linked`);

      const { body } = await app.call('GET', '/sso/identities', { token });
      expect(body.data.map((link: { email: string }) => link.email)).to.deep.equal([human.email]);
      const [{ id }] = body.data;
      expect((await app.call('DELETE', `/sso/identities/${id}`, { token })).status).to.equal(200);
      expect((await app.call('GET', '/sso/identities', { token })).body.data).to.deep.equal([]);
    });

    it('cannot use the password if the provider is enforced, unless named for that', async () => {
      await proveDomain();
      const colleague = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
      await place.insertProvider(
        { partner_id: tenant.partnerId },
        { enforce_sso: true, break_glass_user_ids: [tenant.admin.id] },
      );
      const login = (email: string) =>
        app.call('POST', '/auth/login', { body: { email, password: PASSWORD } });
      const refused = await login(colleague.email);
      expect([refused.status, refused.body.code]).to.deep.equal([403, 'SSO_REQUIRED']);
      expect((await login(tenant.admin.email)).status).to.equal(200);
      place.seat(newHuman(colleague.email));
      expect((await me((await tokensOf(await come(toPartner()))).accessToken)).user.id).to.equal(
        colleague.id,
      );
    });
  });
}
