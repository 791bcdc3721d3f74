import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { BrowserClient } from '../../../../support/browser-client.ts';
import { buildPerson, buildTenant, type Person, signIn } from '../../../../support/factories.ts';
import { TEST_AUTHORITY } from '../../../../support/https-server.ts';
import { type SamlIdp, startSamlIdp } from '../../../../support/saml-idp.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { createSsoApp, insertProvider, query } from '../../../../support/sso/sso-support.ts';

describe('linked identities', () => {
  let app: TestApp;
  let idp: SamlIdp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let providerId: string;

  before(async () => {
    app = await createSsoApp();
    idp = await startSamlIdp();
    tenant = await buildTenant(app);
    providerId = await insertProvider(app, { org_id: tenant.orgId }, ofIdp('Company login'));
  });
  after(async () => {
    await app.close();
    await idp.close();
  });

  const ofIdp = (name: string) => ({
    name,
    entity_id: idp.entityId,
    sso_url: idp.ssoUrl,
    certificate: idp.certificate,
  });
  const member = (orgId = tenant.orgId) =>
    buildPerson(app, { scope: 'organization', orgId, role: SYSTEM_ROLES.organizationViewer });
  const start = (who: Person, provider = providerId) =>
    app.call('POST', `/sso/link/start/${provider}`, { token: who.token });
  const options = async (who: Person) =>
    (await app.call('GET', '/sso/link/options', { token: who.token })).body.data;
  const identities = async (who: Person) =>
    (await app.call('GET', '/sso/identities', { token: who.token })).body.data;
  const remove = (who: Person, id: string) =>
    app.call('DELETE', `/sso/identities/${id}`, { token: who.token });

  /**
   * The person asks for a link, and is at the provider; what is returned lets the browser come back. It did not set the
   * cookie itself, so the callback is asked for once without it, which must not use up the sign-in.
   */
  async function begun(who: Person, provider = providerId) {
    const started = await start(who, provider);
    expect(started.status, JSON.stringify(started.body)).to.equal(200);
    const cookie = (started.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    return async (): Promise<URL> => {
      const browser = new BrowserClient({ ca: TEST_AUTHORITY });
      const { visited } = await browser.submit(await browser.open(started.body.url));
      const callback = visited.find((url) => url.includes('/sso/callback')) ?? '';
      const back = await fetch(callback, { redirect: 'manual', headers: { cookie } });
      return new URL(back.headers.get('location') ?? '');
    };
  }
  /** The whole way; the answer is where the browser ends, without its address. */
  async function link(who: Person, person: { nameId: string; email?: string }, provider = providerId) {
    idp.person = { nameId: person.nameId, attributes: { email: person.email ?? who.email } };
    const url = await (await begun(who, provider))();
    return `${url.pathname}${url.search}`;
  }
  /** A link as an earlier sign-in has left it. */
  const insertLink = async (userId: string, provider = providerId) => {
    const id = newId();
    await query(
      app,
      `insert into user_sso_identities (id, user_id, provider_id, external_id, profile) values (?, ?, ?, ?, '{}')`,
      [id, userId, provider, `subject-${id}`],
    );
    return id;
  };

  it('are made with a real provider, listed, audited, refreshed and removed', async () => {
    const who = await member();
    expect(await options(who)).to.deep.equal([
      { id: providerId, name: 'Company login', type: 'saml', linked: false },
    ]);
    // The case of an address does not matter.
    expect(await link(who, { nameId: 'ada', email: who.email.toUpperCase() })).to.equal(
      '/profile?sso=linked',
    );
    expect((await options(who))[0].linked).to.equal(true);
    const [first, ...others] = await identities(who);
    expect(others).to.deep.equal([]);
    expect(first).to.deep.include({
      provider: { id: providerId, name: 'Company login', type: 'saml' },
      email: who.email.toUpperCase(),
    });
    expect(first.lastLoginAt).to.be.a('string');
    expect(Object.keys(first)).to.have.members(['id', 'provider', 'email', 'lastLoginAt', 'createdAt']);

    expect(await link(who, { nameId: 'ada' })).to.equal('/profile?sso=linked');
    expect((await identities(who)).map(({ id }: { id: string }) => id)).to.deep.equal([first.id]);

    expect((await remove(who, first.id)).body).to.deep.equal({ success: true });
    expect(await identities(who)).to.deep.equal([]);
    await app.server.chainWriter.flush();
    const trail = await query<{ action: string; details: unknown }>(
      app,
      `select action, details from audit_logs where resource_id = ? and action like 'sso.%' order by timestamp`,
      [who.id],
    );
    const provider = { id: providerId, name: 'Company login' };
    expect(trail).to.deep.equal([
      { action: 'sso.identity.link', details: { provider, outcome: 'created' } },
      { action: 'sso.identity.link', details: { provider, outcome: 'refreshed' } },
      { action: 'sso.identity.unlink', details: { provider } },
    ]);
  });

  it('are refused for another address than that of the account', async () => {
    const who = await member();
    const end = '/profile?error=email_mismatch&reason=email_mismatch';
    for (const email of ['other@example.com', `x${who.email}`, `${who.email}.evil.test`]) {
      expect(await link(who, { nameId: newId(), email })).to.equal(end);
    }
    expect(await identities(who)).to.deep.equal([]);
  });

  it('are refused for a person at the provider who is linked to another account', async () => {
    const [owner, thief] = [await member(), await member()];
    expect(await link(owner, { nameId: 'grace' })).to.equal('/profile?sso=linked');
    const end = '/profile?error=identity_in_use&reason=identity_in_use';
    expect(await link(thief, { nameId: 'grace' })).to.equal(end);
    // Nor does it replace a link that the thief has.
    expect(await link(thief, { nameId: 'mallory' })).to.equal('/profile?sso=linked');
    expect(await link(thief, { nameId: 'grace' })).to.equal(end);
    const rows = await query(
      app,
      `select user_id, external_id from user_sso_identities where user_id in (?, ?) order by external_id`,
      [owner.id, thief.id],
    );
    expect(rows).to.deep.equal([
      { user_id: owner.id, external_id: 'grace' },
      { user_id: thief.id, external_id: 'mallory' },
    ]);
  });

  const GONE: Record<string, (who: Person) => Promise<unknown>> = {
    'whose session has ended': (who) =>
      query(app, 'update sessions set revoked_at = now() where user_id = ?', [who.id]),
    'whose session has expired': (who) =>
      query(app, `update sessions set expires_at = now() where user_id = ?`, [who.id]),
    'who was disabled': (who) => query(app, `update users set status = 'disabled' where id = ?`, [who.id]),
    'who has left the organization': (who) =>
      query(app, 'delete from organization_users where user_id = ?', [who.id]),
    'who has moved to another organization': async (who) => {
      const { orgId } = await buildTenant(app);
      await query(app, 'update organization_users set org_id = ? where user_id = ?', [orgId, who.id]);
    },
  };
  for (const [name, leave] of Object.entries(GONE)) {
    it(`are refused for a person ${name} while they were at the provider`, async () => {
      const who = await member();
      idp.person = { nameId: newId(), attributes: { email: who.email } };
      const comeBack = await begun(who);
      await leave(who);
      const { pathname, search } = await comeBack();
      expect(`${pathname}${search}`).to.equal('/profile?error=user_gone&reason=user_gone');
      const found = await query(app, 'select from user_sso_identities where user_id = ?', [who.id]);
      expect(found).to.deep.equal([]);
    });
  }

  it('can be made with the active providers of one’s own organization or partner only', async () => {
    const other = await buildTenant(app);
    const foreign = await insertProvider(app, { org_id: other.orgId });
    const off = await insertProvider(app, { org_id: tenant.orgId }, { status: 'testing' });
    const ofPartner = await insertProvider(app, { partner_id: tenant.partnerId }, { name: 'Partner login' });
    const who = await member();
    const system = await buildPerson(app, { scope: 'system' });
    const ids = async (one: Person) => (await options(one)).map(({ id }: { id: string }) => id);
    expect(await ids(who)).to.deep.equal([providerId]);
    expect(await ids(tenant.admin)).to.deep.equal([ofPartner]);
    expect(await ids(system)).to.deep.equal([]);
    for (const [one, ...refused] of [
      [who, foreign, off, ofPartner, newId()],
      [tenant.admin, foreign, off, providerId],
      [system, foreign, ofPartner, providerId],
    ] as const) {
      for (const id of refused) expect((await start(one, id)).status).to.equal(404);
    }
    expect((await start(tenant.admin, ofPartner)).status).to.equal(200);
  });

  it('are begun with the cookie of a sign-in, that belongs to this session', async () => {
    const who = await member();
    const { body, headers } = await start(who);
    expect(headers.get('set-cookie')).to.match(/^svc_sso_state=[\w-]{43}; .*HttpOnly; SameSite=Lax$/);
    const state = new URL(body.url).searchParams.get('RelayState') ?? '';
    const [session] = await query(
      app,
      `select s.user_id from sso_sessions o join sessions s on s.id = o.link_session_id where o.state = ?`,
      [state],
    );
    expect(session).to.deep.equal({ user_id: who.id });
  });

  it('are begun twenty times in ten minutes, and not with a provider that cannot be used', async () => {
    const who = await member();
    const broken = await insertProvider(app, { org_id: tenant.orgId }, { sso_url: null });
    const refused = await start(who, broken);
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'CONFLICT']);
    const answers = await Promise.all(Array.from({ length: 22 }, () => start(who)));
    expect(answers.filter(({ status }) => status === 429)).to.have.length(3);
    await query(app, 'delete from sso_providers where id = ?', [broken]);
  });

  it('cannot be seen or removed by other people', async () => {
    const owner = await member();
    const id = await insertLink(owner.id);
    for (const who of [await member(), tenant.admin, await buildPerson(app, { scope: 'system' })]) {
      expect(await identities(who)).to.deep.equal([]);
      expect((await remove(who, id)).status).to.equal(404);
    }
    expect(await identities(owner)).to.have.length(1);
  });

  describe('stay', () => {
    const withoutPassword = async (who: Person) => {
      await query(app, 'update users set password_hash = null where id = ?', [who.id]);
      return who;
    };

    it('if they are the only way in to an account without a password', async () => {
      const second = await insertProvider(app, { org_id: tenant.orgId }, { name: 'Second' });
      const off = await insertProvider(app, { org_id: tenant.orgId }, { status: 'inactive' });
      for (let round = 0; round < 10; round++) {
        const who = await withoutPassword(await member());
        const [first, other] = [await insertLink(who.id), await insertLink(who.id, second)];
        await insertLink(who.id, off);
        // Of two that are removed at once, one stays: a provider that is off opens no account.
        const answers = await Promise.all([remove(who, first), remove(who, other)]);
        expect(answers.map(({ status }) => status).toSorted((x, y) => x - y)).to.deep.equal([200, 409]);
        const refusal = answers.find(({ status }) => status === 409);
        expect(refusal?.body.error).to.include('Set a password or link another provider');
      }
      await query(app, 'delete from sso_providers where id in (?, ?)', [second, off]);
    });

    it('if passwords are not accepted, except from people named for emergencies', async () => {
      const owner = { partner_id: tenant.partnerId };
      const partner = { scope: 'partner', partnerId: tenant.partnerId } as const;
      const [who, named] = [await buildPerson(app, partner), await buildPerson(app, partner)];
      const enforced = await insertProvider(app, owner, {
        enforce_sso: true,
        break_glass_user_ids: [named.id],
      });
      const other = await insertProvider(app, owner);
      const links = [await insertLink(who.id, enforced), await insertLink(named.id, enforced)] as const;
      const refused = await remove(who, links[0]);
      expect([refused.status, refused.body.error]).to.deep.equal([
        409,
        'This link is the only way to sign in to your account, because single sign-on is enforced for you. Link another provider before you remove it.',
      ]);
      expect((await remove(named, links[1])).status).to.equal(200);
      await insertLink(who.id, other);
      expect((await remove(who, links[0])).status).to.equal(200);
      await query(app, 'delete from sso_providers where id in (?, ?)', [enforced, other]);
    });

    it('not if their provider was left behind in another organization', async () => {
      const who = await member();
      const id = await insertLink(who.id);
      const { orgId } = await buildTenant(app);
      await query(app, 'update organization_users set org_id = ? where user_id = ?', [orgId, who.id]);
      const moved = { ...who, token: await signIn(app, who.email) };
      expect(await identities(moved)).to.have.length(1);
      expect((await identities(moved))[0].provider).to.equal(null);
      expect((await remove(moved, id)).status).to.equal(200);
    });
  });

  it('are refused to API keys', async () => {
    const { token } = tenant.admin;
    const made = await app.call('POST', '/api-keys', { token, body: { name: 'Key', scopes: ['*:*'] } });
    const key = { ...tenant.admin, token: made.body.key };
    for (const answer of [await start(key), await app.call('GET', '/sso/identities', { token: key.token })]) {
      expect(answer.status).to.equal(403);
    }
  });
});
