import { expect } from 'chai';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { buildTenant } from '../../support/factories.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';

describe('the link by which the demo signs a person in', () => {
  let app: TestApp;
  before(async () => {
    app = await createTestApp();
  });
  after(() => app?.close());

  const codeFor = async (userId: string) => {
    const fragment = await app.server.signInFragment(userId);
    expect(fragment).to.match(/^#ssoCode=[\w-]{43}$/);
    return fragment.slice('#ssoCode='.length);
  };
  const exchange = (code: string) => app.call('POST', '/sso/exchange', { body: { code } });

  it('is good for one session of that person, once', async () => {
    const { admin } = await buildTenant(app);
    const code = await codeFor(admin.id);
    const [one, other] = await Promise.all([exchange(code), exchange(code)]);
    expect([one.status, other.status]).to.have.members([200, 400]);
    const { body, headers } = one.status === 200 ? one : other;
    expect(headers.get('set-cookie')).to.match(/^svc_refresh=.*HttpOnly/i);
    const me = await app.call('GET', '/auth/me', { token: body.accessToken });
    expect(me.body.user.id).to.equal(admin.id);
    expect((await exchange(code)).status).to.equal(400);
  });

  it('ends after a quarter of an hour', async () => {
    const { admin } = await buildTenant(app);
    const code = await codeFor(admin.id);
    const pass = (minutes: number) =>
      withSystem(app.server.database.pool, 'let time pass', (tx) =>
        tx('sso_exchange_codes').update({ expires_at: tx.raw(`expires_at - interval '${minutes} minutes'`) }),
      );
    await pass(16);
    expect((await exchange(code)).status).to.equal(400);
    await pass(-2);
    expect((await exchange(code)).status, 'within its time').to.equal(200);
  });

  it('is recorded as a sign-in in the audit trail, and its code in no log', async () => {
    const { admin } = await buildTenant(app);
    const code = await codeFor(admin.id);
    await exchange(code);
    await app.server.chainWriter.flush();
    const entries = await app.call('GET', '/audit-logs/logs?action=user.login', { token: admin.token });
    expect(entries.body.data.map(({ user }: { user: { id: string } }) => user.id)).to.include(admin.id);
    expect(JSON.stringify(app.log)).to.not.include(code);
  });

  it('is for people who could sign in: an account without a membership gets none', async () => {
    const { admin } = await buildTenant(app);
    await withSystem(app.server.database.pool, 'disable', (tx) =>
      tx('users').where({ id: admin.id }).update({ status: 'disabled' }),
    );
    const refused = await app.server.signInFragment(admin.id).catch((error: Error) => error);
    expect(refused).to.be.an('error');
  });
});
