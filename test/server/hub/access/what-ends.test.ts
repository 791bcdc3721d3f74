import { expect } from 'chai';
import { createAccessTokens, openSession } from '../../../../src/features/auth/index.ts';
import { newExchangeCode } from '../../../../src/features/sso/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildPerson, buildTenant, giveSecondFactor, type Person } from '../../../support/factories.ts';
import { createSsoApp, insertProvider, query } from '../../../support/sso/sso-support.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

/** What ends with what (docs/security.md): the cause ends on one server, and what came of it is used on the other. */
describe('what was obtained by something that ends on another server', () => {
  let database: TestDatabase;
  let here: TestApp;
  let there: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  before(async () => {
    database = await createTestDatabase();
    const start = () => createSsoApp({ database, dashboardRecheckMs: 600_000 });
    // Without Redis: what the database says reaches every server.
    [here, there] = [await start(), await start()];
  });
  after(async () => {
    await Promise.all([here?.close(), there?.close()]);
    await database?.drop();
  });
  beforeEach(async () => {
    tenant = await buildTenant(here);
    await giveSecondFactor(here, tenant.admin);
  });

  const act = async (method: string, path: string, body?: object) => {
    const answer = await here.call(method, path, { token: tenant.admin.token, body });
    expect(answer.status, JSON.stringify(answer.body)).to.be.within(200, 299);
  };

  /** A session as the provider's sign-in opens it, and a code for another one that nobody has exchanged yet. */
  async function signInBy(providerId: string, { id: userId }: Person) {
    const client = { ip: '127.0.0.1', trusted: false, userAgent: null };
    const provider = { id: providerId, name: 'Provider', mfa: true };
    return withSystem(here.server.database.pool, 'test', async (tx) => {
      const opened = await openSession(tx, userId, client, { mfa: false, provider });
      const other = await openSession(tx, userId, client, { mfa: false, provider });
      const code = await newExchangeCode(tx, here.server.secrets, other);
      const token = createAccessTokens(here.jwtSecret ?? '').issue({
        userId,
        sessionId: opened.sessionId,
        scope: 'partner',
        partnerId: tenant.partnerId,
        orgId: null,
        roleId: newId(),
        mfa: false,
      });
      return { token, refreshToken: opened.refreshToken, code };
    });
  }

  describe('ends with the identity provider', () => {
    const ends: Record<string, (id: string) => Promise<unknown>> = {
      'when it is switched off': (id) => act('POST', `/sso/providers/${id}/status`, { status: 'inactive' }),
      'when it goes back to testing': (id) =>
        act('POST', `/sso/providers/${id}/status`, { status: 'testing' }),
      'when it is deleted': (id) => act('DELETE', `/sso/providers/${id}`),
      'when it becomes another identity provider': (id) =>
        act('PATCH', `/sso/providers/${id}`, { entityId: 'https://other.test/metadata' }),
      'when somebody changes the row by hand': (id) =>
        query(here, `update sso_providers set status = 'inactive' where id = ?`, [id]),
    };
    for (const [when, end] of Object.entries(ends)) {
      it(when, async () => {
        const colleague = await buildPerson(here, { scope: 'partner', partnerId: tenant.partnerId });
        const id = await insertProvider(here, { partner_id: tenant.partnerId });
        const other = await insertProvider(here, { partner_id: tenant.partnerId });
        const { token, refreshToken, code } = await signInBy(id, colleague);
        const unaffected = [(await signInBy(other, colleague)).token, colleague.token];
        const me = (bearer: string, app: TestApp) => app.call('GET', '/auth/me', { token: bearer });
        for (const app of [here, there]) expect((await me(token, app)).status).to.equal(200);
        const client = await connectDashboard(there, token);

        await end(id);
        for (const app of [here, there]) {
          expect((await me(token, app)).status).to.equal(401);
          expect((await app.call('POST', '/auth/refresh', { body: { refreshToken } })).status).to.equal(401);
          for (const bearer of unaffected) expect((await me(bearer, app)).status).to.equal(200);
        }
        const exchanged = await there.call('POST', '/sso/exchange', { body: { code } });
        expect([exchanged.status, exchanged.body.accessToken]).to.deep.equal([401, undefined]);
        await eventually(
          () => Promise.resolve(client.socket.connected),
          (isConnected) => !isConnected,
        );
        client.close();

        // Nothing of it comes back with the provider.
        await query(here, `update sso_providers set status = 'active' where id = ?`, [id]);
        expect((await me(token, there)).status).to.equal(401);
      });
    }

    it('but not when its name, its certificate or its trust changes', async () => {
      const colleague = await buildPerson(here, { scope: 'partner', partnerId: tenant.partnerId });
      const id = await insertProvider(here, { partner_id: tenant.partnerId }, { trusts_idp_mfa: true });
      const { token } = await signInBy(id, colleague);
      const configures = () => there.call('POST', '/sso/domains', { token, body: {} });
      expect((await configures()).body.code, 'its second factor counts').to.equal('VALIDATION_FAILED');
      await act('PATCH', `/sso/providers/${id}`, { name: 'Renamed', trustsIdpMfa: false });
      expect((await configures()).body.code).to.equal('MFA_REQUIRED');
      expect((await there.call('GET', '/auth/me', { token })).status).to.equal(200);
    });

    it('with its links where it becomes another one, because subjects are those of one issuer only', async () => {
      const { id: userId } = tenant.admin;
      const id = await insertProvider(here, { partner_id: tenant.partnerId });
      const link = () =>
        query(
          here,
          `insert into user_sso_identities (id, user_id, provider_id, external_id, profile) values (?, ?, ?, '42', '{}')`,
          [newId(), userId, id],
        );
      const links = () => query(here, 'select from user_sso_identities where provider_id = ?', [id]);
      await link();
      await act('PATCH', `/sso/providers/${id}`, { name: 'Renamed', ssoUrl: 'https://1.1.1.1/other' });
      expect(await links()).to.have.length(1);
      await act('PATCH', `/sso/providers/${id}`, { entityId: 'https://other.test/metadata' });
      expect(await links()).to.have.length(0);
    });
  });
});
