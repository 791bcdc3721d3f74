import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { withSystem } from '../../../../../src/platform/db/transaction.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildOrganization, buildPerson, buildTenant, PASSWORD } from '../../../../support/factories.ts';
import { createMailbox, tokenIn, type Mailbox } from '../../../../support/mailbox.ts';
import { type Answer, createTestApp, type TestApp } from '../../../../support/test-app.ts';
import { asOwner } from '../../../../support/test-postgres.ts';
import { enableSecondFactor } from '../../../../support/auth/second-factor-support.ts';
import { query } from '../../../../support/sso/sso-support.ts';
import {
  enforceFor,
  entriesOf,
  openSessionBy,
} from '../../../../support/sso/enforcement/enforcement-support.ts';

const NEXT = 'Another-Word-7';

describe('enforced single sign-on', () => {
  let app: TestApp;
  let mailbox: Mailbox;
  let partnerId: string;
  let orgId: string;
  before(async () => {
    mailbox = await createMailbox();
    app = await createTestApp({ env: { DATA_DIR: mailbox.dataDir } });
  });
  beforeEach(async () => {
    ({ partnerId, orgId } = await buildTenant(app));
  });
  after(async () => {
    await app.close();
    await mailbox.remove();
  });

  const post = (path: string, body: object, token?: string) => app.call('POST', path, { body, token });
  const login = (email: string, password = PASSWORD) => post('/auth/login', { email, password });
  const member = (role?: string) =>
    buildPerson(app, { scope: 'organization', orgId, ...(role === undefined ? {} : { role }) });
  const colleague = (role?: string) =>
    buildPerson(app, { scope: 'partner', partnerId, ...(role === undefined ? {} : { role }) });
  const enforce = (isEnforced: boolean) =>
    query(app, 'update sso_providers set enforce_sso = ? where coalesce(org_id, partner_id) in (?, ?)', [
      isEnforced,
      orgId,
      partnerId,
    ]);
  const expectRefused = (answer: Answer, loginUrl: string) => {
    expect([answer.status, answer.body.code]).to.deep.equal([403, 'SSO_REQUIRED']);
    expect(answer.body.details).to.deep.equal({ loginUrl: `${app.url}${loginUrl}` });
    expect(answer.body.error).to.equal('Your account requires single sign-on. Sign in with Acme Login.');
    expect(answer.headers.getSetCookie()).to.deep.equal([]);
  };
  /** Until every mail that was asked for is written, or is known not to be. */
  const mailsDone = () =>
    eventually(
      () =>
        query(
          app,
          `select 1 from background_jobs where name in ('auth.mail-reset-link', 'mail.send') and state <> 'succeeded'`,
        ),
      (waiting) => waiting.length === 0,
    );
  const ofOrganization = () => `/api/v1/sso/login/${orgId}`;

  describe('refuses the correct password', () => {
    it('of the members of the organization, and of nobody else', async () => {
      await enforceFor(app, { org_id: orgId });
      const elsewhere = await buildOrganization(app, partnerId);
      expectRefused(await login((await member()).email), ofOrganization());
      const others = [
        await colleague(),
        await buildPerson(app, { scope: 'organization', orgId: elsewhere }),
        await buildPerson(app, { scope: 'system' }),
      ];
      for (const { email } of others) expect((await login(email)).status).to.equal(200);
    });

    it('of the people of the partner, and not of those of its organizations', async () => {
      await enforceFor(app, { partner_id: partnerId });
      expectRefused(await login((await colleague()).email), `/api/v1/sso/login/partner/${partnerId}`);
      expect((await login((await member()).email)).status).to.equal(200);
    });

    it('only while the provider is active and enforced', async () => {
      const { email } = await member();
      for (const row of [{ status: 'testing' }, { status: 'inactive' }, { enforce_sso: false }]) {
        await enforceFor(app, { org_id: orgId }, [], row);
        expect((await login(email)).status, JSON.stringify(row)).to.equal(200);
      }
    });

    it('and reveals nothing to a person who does not know it', async () => {
      await enforceFor(app, { org_id: orgId });
      const { email } = await member();
      const answers = [await login(email, 'Wrong-Word-1'), await login('nobody@example.com', 'Wrong-Word-1')];
      const seen = answers.map(({ status, body }) => [status, body.code, body.error, body.details]);
      expect(seen[0]).to.deep.equal(seen[1]);
      expect(seen[0]![0]).to.equal(401);
    });

    it('and audits the refusal with its reason', async () => {
      await enforceFor(app, { org_id: orgId });
      const person = await member();
      await login(person.email);
      const entries = await eventually(
        () => entriesOf(app, 'user.login.failed', person.id),
        ({ length }) => length > 0,
      );
      expect(entries).to.deep.equal([
        {
          org_id: orgId,
          partner_id: null,
          resource_id: person.id,
          details: { reason: 'sso_required' },
          result: 'failure',
        },
      ]);
    });

    it('of a person with a second factor before it asks for the code', async () => {
      const person = await member();
      await enableSecondFactor(app, person);
      await enforceFor(app, { org_id: orgId });
      expectRefused(await login(person.email), ofOrganization());
    });

    it('if enforcement begins between password and code', async () => {
      const person = await member();
      const factor = await enableSecondFactor(app, person);
      const { tempToken } = (await login(person.email)).body;
      await enforceFor(app, { org_id: orgId });
      expectRefused(await post('/auth/mfa/verify', { tempToken, code: factor.code() }), ofOrganization());
      await enforce(false);
      const again = await post('/auth/mfa/verify', { tempToken, code: factor.code(1) });
      expect(again.status, 'the attempt is used up').to.equal(401);
    });

    it('if enforcement begins after the password was checked', async () => {
      const person = await member();
      await enforceFor(app, { org_id: orgId }, [], { enforce_sso: false });
      // The sign-in waits for this transaction, which ends after enforcement has begun.
      const { sent } = await withSystem(app.server.database.pool, 'test', async (tx) => {
        await tx.raw('select 1 from users where id = ? for update', [person.id]);
        const sent = login(person.email);
        await eventually(
          () =>
            asOwner(
              app.database.ownerUrl,
              `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
            ),
          (waiting) => waiting.length > 0,
        );
        await enforce(true);
        return { sent };
      });
      expectRefused(await sent, ofOrganization());
      expect(await query(app, 'select 1 from sessions where user_id = ?', [person.id])).to.have.lengthOf(1);
    });
  });

  it('leaves open sessions and API keys as they are', async () => {
    const person = await member();
    const opened = await login(person.email);
    const cookie = opened.headers.getSetCookie()[0]?.split(';')[0] ?? '';
    const key = await post('/api-keys', { name: 'Robot', scopes: ['devices:read'] }, person.token);
    await enforceFor(app, { org_id: orgId });
    expect((await app.call('GET', '/auth/me', { token: person.token })).status).to.equal(200);
    expect((await app.call('POST', '/auth/refresh', { headers: { cookie } })).status).to.equal(200);
    expect((await app.call('GET', '/devices', { token: key.body.key })).status).to.equal(200);
  });

  describe('lets a break-glass person in by password', () => {
    it('of an organization, audits it and raises an alert', async () => {
      const person = await member();
      const providerId = await enforceFor(app, { org_id: orgId }, [person]);
      for (let n = 0; n < 2; n++) expect((await login(person.email)).status).to.equal(200);
      expectRefused(await login((await member()).email), ofOrganization());

      const entries = await entriesOf(app, 'sso.break_glass', person.id);
      const sessions = await query<{ id: string }>(
        app,
        `select id from sessions where user_id = ? order by created_at desc limit 2`,
        [person.id],
      );
      expect(entries).to.deep.equal(
        sessions.reverse().map(({ id: sessionId }) => ({
          org_id: orgId,
          partner_id: null,
          resource_id: providerId,
          details: { sessionId, mfa: false },
          result: 'success',
        })),
      );
      const alerts = await query(
        app,
        `select kind, severity, status, count, title, details ->> 'userId' as who from alerts where org_id = ?`,
        [orgId],
      );
      expect(alerts).to.deep.equal([
        {
          kind: 'sso_break_glass',
          severity: 'high',
          status: 'active',
          count: 2,
          title: `${person.email} signed in without Acme Login`,
          who: person.id,
        },
      ]);
    });

    it('of a partner, audits it and sends a mail to all active administrators', async () => {
      const [person, other, disabled] = [await colleague(), await colleague(), await colleague()];
      const viewer = await colleague(SYSTEM_ROLES.partnerViewer);
      await query(app, `update users set status = 'disabled' where id = ?`, [disabled.id]);
      await enforceFor(app, { partner_id: partnerId }, [person]);
      expect((await login(person.email)).status).to.equal(200);
      expect(await entriesOf(app, 'sso.break_glass', person.id)).to.have.lengthOf(1);
      for (const { email } of [person, other]) {
        const mail = await mailbox.newest(email);
        expect(mail).to.contain(`Subject: ${person.email} signed in without Acme Login`);
        expect(mail).to.contain('signed in from 127.0.0.1');
      }
      await mailsDone();
      const all = JSON.stringify(await mailbox.all());
      for (const { email } of [disabled, viewer]) expect(all).not.to.contain(`To: ${email}`);
    });

    it('with the second factor, as always', async () => {
      const person = await member();
      const factor = await enableSecondFactor(app, person);
      await enforceFor(app, { org_id: orgId }, [person]);
      const begun = await login(person.email);
      expect(begun.body.mfaRequired).to.equal(true);
      const { tempToken } = begun.body;
      expect((await post('/auth/mfa/verify', { tempToken, code: '000000' })).status).to.equal(401);
      expect(await entriesOf(app, 'sso.break_glass', person.id), 'not in yet').to.deep.equal([]);
      expect((await post('/auth/mfa/verify', { tempToken, code: factor.code() })).status).to.equal(200);
      const [entry] = await entriesOf(app, 'sso.break_glass', person.id);
      expect(entry?.details).to.include({ mfa: true });
    });

    it('for as long as the person is a member, and is named', async () => {
      const person = await member();
      const providerId = await enforceFor(app, { org_id: orgId }, [person]);
      await query(app, `update sso_providers set break_glass_user_ids = '{}' where id = ?`, [providerId]);
      expectRefused(await login(person.email), ofOrganization());
      await query(app, `update sso_providers set break_glass_user_ids = array[?::uuid] where id = ?`, [
        person.id,
        providerId,
      ]);
      expect((await login(person.email)).status).to.equal(200);
      // Somewhere else, where another provider is enforced.
      const elsewhere = await buildOrganization(app, partnerId);
      await enforceFor(app, { org_id: elsewhere });
      await query(app, 'update organization_users set org_id = ? where user_id = ?', [elsewhere, person.id]);
      expectRefused(await login(person.email), `/api/v1/sso/login/${elsewhere}`);
    });
  });

  describe('holds for invitations: who accepts one becomes a member and signs in with the provider', () => {
    const invite = async (email: string) => {
      const admin = await member();
      const answer = await post(
        '/users/invite',
        { email, name: 'New', roleId: SYSTEM_ROLES.organizationViewer, orgId },
        admin.token,
      );
      expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
      return tokenIn(answer.body.inviteUrl);
    };
    const membership = (email: string) =>
      query(
        app,
        'select org_id from organization_users m join users u on u.id = m.user_id where lower(u.email) = lower(?)',
        [email],
      );

    it('with a new account', async () => {
      await enforceFor(app, { org_id: orgId });
      const email = `new-${orgId}@example.com`;
      const token = await invite(email);
      expectRefused(await post('/auth/accept-invite', { token, password: NEXT }), ofOrganization());
      expect(await membership(email)).to.deep.equal([{ org_id: orgId }]);
      expect((await post('/auth/accept-invite', { token, password: NEXT })).status).to.equal(404);
    });

    it('with an account that was a member of another tenant', async () => {
      const person = await colleague();
      await query(app, 'delete from partner_users where user_id = ?', [person.id]);
      await enforceFor(app, { org_id: orgId });
      const token = await invite(person.email);
      const wrong = await post('/auth/accept-invite', { token, password: 'Wrong-Word-1' });
      expect(wrong.status).to.equal(401);
      expectRefused(await post('/auth/accept-invite', { token, password: PASSWORD }), ofOrganization());
      expect(await membership(person.email)).to.deep.equal([{ org_id: orgId }]);
      expect(await query(app, 'select 1 from sessions where user_id = ?', [person.id])).to.have.lengthOf(1);
    });
  });

  describe('holds for passwords that are set by mail', () => {
    const forgot = (email: string) => post('/auth/forgot-password', { email });

    it('whose links are sent to break-glass people only, while the answer is the same for all', async () => {
      const [governed, named] = [await member(), await member()];
      await enforceFor(app, { org_id: orgId }, [named]);
      const answers = [
        await forgot(governed.email),
        await forgot(named.email),
        await forgot('nobody@example.com'),
      ];
      for (const { status, body } of answers) expect([status, body]).to.deep.equal([200, { success: true }]);
      expect(tokenIn(await mailbox.newest(named.email))).to.match(/[\w-]{43}/);
      await mailsDone();
      expect(JSON.stringify(await mailbox.all())).not.to.contain(`To: ${governed.email}`);
      expect(
        await query(app, 'select 1 from password_resets where user_id = ?', [governed.id]),
      ).to.deep.equal([]);
    });

    it('and refuses a link that was sent before', async () => {
      const person = await member();
      await forgot(person.email);
      const token = tokenIn(await mailbox.newest(person.email));
      const providerId = await enforceFor(app, { org_id: orgId });
      expectRefused(await post('/auth/reset-password', { token, password: NEXT }), ofOrganization());
      expect((await app.call('GET', '/auth/me', { token: person.token })).status, 'nothing ends').to.equal(
        200,
      );
      await query(app, 'update sso_providers set break_glass_user_ids = array[?::uuid] where id = ?', [
        person.id,
        providerId,
      ]);
      expect((await post('/auth/reset-password', { token, password: NEXT })).status).to.equal(200);
    });
  });

  it('governs a person by their own tenant, whatever other tenants enforce', async () => {
    const other = await buildTenant(app);
    const person = await member();
    await enforceFor(app, { org_id: other.orgId }, [person]);
    await enforceFor(app, { partner_id: other.partnerId }, [person]);
    expect((await login(person.email)).status).to.equal(200);
    expect(await entriesOf(app, 'sso.break_glass', person.id), 'no exception is needed').to.deep.equal([]);
    expect(await query(app, 'select 1 from alerts where org_id = ?', [other.orgId])).to.deep.equal([]);
  });

  it('says nothing against a session that was opened with the provider', async () => {
    const person = await member();
    const { token } = await openSessionBy(app, person, await enforceFor(app, { org_id: orgId }));
    expect((await app.call('GET', '/auth/me', { token })).status).to.equal(200);
  });
});
