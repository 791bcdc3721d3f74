import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildTenant, PASSWORD } from '../../../support/factories.ts';
import { createMailbox, tokenIn, type Mailbox } from '../../../support/mailbox.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

/** Each address as an inviter may write it, the form in which it is stored, and another way to write it. */
const ADDRESSES = [
  ['user@MÜNCHEN.de', 'user@münchen.de', 'User@xn--mnchen-3ya.de', 'user@xn--mnchen-3ya.de'],
  [
    'ju\u0308rgen@example.com',
    'j\u00fcrgen@example.com',
    'J\u00dcRGEN@EXAMPLE.COM',
    'j\u00fcrgen@example.com',
  ],
  ['почта@пример.рф', 'почта@пример.рф', 'ПОЧТА@xn--e1afmkfd.xn--p1ai', 'почта@пример.рф'],
] as const;

describe('internationalized addresses', () => {
  let app: TestApp;
  let mailbox: Mailbox;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    mailbox = await createMailbox();
    app = await createTestApp({ env: { DATA_DIR: mailbox.dataDir } });
    tenant = await buildTenant(app);
  });
  after(async () => {
    await app.close();
    await mailbox.remove();
  });

  const invite = (email: string) =>
    app.call('POST', '/users/invite', {
      token: tenant.admin.token,
      body: { email, name: 'Guest', roleId: SYSTEM_ROLES.partnerViewer },
    });
  const login = (email: string, password = PASSWORD) =>
    app.call('POST', '/auth/login', { body: { email, password } });
  const inDatabase = (sql: string, values: readonly (string | null)[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values));

  for (const [written, stored, other, mailed] of ADDRESSES) {
    it(`sign ${stored} in by each form after an invitation, which is mailed`, async () => {
      const invited = await invite(written);
      expect(invited.status, JSON.stringify(invited.body)).to.equal(201);
      expect(invited.body.email).to.equal(stored);
      expect((await invite(other)).status).to.equal(409);
      const mail = await mailbox.newest(mailed);
      const accepted = await app.call('POST', '/auth/accept-invite', {
        body: { token: tokenIn(mail), password: PASSWORD },
      });
      expect(accepted.status, JSON.stringify(accepted.body)).to.equal(200);
      for (const form of [written, other]) expect((await login(form)).status, form).to.equal(200);
      const again = await invite(other);
      expect(again.status).to.equal(409);
      expect(JSON.stringify(again.body)).to.contain('already a member');
      const found = await app.call('GET', `/users?search=${encodeURIComponent(stored)}`, {
        token: tenant.admin.token,
      });
      expect(found.body.pagination.total).to.equal(1);
    });
  }

  it('reset a password by any form, with a mail to the stored one', async () => {
    expect(
      (await app.call('POST', '/auth/forgot-password', { body: { email: ADDRESSES[0][2] } })).status,
    ).to.equal(200);
    const mail = await mailbox.newest(ADDRESSES[0][3], 1, 'reset-password');
    const password = 'Another-1-Password';
    const reset = await app.call('POST', '/auth/reset-password', {
      body: { token: tokenIn(mail), password },
    });
    expect(reset.status).to.equal(200);
    expect((await login(ADDRESSES[0][0], password)).status).to.equal(200);
  });

  it('are registered once, in whichever form', async () => {
    const register = (email: string) =>
      app.call('POST', '/auth/register-partner', {
        body: { companyName: 'Bücher', name: 'Ada', email, password: PASSWORD, acceptTerms: true },
      });
    expect((await register('ada@straße.example')).body.user.email).to.equal('ada@straße.example');
    expect((await register('Ada@xn--strae-oqa.example')).body).to.include({ success: true });
  });

  it('find an account whose domain was stored in ASCII, and make no second one beside it', async () => {
    const id = newId();
    const { rows } = await inDatabase(
      `insert into users (id, email, name, password_hash, status, email_verified_at)
      select ?, 'Old@xn--mnchen-3ya.example', 'Old', password_hash, 'active', now() from users where email = ? returning id`,
      [id, ADDRESSES[1][1]],
    );
    expect(rows).to.have.length(1);
    await invite('old@münchen.example');
    const mail = await mailbox.newest('old@xn--mnchen-3ya.example');
    const body = { token: tokenIn(mail), password: PASSWORD };
    expect((await app.call('POST', '/auth/accept-invite', { body })).status).to.equal(200);
    expect((await login('old@münchen.example')).status).to.equal(200);
    const people = await inDatabase(`select id from users where lower(email) like 'old@%nchen%.example'`, []);
    expect(people.rows).to.deep.equal([{ id }]);
  });

  it('are refused with the rule that they break', async () => {
    for (const email of [
      'a\r\nBcc: x@example.com',
      'a\u202eda@example.com',
      'ada @example.com',
      'ada@example.com\0',
      '\ud800da@example.com',
    ]) {
      const { status, body } = await invite(email);
      expect(status).to.equal(400);
      expect(JSON.stringify(body)).to.contain('body.email').and.contain('without blanks, control characters');
    }
    expect((await invite('ada@xn--a-ecp.ru')).status).to.equal(400);
    expect((await invite('İvan@example.com')).body.email).to.not.equal('ivan@example.com');
    expect((await invite('ivan@example.com')).status).to.equal(201);
  });
});
