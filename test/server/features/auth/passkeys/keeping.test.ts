import { expect } from 'chai';
import { disableAdminMfa, SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { tokenHash } from '../../../../../src/platform/secrets/tokens.ts';
import { passkeysOf } from '../../../../support/auth/passkey-support.ts';
import { SoftwareAuthenticator } from '../../../../support/auth/software-authenticator.ts';
import { buildPerson, buildTenant, PASSWORD, type Person } from '../../../../support/factories.ts';
import { enforceFor } from '../../../../support/sso/enforcement/enforcement-support.ts';
import { query } from '../../../../support/sso/sso-support.ts';
import { createTestApp, sharedTestApp, type TestApp } from '../../../../support/test-app.ts';

describe('passkeys of an account', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let passkeys: ReturnType<typeof passkeysOf>;
  before(async () => {
    app = await sharedTestApp();
    passkeys = passkeysOf(app);
    tenant = await buildTenant(app);
  });
  after(async () => app.close());

  const post = (path: string, body: object, token?: string) => app.call('POST', path, { body, token });
  const newPerson = () => buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
  const remove = (id: string, { token }: Person) => app.call('DELETE', `/auth/passkeys/${id}`, { token });
  const login = async ({ email }: Person, password = PASSWORD) =>
    (await post('/auth/login', { email, password })).body;
  /** As the mailed link does. */
  async function resetPassword({ id }: Person, password: string) {
    const token = `reset-${id}`;
    await query(
      app,
      `insert into password_resets (token_hash, user_id, expires_at) values (?, ?, now() + interval '1 hour')`,
      [tokenHash(token), id],
    );
    expect((await post('/auth/reset-password', { token, password })).status).to.equal(200);
  }

  it('stay after a reset of the password, and are still needed', async () => {
    const person = await newPerson();
    const { authenticator } = await passkeys.register(person);
    await resetPassword(person, 'Another-Word-7');
    expect((await app.call('GET', '/auth/me', { token: person.token })).status).to.equal(401);
    expect(await login(person, 'Another-Word-7')).to.include({ mfaRequired: true });
    expect((await passkeys.signIn(authenticator)).status).to.equal(200);
  });

  it('go when the owner of an address that was never proved takes the account', async () => {
    const squatter = await newPerson();
    const { authenticator } = await passkeys.register(squatter);
    await query(app, 'update users set email_verified_at = null where id = ?', [squatter.id]);
    await resetPassword(squatter, 'Another-Word-7');
    expect((await passkeys.signIn(authenticator)).status).to.equal(401);
    expect(await login(squatter, 'Another-Word-7')).to.include({ mfaRequired: false });
  });

  it('go with all second factors when the operator helps a system administrator', async () => {
    const admin = await buildPerson(app, { scope: 'system' });
    const { authenticator } = await passkeys.register(admin);
    const { pool } = app.server.database;
    const nothing = async () => {};
    const help = () => disableAdminMfa(pool, admin.email, { revokeKeysOf: nothing }, nothing);
    expect(await help()).to.equal(true);
    expect((await passkeys.signIn(authenticator)).status).to.equal(401);
    expect(await login(admin)).to.include({ mfaRequired: false });
    expect(await help()).to.equal(false);
  });

  it('are not removed down to none by the last break-glass person of a partner', async () => {
    const named = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerAdmin,
    });
    const { id } = await passkeys.register(named);
    const second = await passkeys.register(named, { body: {} });
    await enforceFor(app, { partner_id: tenant.partnerId }, [named]);
    expect((await remove(second.id, named)).status, 'one is left').to.equal(200);
    const refused = await remove(id, named);
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'CONFLICT']);
    const { body } = await app.call('GET', '/auth/mfa', { token: named.token });
    expect(body).to.include({ mfaEnabled: true, passkeys: 1, recoveryCodes: 10 });
  });

  it('end together: of two removals at once, the second one sees that none is left', async () => {
    const person = await newPerson();
    const ids = [(await passkeys.register(person)).id, (await passkeys.register(person, { body: {} })).id];
    const answers = await Promise.all(ids.map((id) => remove(id, person)));
    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200]);
    const { body } = await app.call('GET', '/auth/mfa', { token: person.token });
    expect(body).to.deep.equal({ mfaEnabled: false, app: false, passkeys: 0, recoveryCodes: 0 });
    expect(await login(person)).to.include({ mfaRequired: false });
  });

  it('are not asked for any more once the password has changed', async () => {
    const person = await newPerson();
    const { authenticator } = await passkeys.register(person);
    const { tempToken } = await login(person);
    const credential = authenticator.get(await passkeys.factorQuestion(tempToken));
    const change = { currentPassword: PASSWORD, newPassword: 'Another-Word-7' };
    expect((await post('/auth/change-password', change, person.token)).status).to.equal(200);
    expect((await post('/auth/mfa/passkey-verify', { tempToken, credential })).status).to.equal(401);
    expect((await post('/auth/mfa/passkey-options', { tempToken })).status).to.equal(401);
  });

  it('leave no challenges behind: a new one removes those that nobody has answered', async () => {
    const expired = async () => {
      const [row] = await query<{ count: number }>(
        app,
        'select count(*)::int as count from passkey_challenges where expires_at < now()',
      );
      return row?.count ?? 0;
    };
    for (let n = 0; n < 3; n++) await passkeys.signInQuestion();
    await query(app, `update passkey_challenges set expires_at = now() - interval '1 minute'`);
    const before = await expired();
    expect(before).to.be.above(2);
    await passkeys.signInQuestion();
    expect(await expired()).to.equal(Math.max(0, before - 10));
  });
});

describe('passkeys of a server behind a proxy and a path', () => {
  let app: TestApp;
  before(async () => {
    app = await createTestApp({ env: { PUBLIC_URL: 'https://muster.example.com/rmm/' } });
  });
  after(async () => app.close());

  it('belong to the host of its public address', async () => {
    const { orgId } = await buildTenant(app);
    const person = await buildPerson(app, { scope: 'organization', orgId });
    const passkeys = passkeysOf(app);
    const authenticator = new SoftwareAuthenticator('https://muster.example.com');
    await passkeys.register(person, { authenticator });
    expect(await passkeys.signInQuestion()).to.include({ rpId: 'muster.example.com' });
    const answer = await passkeys.signIn(authenticator);
    expect(answer.status).to.equal(200);
    expect(answer.headers.getSetCookie()[0]).to.contain('Secure');
    for (const origin of ['https://muster.example.com:8443', 'http://muster.example.com', app.url]) {
      expect((await passkeys.signIn(authenticator, { origin })).status, origin).to.equal(401);
    }
  });
});
