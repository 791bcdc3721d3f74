import { expect } from 'chai';
import fc from 'fast-check';
import { passwordFault } from '../../../../src/features/auth/password.service.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildPerson, buildTenant, PASSWORD, signIn, type Person } from '../../../support/factories.ts';
import { eventually } from '../../../support/eventually.ts';
import { createMailbox, tokenIn, type Mailbox } from '../../../support/mailbox.ts';
import { type Answer, createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const NEXT = 'Another-Word-7';

describe('the strength of passwords', () => {
  it('is told by the first thing that is wrong', () => {
    const told: Record<string, string | undefined> = {
      Aa1: 'The password must have at least 8 characters.',
      [`Aa1${'x'.repeat(126)}`]: 'The password must have at most 128 characters.',
      'UPPER-CASE-1': 'The password must contain a lower-case letter.',
      'lower-case-1': 'The password must contain an upper-case letter.',
      'No-Digit-Here': 'The password must contain a digit.',
      'Ünicode-äß-1': undefined,
      [PASSWORD]: undefined,
    };
    for (const [password, fault] of Object.entries(told)) expect(passwordFault(password)).to.equal(fault);
  });

  it('is enough exactly when every rule is kept', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 140, unit: 'grapheme-ascii' }), (password) => {
        const kept =
          password.length >= 8 &&
          password.length <= 128 &&
          /[a-z]/.test(password) &&
          /[A-Z]/.test(password) &&
          /[0-9]/.test(password);
        expect(passwordFault(password) === undefined).to.equal(kept);
      }),
    );
  });
});

