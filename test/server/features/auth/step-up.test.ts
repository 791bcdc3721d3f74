import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { eventually } from '../../../support/eventually.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { buildPerson, buildTenant, PASSWORD, type Person, signIn } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { entriesOf, openSessionBy } from '../../../support/sso/enforcement/enforcement-support.ts';
import { insertProvider, query } from '../../../support/sso/sso-support.ts';
import { codeOf, enableSecondFactor, forgetLastCode } from '../../../support/auth/second-factor-support.ts';

/** Single sign-on opens sessions without a second factor of ours. */
describe('the second factor of a session that a provider has opened', () => {
  let app: TestApp;
  let orgId: string;
  let providerId: string;
  let person: Person;
  before(async () => {
    app = await sharedTestApp();
    ({ orgId } = await buildTenant(app));
    providerId = await insertProvider(app, { org_id: orgId });
  });
  beforeEach(async () => {
    person = await buildPerson(app, { scope: 'organization', orgId });
  });
  after(async () => app.close());

  const post = (path: string, body: object, token: string) => app.call('POST', path, { body, token });
  const stepUp = (code: string, token: string) => post('/auth/mfa/step-up', { code }, token);
  const openSession = () => openSessionBy(app, person, providerId);
  const hasFactor = async (sessionId: string) =>
    (await query<{ mfa: boolean }>(app, 'select mfa from session_holder(?)', [sessionId]))[0]?.mfa;
  const claims = (token: string) =>
    JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());

  /** Sends a request, and ends the session in the moment in which that needs it. */
  const whileItEnds = async (sessionId: string, send: () => ReturnType<typeof post>) => {
    const { sent } = await withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx.raw('update sessions set revoked_at = now() where id = ?', [sessionId]);
      let isAnswered = false;
      const request = send().finally(() => {
        isAnswered = true;
      });
      const waiting = () =>
        asOwner(
          app.database.ownerUrl,
          `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
        );
      await eventually(
        async () => isAnswered || (await waiting()).length > 0,
        (isSo) => isSo,
      );
      return { sent: request };
    });
    return sent;
  };

  it('is added with a code, to this session and to no other', async () => {
    const factor = await enableSecondFactor(app, person);
    const [session, other] = [await openSession(), await openSession()];
    const answer = await stepUp(factor.code(), session.token);
    expect(answer.status).to.equal(200);
    expect(answer.body).to.have.all.keys('accessToken', 'expiresInSeconds');
    expect(claims(answer.body.accessToken)).to.include({ sid: session.sessionId, mfa: true });
    expect((await app.call('GET', '/auth/me', { token: answer.body.accessToken })).status).to.equal(200);
    expect([await hasFactor(session.sessionId), await hasFactor(other.sessionId)]).to.deep.equal([
      true,
      false,
    ]);
    expect(await entriesOf(app, 'user.mfa_step_up', person.id)).to.deep.include({
      org_id: orgId,
      partner_id: null,
      resource_id: person.id,
      details: {},
      result: 'success',
    });
    expect((await stepUp(factor.code(), other.token)).status, 'a code works once').to.equal(401);
  });

  it('is not added to a session that ends meanwhile', async () => {
    const factor = await enableSecondFactor(app, person);
    const { sessionId, token } = await openSession();
    const answer = await whileItEnds(sessionId, () => stepUp(factor.code(), token));
    expect(answer.status).to.equal(401);
    expect(await query(app, 'select mfa from sessions where id = ?', [sessionId])).to.deep.equal([
      { mfa: false },
    ]);
  });

  it('opens the routes that require it', async () => {
    const factor = await enableSecondFactor(app, person);
    const { token } = await openSession();
    const proveDomain = () => post('/sso/domains', { orgId, domain: 'not a domain' }, token);
    const before = await proveDomain();
    expect([before.status, before.body.code]).to.deep.equal([403, 'MFA_REQUIRED']);
    expect((await stepUp(factor.code(), token)).status).to.equal(200);
    expect((await proveDomain()).status, 'the domain is wrong, the session is not').to.equal(400);
  });

  it('goes with the second factor of the account', async () => {
    const factor = await enableSecondFactor(app, person);
    const { sessionId, token } = await openSession();
    await stepUp(factor.code(), token);
    await forgetLastCode(app, person);
    const body = { currentPassword: PASSWORD, code: factor.code() };
    expect((await post('/auth/mfa/disable', body, token)).status).to.equal(200);
    expect(await hasFactor(sessionId)).to.equal(false);
  });

  it('is not added without one, by a wrong code, to an ended session or for an API key', async () => {
    const none = await stepUp('123456', (await openSession()).token);
    expect([none.status, none.body.code]).to.deep.equal([409, 'CONFLICT']);
    const factor = await enableSecondFactor(app, person);
    const { sessionId, token } = await openSession();
    expect((await stepUp('000000', token)).status).to.equal(401);
    expect(await hasFactor(sessionId)).to.equal(false);
    const key = await post('/api-keys', { name: 'Robot', scopes: ['devices:read'] }, token);
    expect((await stepUp(factor.code(), key.body.key)).status).to.equal(403);
    await query(app, 'update sessions set revoked_at = now() where id = ?', [sessionId]);
    expect((await stepUp(factor.code(), token)).status).to.equal(401);
  });

  it('cannot be guessed at', async () => {
    const factor = await enableSecondFactor(app, person);
    const { sessionId, token } = await openSession();
    const statuses = [];
    for (let n = 0; n < 10; n++) statuses.push((await stepUp('000000', token)).status);
    statuses.push((await stepUp(factor.code(), token)).status);
    expect(statuses).to.deep.equal([...Array(10).fill(401), 429]);
    expect(await hasFactor(sessionId)).to.equal(false);
  });

  it('is added once by two requests with the same code', async () => {
    const factor = await enableSecondFactor(app, person);
    const sessions = [await openSession(), await openSession()];
    const code = factor.code();
    const answers = await Promise.all(sessions.map(({ token }) => stepUp(code, token)));
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).to.deep.equal([200, 401]);
  });

  describe('of an account without a password', () => {
    beforeEach(() => query(app, 'update users set password_hash = null where id = ?', [person.id]));

    const age = (sessionId: string, minutes: number) =>
      query(app, `update sessions set created_at = now() - make_interval(secs => ?) where id = ?`, [
        minutes * 60,
        sessionId,
      ]);

    it('is set up, renewed and disabled after a fresh sign-in with the provider', async () => {
      const { sessionId, token } = await openSession();
      await age(sessionId, 9.8);
      const setup = await post('/auth/mfa/setup', {}, token);
      expect(setup.status, JSON.stringify(setup.body)).to.equal(200);
      const { secret } = setup.body;
      const code = async () => {
        await forgetLastCode(app, person);
        return codeOf(secret);
      };
      expect((await post('/auth/mfa/enable', { code: await code() }, token)).status).to.equal(200);
      expect((await post('/auth/mfa/recovery-codes', { code: await code() }, token)).status).to.equal(200);
      expect((await stepUp(await code(), token)).status).to.equal(200);
      expect((await post('/auth/mfa/disable', { code: '000000' }, token)).status).to.equal(401);
      expect((await post('/auth/mfa/disable', { code: await code() }, token)).status).to.equal(200);
    });

    it('is not touched by an older session, or by one that was opened by password', async () => {
      const { sessionId, token } = await openSession();
      const setup = await post('/auth/mfa/setup', {}, token);
      const { secret } = setup.body;
      expect((await post('/auth/mfa/enable', { code: codeOf(secret) }, token)).status).to.equal(200);
      await forgetLastCode(app, person);
      await age(sessionId, 10);
      for (const session of [token, person.token]) {
        for (const path of ['/auth/mfa/disable', '/auth/mfa/recovery-codes']) {
          const { status, body } = await post(path, { code: codeOf(secret) }, session);
          expect([status, body.error]).to.deep.equal([
            401,
            'Your account has no password. Sign in again with single sign-on and repeat this within 10 minutes.',
          ]);
        }
      }
      const fresh = await openSession();
      expect((await post('/auth/mfa/disable', { code: codeOf(secret) }, fresh.token)).status).to.equal(200);
      expect((await post('/auth/mfa/setup', {}, token)).status, 'set up').to.equal(401);
    });

    it('is not disabled by a session that ends meanwhile, although the code is right', async () => {
      const { sessionId, token } = await openSession();
      const { secret } = (await post('/auth/mfa/setup', {}, token)).body;
      expect((await post('/auth/mfa/enable', { code: codeOf(secret) }, token)).status).to.equal(200);
      await forgetLastCode(app, person);
      const answer = await whileItEnds(sessionId, () =>
        post('/auth/mfa/disable', { code: codeOf(secret) }, token),
      );
      expect(answer.status).to.equal(401);
      const kept = await query(app, 'select mfa_enabled from users where id = ?', [person.id]);
      expect(kept).to.deep.equal([{ mfa_enabled: true }]);
    });

    it('does not accept any password', async () => {
      const { token } = await openSession();
      expect((await post('/auth/mfa/setup', { currentPassword: PASSWORD }, token)).status).to.equal(401);
    });

    it('is not changed if the account has just been given a password', async () => {
      const { token } = await openSession();
      const setup = await post('/auth/mfa/setup', {}, token);
      await post('/auth/mfa/enable', { code: codeOf(setup.body.secret) }, token);
      await forgetLastCode(app, person);
      await query(app, `update users set password_hash = 'set by a link' where id = ?`, [person.id]);
      const answer = await post('/auth/mfa/disable', { code: codeOf(setup.body.secret) }, token);
      expect([answer.status, answer.body.details?.[0]?.path]).to.deep.equal([400, 'body.currentPassword']);
    });
  });

  it('of an account with a password always needs the password', async () => {
    const factor = await enableSecondFactor(app, person);
    for (const token of [(await openSession()).token, person.token]) {
      for (const path of ['/auth/mfa/disable', '/auth/mfa/recovery-codes']) {
        const { status, body } = await post(path, { code: factor.code() }, token);
        expect([status, body.code, body.details[0]]).to.deep.equal([
          400,
          'VALIDATION_FAILED',
          { path: 'body.currentPassword', message: 'is required' },
        ]);
      }
    }
    const other = await buildPerson(app, { scope: 'organization', orgId });
    const { status } = await post('/auth/mfa/setup', {}, (await openSessionBy(app, other, providerId)).token);
    expect(status).to.equal(400);
    expect(await signIn(app, other.email)).to.be.a('string');
  });
});
