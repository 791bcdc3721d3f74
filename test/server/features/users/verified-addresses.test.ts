import { expect } from 'chai';
import { Secret, TOTP } from 'otpauth';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { buildPerson, buildTenant, PASSWORD, signIn, type Person } from '../../../support/factories.ts';
import { createMailbox, tokenIn, type Mailbox } from '../../../support/mailbox.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

const OWNER_PASSWORD = 'Owner-Of-Mail-1';
const ATTACKER_PASSWORD = 'Attacker-Was-1st';

const codeOf = (secret: string) => TOTP.generate({ secret: Secret.fromBase32(secret) });

/** The steps of people who want an account at somebody else's address, and what the address's owner is left with. */
describe('an address belongs to the person who reads its mail', () => {
  let app: TestApp;
  let mailbox: Mailbox;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let other: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    mailbox = await createMailbox();
    app = await createTestApp({
      env: {
        DATA_DIR: mailbox.dataDir,
        TRUST_PROXY_HEADERS: 'true',
        TRUSTED_PROXY_CIDRS: '127.0.0.1',
      },
    });
    tenant = await buildTenant(app);
    other = await buildTenant(app);
  });
  after(async () => {
    await app.close();
    await mailbox.remove();
  });

  let count = 0;
  const address = () => `victim-${++count}@example.com`;
  const post = (path: string, body: object) =>
    app.call('POST', path, { body, headers: { 'x-forwarded-for': `198.51.100.${(++count % 250) + 1}` } });
  const account = (email: string, password: string) => ({
    name: 'Somebody',
    email,
    password,
    acceptTerms: true,
  });
  const register = (email: string, password = ATTACKER_PASSWORD) =>
    post('/auth/register', account(email, password));
  const registerPartner = (email: string, password = ATTACKER_PASSWORD) =>
    post('/auth/register-partner', { ...account(email, password), companyName: `Company ${++count}` });
  const verify = (token: string, password: string) => post('/auth/verify-email', { token, password });
  const login = (email: string, password: string) => post('/auth/login', { email, password });
  const accept = (token: string, password: string) => post('/auth/accept-invite', { token, password });
  const invite = (who: Person, email: string, roleId: string = SYSTEM_ROLES.partnerViewer) =>
    app.call('POST', '/users/invite', { token: who.token, body: { name: 'Guest', email, roleId } });
  const me = (token: string) => app.call('GET', '/auth/me', { token });
  const reset = async (email: string) => {
    await post('/auth/forgot-password', { email });
    const token = tokenIn(await mailbox.newest(email, 1, '/reset-password#'));
    return post('/auth/reset-password', { token, password: OWNER_PASSWORD });
  };
  const inDatabase = async (sql: string, values: readonly string[] = []) =>
    (await withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values))).rows;
  const placesOf = async (email: string) => {
    const rows = await inDatabase(
      `select coalesce(m.partner_id, o.org_id) as place from users u
      left join partner_users m on m.user_id = u.id left join organization_users o on o.user_id = u.id
      where u.email = ?`,
      [email],
    );
    return rows.map(({ place }: { place: string }) => place);
  };

  describe('a person who registers the address of another', () => {
    it('cannot sign in, and gains nothing by an invitation of that address', async () => {
      const email = address();
      await register(email);
      expect((await login(email, ATTACKER_PASSWORD)).status).to.equal(401);
      const invited = await invite(tenant.admin, email);
      expect(invited.status).to.equal(201);
      expect((await login(email, ATTACKER_PASSWORD)).status, 'before acceptance').to.equal(401);
      const invitation = await mailbox.newest(email, 1, '/accept-invite#');
      expect((await accept(tokenIn(invitation), OWNER_PASSWORD)).status).to.equal(200);
      expect((await login(email, ATTACKER_PASSWORD)).status, 'after acceptance').to.equal(401);
      expect((await login(email, OWNER_PASSWORD)).status).to.equal(200);
    });

    it('is not confirmed by the owner, who has the mail and not the password', async () => {
      const email = address();
      await register(email);
      const token = tokenIn(await mailbox.newest(email));
      expect((await verify(token, OWNER_PASSWORD)).status).to.equal(401);
      expect((await verify('x'.repeat(43), ATTACKER_PASSWORD)).status, 'password without mail').to.equal(404);
      expect(await inDatabase('select 1 from users where email = ?', [email])).to.deep.equal([]);
      // The owner registers as well, undisturbed by the one before.
      expect((await register(email, OWNER_PASSWORD)).status).to.equal(201);
      const own = tokenIn(await mailbox.newest(email, 2));
      expect((await verify(own, OWNER_PASSWORD)).body).to.deep.equal({ success: true });
      expect((await verify(own, OWNER_PASSWORD)).status, 'used up').to.equal(404);
      expect((await verify(token, ATTACKER_PASSWORD)).status, 'the address has an owner now').to.equal(404);
    });

    it('learns nothing about the address, and neither does a second registration', async () => {
      const free = address();
      const [first, second, taken] = [
        await register(free),
        await register(free),
        await register(tenant.admin.email),
      ];
      expect([second.status, second.body]).to.deep.equal([first.status, first.body]);
      expect([taken.status, taken.body]).to.deep.equal([first.status, first.body]);
      const mail = await mailbox.newest(tenant.admin.email);
      expect(mail).to.contain('already have an account').and.not.to.contain('#token=');
    });

    it('does not choose the words of the mail that a stranger gets', async () => {
      const email = address();
      await post('/auth/register', { ...account(email, PASSWORD), name: 'Win at http://evil.example' });
      expect(await mailbox.newest(email)).not.to.contain('evil.example');
    });
  });

  it('who has confirmed a registration accepts an invitation with the password of it', async () => {
    const email = address();
    await register(email, OWNER_PASSWORD);
    await verify(tokenIn(await mailbox.newest(email)), OWNER_PASSWORD);
    const alone = await login(email, OWNER_PASSWORD);
    expect([alone.status, alone.body.error]).to.deep.equal([
      401,
      'This account is not a member of a provider or an organization. Ask for an invitation.',
    ]);
    const invited = await invite(tenant.admin, email);
    expect(invited.status).to.equal(201);
    expect((await login(email, OWNER_PASSWORD)).status, 'without consent').to.equal(401);
    expect((await accept(tokenIn(invited.body.inviteUrl), ATTACKER_PASSWORD)).status).to.equal(401);
    const accepted = await accept(tokenIn(invited.body.inviteUrl), OWNER_PASSWORD);
    expect(accepted.status).to.equal(200);
    expect((await me(accepted.body.tokens.accessToken)).body.partnerId).to.equal(tenant.partnerId);
  });

  describe('a provider that is registered with the address of another', () => {
    it('gets its tokens, and does not keep the owner from being invited, who then has the account alone', async () => {
      const email = address();
      const registered = await registerPartner(email);
      expect(registered.body.tokens.accessToken).to.be.a('string');
      await mailbox.newest(email);
      const invited = await invite(tenant.admin, email);
      expect(invited.status).to.equal(201);
      const accepted = await accept(tokenIn(await mailbox.newest(email, 2)), OWNER_PASSWORD);
      expect(accepted.status, JSON.stringify(accepted.body)).to.equal(200);
      expect((await me(accepted.body.tokens.accessToken)).body.partnerId).to.equal(tenant.partnerId);
      expect((await me(registered.body.tokens.accessToken)).status).to.equal(401);
      expect((await login(email, ATTACKER_PASSWORD)).status).to.equal(401);
    });

    it('keeps the owner from registering a provider of their own no longer than until their mail is read', async () => {
      const email = address();
      await registerPartner(email);
      await mailbox.newest(email);
      const again = await registerPartner(email, OWNER_PASSWORD);
      expect([again.status, again.body.success]).to.deep.equal([201, true]);
      const confirmed = await verify(tokenIn(await mailbox.newest(email, 2)), OWNER_PASSWORD);
      expect(confirmed.body).to.deep.equal({ success: true });
      const [row] = await inDatabase(
        `select count(*)::int as n, bool_and(u.email_verified_at is not null) as verified
        from partner_users m join users u on u.id = m.user_id where u.email = ?`,
        [email],
      );
      expect(row).to.deep.equal({ n: 1, verified: true });
      expect((await login(email, ATTACKER_PASSWORD)).status).to.equal(401);
    });

    it('does not hold an owner who has set a new password: they accept an invitation to another tenant', async () => {
      const email = address();
      const registered = await registerPartner(email);
      expect((await reset(email)).status).to.equal(200);
      expect((await me(registered.body.tokens.accessToken)).status).to.equal(401);
      expect((await login(email, OWNER_PASSWORD)).status, 'nobody has approved the provider').to.equal(403);
      const { inviteUrl } = (await invite(tenant.admin, email)).body;
      const accepted = await accept(tokenIn(inviteUrl), OWNER_PASSWORD);
      expect(accepted.status, JSON.stringify(accepted.body)).to.equal(200);
      expect((await me(accepted.body.tokens.accessToken)).body.partnerId).to.equal(tenant.partnerId);
      expect(await placesOf(email)).to.deep.equal([tenant.partnerId]);
    });

    it('is confirmed by the link of the mail together with the password, and works on', async () => {
      const email = address();
      const { body } = await registerPartner(email, OWNER_PASSWORD);
      const root = await buildPerson(app, { scope: 'system' });
      const verified = async () =>
        (await app.call('GET', `/users/${body.user.id}`, { token: root.token })).body.emailVerified;
      expect(await verified()).to.equal(false);
      const token = tokenIn(await mailbox.newest(email));
      expect((await verify(token, 'Not-The-Word-1')).status).to.equal(401);
      expect((await verify(token, OWNER_PASSWORD)).status).to.equal(200);
      expect(await verified()).to.equal(true);
      await inDatabase(`update partners set status = 'active' where id = ?`, [body.partner.id]);
      expect((await me(body.tokens.accessToken)).status).to.equal(200);
    });
  });

  describe('an inviter who keeps the link to themselves', () => {
    const squat = async (email: string) => {
      const { inviteUrl } = (await invite(other.admin, email, SYSTEM_ROLES.partnerAdmin)).body;
      await mailbox.newest(email);
      const { body } = await accept(tokenIn(inviteUrl), ATTACKER_PASSWORD);
      return body.tokens.accessToken as string;
    };

    it('has an account in their own tenant, which yields to the owner of the address', async () => {
      const email = address();
      const token = await squat(email);
      const key = await app.call('POST', '/api-keys', {
        token,
        body: { name: 'Left behind', scopes: ['devices:read'] },
      });
      const setup = await app.call('POST', '/auth/mfa/setup', {
        token,
        body: { currentPassword: ATTACKER_PASSWORD },
      });
      const code = codeOf(setup.body.secret);
      expect((await app.call('POST', '/auth/mfa/enable', { token, body: { code } })).status).to.equal(200);
      await invite(tenant.admin, email);
      const accepted = await accept(tokenIn(await mailbox.newest(email, 2)), OWNER_PASSWORD);
      expect([accepted.status, accepted.body.mfaRequired]).to.deep.equal([200, false]);
      expect((await me(accepted.body.tokens.accessToken)).body.partnerId).to.equal(tenant.partnerId);
      expect((await me(token)).status, 'the session of before').to.equal(401);
      const devices = await app.call('GET', '/devices', { token: key.body.key });
      expect(devices.status, 'the key of before').to.equal(401);
      const left = await app.call('GET', '/users?limit=100', { token: other.admin.token });
      expect(left.body.data.map((person: { email: string }) => person.email)).not.to.include(email);
      await app.server.chainWriter.flush();
      const [gone] = await inDatabase(
        `select details from audit_logs where action = 'user.delete' and partner_id = ? and resource_name = ?`,
        [other.partnerId, email],
      );
      expect(gone.details).to.include({ reason: 'address_claimed' });
    });

    it('does not keep it by disabling the account', async () => {
      const email = address();
      await squat(email);
      const { data } = (
        await app.call('GET', `/users?search=${encodeURIComponent(email)}`, { token: other.admin.token })
      ).body;
      await app.call('PATCH', `/users/${data[0].id}`, {
        token: other.admin.token,
        body: { status: 'disabled' },
      });
      await invite(tenant.admin, email);
      expect((await accept(tokenIn(await mailbox.newest(email, 2)), OWNER_PASSWORD)).status).to.equal(200);
    });

    it('cannot take an account by a link that was never mailed', async () => {
      const email = address();
      await squat(email);
      const handed = tokenIn((await invite(tenant.admin, email)).body.inviteUrl);
      expect((await accept(handed, OWNER_PASSWORD)).status).to.equal(401);
      const own = await accept(handed, ATTACKER_PASSWORD);
      expect([own.status, own.body.code], 'a member of elsewhere').to.deep.equal([409, 'CONFLICT']);
    });

    it('loses all that was made before a reset by the owner: sessions, keys, second factor, invitations', async () => {
      const email = address();
      const token = await squat(email);
      const key = await app.call('POST', '/api-keys', {
        token,
        body: { name: 'Left behind', scopes: ['devices:read'] },
      });
      const setup = await app.call('POST', '/auth/mfa/setup', {
        token,
        body: { currentPassword: ATTACKER_PASSWORD },
      });
      await app.call('POST', '/auth/mfa/enable', {
        token,
        body: { code: codeOf(setup.body.secret) },
      });
      const accomplice = await app.call('POST', '/users/invite', {
        token,
        body: { name: 'Accomplice', email: address(), roleId: SYSTEM_ROLES.partnerAdmin },
      });
      expect((await reset(email)).status).to.equal(200);
      expect((await app.call('GET', '/devices', { token: key.body.key })).status).to.equal(401);
      expect((await accept(tokenIn(accomplice.body.inviteUrl), PASSWORD)).status).to.equal(404);
      const signedIn = await login(email, OWNER_PASSWORD);
      expect([signedIn.status, signedIn.body.mfaRequired]).to.deep.equal([200, false]);
      // The owner never agreed to that membership, and can end it.
      const left = await app.call('DELETE', '/users/me', { token: signedIn.body.tokens.accessToken });
      expect([left.status, left.body]).to.deep.equal([200, { success: true }]);
    });
  });

  describe('invitations take nothing', () => {
    it('so several tenants may invite one address, and the first that is accepted counts', async () => {
      const email = address();
      expect((await invite(other.admin, email)).status).to.equal(201);
      // Mails may be delivered in another order than they were written.
      await mailbox.newest(email, 1);
      expect((await invite(tenant.admin, email)).status).to.equal(201);
      const newest = tokenIn(await mailbox.newest(email, 2));
      expect((await accept(newest, OWNER_PASSWORD)).status).to.equal(200);
      const again = await invite(other.admin, email);
      expect(again.status, 'the open one stands').to.equal(409);
      const [row] = await inDatabase(
        `select m.partner_id as place from partner_users m join users u on u.id = m.user_id where u.email = ?`,
        [email],
      );
      expect(row.place).to.equal(tenant.partnerId);
    });

    it('and one that has expired is replaced by the next', async () => {
      const email = address();
      const first = (await invite(tenant.admin, email)).body;
      expect((await invite(tenant.admin, email)).status).to.equal(409);
      await inDatabase(`update membership_invitations set expires_at = now() where id = ?`, [first.id]);
      const second = await invite(tenant.admin, email);
      expect(second.status).to.equal(201);
      expect((await accept(tokenIn(first.inviteUrl), OWNER_PASSWORD)).status).to.equal(404);
    });

    it('so a key that was made as a member of one tenant never opens the next', async () => {
      const email = address();
      const first = await invite(other.admin, email, SYSTEM_ROLES.partnerAdmin);
      const token = (await accept(tokenIn(await mailbox.newest(email)), OWNER_PASSWORD)).body.tokens
        .accessToken;
      const { key } = (
        await app.call('POST', '/api-keys', { token, body: { name: 'Old', scopes: ['devices:read'] } })
      ).body;
      expect((await app.call('GET', '/devices', { token: key })).status).to.equal(200);
      await app.call('DELETE', `/users/${first.body.id}`, { token: other.admin.token });
      const next = await invite(tenant.admin, email, SYSTEM_ROLES.partnerAdmin);
      expect((await accept(tokenIn(next.body.inviteUrl), OWNER_PASSWORD)).status).to.equal(200);
      expect((await app.call('GET', '/devices', { token: key })).status).to.equal(401);
    });
  });

  it('an invitation to an account with a second factor asks for that too', async () => {
    const person = await buildPerson(app, { scope: 'partner', partnerId: other.partnerId });
    const { secret, recoveryCodes } = (
      await app.call('POST', '/auth/mfa/setup', { token: person.token, body: { currentPassword: PASSWORD } })
    ).body;
    await app.call('POST', '/auth/mfa/enable', {
      token: person.token,
      body: { code: codeOf(secret) },
    });
    await app.call('DELETE', `/users/${person.id}`, { token: other.admin.token });
    const { inviteUrl } = (await invite(tenant.admin, person.email)).body;
    const half = await accept(tokenIn(inviteUrl), PASSWORD);
    expect([half.status, half.body.mfaRequired, half.body.tokens]).to.deep.equal([200, true, null]);
    const places = () => inDatabase('select 1 from partner_users where user_id = ?', [person.id]);
    expect(await places(), 'not a member yet').to.have.lengthOf(0);
    const { tempToken } = half.body;
    expect((await post('/auth/mfa/verify', { tempToken, code: '000000' })).status).to.equal(401);
    const whole = await post('/auth/mfa/verify', { tempToken, code: recoveryCodes[0] });
    expect(whole.status, JSON.stringify(whole.body)).to.equal(200);
    expect((await me(whole.body.tokens.accessToken)).body.partnerId).to.equal(tenant.partnerId);
    expect((await accept(tokenIn(inviteUrl), PASSWORD)).status, 'used up').to.equal(404);
  });

  describe('a membership that cannot be used does not keep its holder from accepting an invitation', () => {
    const moves = async (email: string) => {
      const { inviteUrl } = (await invite(tenant.admin, email)).body;
      const accepted = await accept(tokenIn(inviteUrl), PASSWORD);
      expect(accepted.status, JSON.stringify(accepted.body)).to.equal(200);
      expect(await placesOf(email)).to.deep.equal([tenant.partnerId]);
    };

    for (const gone of ['deleted_at = now()', "status = 'churned'"]) {
      it(`of a provider with ${gone}`, async () => {
        const ended = await buildTenant(app);
        await inDatabase(`update partners set ${gone} where id = ?`, [ended.partnerId]);
        await moves(ended.admin.email);
        await moves(ended.technician.email);
        await app.server.chainWriter.flush();
        const left = await inDatabase(
          `select details ->> 'reason' as reason from audit_logs where action = 'user.delete' and partner_id = ?`,
          [ended.partnerId],
        );
        expect(left.map(({ reason }: { reason: string }) => reason)).to.deep.equal(
          Array(2).fill('unusable_tenant'),
        );
      });
    }

    it('of an organization that was deleted', async () => {
      const ended = await buildTenant(app);
      await inDatabase(`update organizations set deleted_at = now() where id = ?`, [ended.orgId]);
      await moves(ended.technician.email);
    });

    it('but one of a provider that is suspended for a while does', async () => {
      const suspended = await buildTenant(app);
      await inDatabase(`update partners set status = 'suspended' where id = ?`, [suspended.partnerId]);
      const { inviteUrl } = (await invite(tenant.admin, suspended.admin.email)).body;
      expect((await accept(tokenIn(inviteUrl), PASSWORD)).status).to.equal(409);
      expect(await placesOf(suspended.admin.email)).to.deep.equal([suspended.partnerId]);
    });
  });

  it('a person who leaves takes nothing along, and the last administrator stays', async () => {
    const person = await buildPerson(app, { scope: 'partner', partnerId: other.partnerId });
    expect((await app.call('DELETE', '/users/me', { token: person.token })).status).to.equal(200);
    expect((await me(person.token)).status).to.equal(401);
    const last = await buildTenant(app);
    const token = await signIn(app, last.admin.email);
    expect((await app.call('DELETE', '/users/me', { token })).status).to.equal(409);
  });
});