describe('passwords and sessions', () => {
  let app: TestApp;
  let mailbox: Mailbox;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let person: Person;

  before(async () => {
    mailbox = await createMailbox();
    app = await createTestApp({ env: { DATA_DIR: mailbox.dataDir } });
    tenant = await buildTenant(app);
  });
  beforeEach(async () => {
    person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
  });
  after(async () => {
    await app.close();
    await mailbox.remove();
  });

  const login = (email: string, password: string) =>
    app.call('POST', '/auth/login', { body: { email, password } });
  const change = (token: string, currentPassword: string, newPassword: string) =>
    app.call('POST', '/auth/change-password', { token, body: { currentPassword, newPassword } });
  const forgot = (email: string) => app.call('POST', '/auth/forgot-password', { body: { email } });
  const reset = (token: string, password = NEXT) =>
    app.call('POST', '/auth/reset-password', { body: { token, password } });
  const status = async (token: string) => (await app.call('GET', '/auth/me', { token })).status;
  const inDatabase = (sql: string, values: readonly string[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values));

  /** Does something to the account in a transaction that ends only when the request waits for it. */
  const meanwhile = async (sql: string, values: readonly string[], request: () => Promise<Answer>) => {
    const answer = withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx.raw(sql, values);
      const sent = request();
      await eventually(
        () =>
          asOwner(
            app.database.ownerUrl,
            `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
          ),
        (waiting) => waiting.length > 0,
      );
      return { sent };
    });
    return (await answer).sent;
  };

  it('are changed with the present one, which ends the other sessions', async () => {
    for (const scope of ['organization', 'system'] as const) {
      const who = scope === 'system' ? await buildPerson(app, { scope }) : person;
      const elsewhere = await signIn(app, who.email);
      expect((await change(who.token, PASSWORD, NEXT)).body).to.deep.equal({ success: true });
      expect([await status(who.token), await status(elsewhere)]).to.deep.equal([200, 401]);
      expect((await login(who.email, PASSWORD)).status).to.equal(401);
      expect((await login(who.email, NEXT)).status).to.equal(200);
    }
    expect(await status(tenant.admin.token), 'someone else').to.equal(200);
  });

  it('are not changed without the present one, nor to a weak one', async () => {
    const wrong = await change(person.token, 'Wrong-Word-1', NEXT);
    expect([wrong.status, wrong.body.details[0].path]).to.deep.equal([400, 'body.currentPassword']);
    const weak = await change(person.token, PASSWORD, 'lower-case-1');
    expect([weak.status, weak.body.error, weak.body.details[0].path]).to.deep.equal([
      400,
      'The password must contain an upper-case letter.',
      'body.newPassword',
    ]);
    expect((await login(person.email, PASSWORD)).status).to.equal(200);
  });

  it('cannot be guessed at with a stolen access token', async () => {
    const statuses = [];
    for (let n = 0; n < 11; n++) statuses.push((await change(person.token, `Guess-No-${n}`, NEXT)).status);
    expect(statuses).to.deep.equal([...Array(10).fill(400), 429]);
    const other = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    expect((await change(other.token, PASSWORD, NEXT)).status).to.equal(200);
  });

  it('that are changed twice at once end as one of the two', async () => {
    const answers = await Promise.all([
      change(person.token, PASSWORD, NEXT),
      change(person.token, PASSWORD, `${NEXT}-b`),
    ]);
    expect(answers.filter((answer) => answer.status === 200)).to.have.lengthOf(1);
  });

  it('that were forgotten are reset once by a link, which ends all sessions', async () => {
    expect((await forgot(person.email.toUpperCase())).body).to.deep.equal({ success: true });
    const mail = await mailbox.newest(person.email);
    expect(mail).to.contain(`${app.url}/reset-password#token=`);
    const token = tokenIn(mail);
    const weak = await reset(token, 'weak');
    expect([weak.status, weak.body.details[0].path]).to.deep.equal([400, 'body.password']);

    const answers = await Promise.all([reset(token), reset(token), reset(token)]);
    expect(answers.map((answer) => answer.status).sort((a, b) => a - b)).to.deep.equal([200, 400, 400]);
    expect((await reset(token)).body.details[0].path).to.equal('body.token');
    expect(await status(person.token)).to.equal(401);
    expect((await login(person.email, PASSWORD)).status).to.equal(401);
    expect((await login(person.email, NEXT)).status).to.equal(200);
    expect(await mailbox.newest(person.email, 2)).to.contain('Your API keys have been revoked');
    expect((await mailbox.files()).length, 'nothing for the resets that failed').to.equal(2);
    expect(JSON.stringify(app.log)).not.to.contain(token);
    const { rows } = await inDatabase('select token_hash from password_resets', []);
    expect(JSON.stringify(rows)).not.to.contain(token);
  });

  it('that are reset by a link prove the address, once', async () => {
    const verifiedAt = async () => {
      const { rows } = await inDatabase('select email_verified_at as at from users where id = ?', [
        person.id,
      ]);
      return rows[0].at as Date | null;
    };
    const resetByLink = async (count: number) => {
      await forgot(person.email);
      expect((await reset(tokenIn(await mailbox.newest(person.email, count)))).status).to.equal(200);
    };
    await inDatabase('update users set email_verified_at = null where id = ?', [person.id]);
    await resetByLink(1);
    const proved = await verifiedAt();
    expect(proved).to.be.instanceOf(Date);
    await resetByLink(3);
    expect(await verifiedAt()).to.deep.equal(proved);
  });

  it('have links that end after an hour, with a change of the password and with the person', async () => {
    await forgot(person.email);
    const expired = tokenIn(await mailbox.newest(person.email));
    const { rows } = await inDatabase(
      `update password_resets set expires_at = now() where user_id = ?
        returning extract(epoch from expires_at - created_at)::int as seconds`,
      [person.id],
    );
    expect(rows[0].seconds).to.be.lessThan(60);
    expect((await reset(expired)).status, 'expired').to.equal(400);

    await forgot(person.email);
    const old = tokenIn(await mailbox.newest(person.email, 2));
    await change(person.token, PASSWORD, NEXT);
    expect((await reset(old)).status, 'changed since').to.equal(400);

    await forgot(person.email);
    const { rows: fresh } = await eventually(
      () =>
        inDatabase(
          `select extract(epoch from expires_at - created_at)::int as seconds from password_resets where user_id = ?`,
          [person.id],
        ),
      (answer) => answer.rows.length === 1,
    );
    expect(fresh[0].seconds).to.equal(3600);
    const last = tokenIn(await mailbox.newest(person.email, 3));
    await inDatabase(`update users set status = 'disabled' where id = ?`, [person.id]);
    expect((await reset(last)).status, 'disabled').to.equal(400);
    expect((await reset('nonsense')).status).to.equal(400);
  });

  it('count at the moment when a session or a key is made, and not when the request came', async () => {
    const signedIn = await meanwhile(
      `update users set password_hash = 'another' where id = ?`,
      [person.id],
      () => login(person.email, PASSWORD),
    );
    expect([signedIn.status, signedIn.body.code]).to.deep.equal([401, 'UNAUTHENTICATED']);
    const made = await meanwhile(
      `update sessions set revoked_at = now() where user_id = ?`,
      [person.id],
      () =>
        app.call('POST', '/api-keys', {
          token: person.token,
          body: { name: 'Late', scopes: ['devices:read'] },
        }),
    );
    expect([made.status, made.body.code]).to.deep.equal([401, 'UNAUTHENTICATED']);
    const { rows } = await inDatabase('select 1 from api_keys where created_by = ?', [person.id]);
    expect(rows).to.have.lengthOf(0);
  });

  it('are not reset for a person who is disabled in the same moment', async () => {
    await forgot(person.email);
    const token = tokenIn(await mailbox.newest(person.email));
    const answer = await meanwhile(`update users set status = 'disabled' where id = ?`, [person.id], () =>
      reset(token),
    );
    expect([answer.status, answer.body.details?.[0].path]).to.deep.equal([400, 'body.token']);
    const { rows } = await inDatabase(`select 1 from sessions where user_id = ? and revoked_at is null`, [
      person.id,
    ]);
    expect(rows, 'nothing of the reset is kept').to.have.lengthOf(1);
  });

  it('do not reveal which addresses have an account: the same answers, and the same limit', async () => {
    const gone = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    await inDatabase(`update users set status = 'disabled' where id = ?`, [gone.id]);
    const known = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    const before = (await mailbox.files()).length;
    for (const email of [known.email, 'nobody@example.com', gone.email]) {
      for (let time = 1; time <= 3; time++) {
        const { status, body } = await forgot(email);
        expect([status, body], email).to.deep.equal([200, { success: true }]);
      }
      const fourth = await forgot(email.toUpperCase());
      expect([fourth.status, fourth.body.code], email).to.deep.equal([429, 'RATE_LIMITED']);
    }
    await mailbox.newest(known.email, 3);
    expect((await mailbox.files()).length - before).to.equal(3);
  });

  it('show and end one’s own sessions, and nobody else’s', async () => {
    const second = await signIn(app, person.email);
    const third = await signIn(app, person.email);
    const { body } = await app.call('GET', '/auth/sessions', { token: person.token });
    expect(body.data).to.have.lengthOf(3);
    expect(body.pagination).to.deep.equal({ page: 1, limit: 50, total: 3 });
    const page = await app.call('GET', '/auth/sessions?limit=2&page=2', { token: person.token });
    expect([page.body.data.length, page.body.pagination.total]).to.deep.equal([1, 3]);
    expect(body.data.filter(({ current }: { current: boolean }) => current)).to.have.lengthOf(1);
    expect(body.data[0]).to.include.keys('createdAt', 'lastUsedAt', 'expiresAt', 'ipAddress', 'userAgent');

    const own = (await app.call('GET', '/auth/sessions', { token: second })).body.data.find(
      ({ current }: { current: boolean }) => current,
    ).id;
    for (const token of [tenant.admin.token, tenant.technician.token]) {
      expect((await app.call('DELETE', `/auth/sessions/${own}`, { token })).status).to.equal(404);
    }
    const end = () => app.call('DELETE', `/auth/sessions/${own}`, { token: person.token });
    expect((await end()).body).to.deep.equal({ success: true });
    expect((await end()).status).to.equal(404);
    expect([await status(person.token), await status(second), await status(third)]).to.deep.equal([
      200, 401, 200,
    ]);
    const others = await app.call('DELETE', '/auth/sessions', { token: person.token });
    expect(others.body).to.deep.equal({ success: true, ended: 1 });
    expect([await status(person.token), await status(third), await status(tenant.admin.token)]).to.deep.equal(
      [200, 401, 200],
    );
    expect((await app.call('DELETE', `/auth/sessions/${newId()}`, { token: person.token })).status).to.equal(
      404,
    );
  });

  it('never reach the log', () => {
    const text = JSON.stringify(app.log);
    for (const password of [PASSWORD, NEXT]) expect(text).not.to.contain(password);
  });
});
