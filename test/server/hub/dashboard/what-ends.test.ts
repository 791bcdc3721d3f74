import { expect } from 'chai';
import { createAccessTokens, openSession } from '../../../../src/features/auth/index.ts';
import { newExchangeCode } from '../../../../src/features/sso/index.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { tokenHash } from '../../../../src/platform/secrets/tokens.ts';
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

    it('even if the session is stored in the moment in which it is switched off', async () => {
      const colleague = await buildPerson(here, { scope: 'partner', partnerId: tenant.partnerId });
      const id = await insertProvider(here, { partner_id: tenant.partnerId });
      await act('POST', `/sso/providers/${id}/status`, { status: 'inactive' });
      // The transaction of the sign-in has read the provider before.
      const { token } = await signInBy(id, colleague);
      const me = () => there.call('GET', '/auth/me', { token });
      expect((await me()).status).to.equal(401);
      await query(here, `update sso_providers set status = 'active' where id = ?`, [id]);
      expect((await me()).status, 'the session itself is valid').to.equal(200);
    });

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

    it('with its links if it becomes another one, because subjects are those of one issuer only', async () => {
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

  describe('ends with the person', () => {
    const losses: Record<string, (id: string) => Promise<unknown>> = {
      'who is disabled': (id) => act('PATCH', `/users/${id}`, { status: 'disabled' }),
      'who is removed': (id) => act('DELETE', `/users/${id}`),
      'who has fewer rights': (id) =>
        act('POST', `/users/${id}/role`, { roleId: SYSTEM_ROLES.partnerTechnician }),
    };
    let colleague: Person;
    beforeEach(async () => {
      colleague = await buildPerson(here, { scope: 'partner', partnerId: tenant.partnerId });
    });

    for (const [who, lose] of Object.entries(losses)) {
      it(`${who}: the invitations that they have sent`, async () => {
        const invited = async (body: object) => {
          const email = `${newId()}@example.com`;
          const answer = await here.call('POST', '/users/invite', {
            token: colleague.token,
            body: { email, name: 'New', ...body },
          });
          expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
          return { id: answer.body.id, token: answer.body.inviteUrl.split('#token=')[1] };
        };
        const links = [
          await invited({ roleId: SYSTEM_ROLES.partnerAdmin, orgAccess: 'all' }),
          await invited({
            roleId: SYSTEM_ROLES.partnerViewer,
            orgAccess: 'selected',
            orgIds: [tenant.orgId],
          }),
          await invited({ roleId: SYSTEM_ROLES.organizationAdmin, orgId: tenant.orgId }),
        ];
        const preview = async (token: string) =>
          (await there.call('POST', '/auth/invite/preview', { body: { token } })).status;
        for (const { token } of links) expect(await preview(token)).to.equal(200);
        await lose(colleague.id);
        for (const { token } of links) {
          expect(await preview(token)).to.equal(404);
          const body = { token, password: 'Correct-Horse-9' };
          expect((await there.call('POST', '/auth/accept-invite', { body })).status).to.equal(404);
        }
        // Whoever sends it again answers for it.
        const again = await here.call('POST', '/users/resend-invite', {
          token: tenant.admin.token,
          body: { userId: links[0]?.id },
        });
        expect(again.status, JSON.stringify(again.body)).to.equal(200);
        expect(await preview(again.body.inviteUrl.split('#token=')[1])).to.equal(200);
      });
    }

    it('who is disabled or removed: links to a new password, and half a sign-in', async () => {
      for (const who of ['who is disabled', 'who is removed']) {
        const { id } = await buildPerson(here, { scope: 'partner', partnerId: tenant.partnerId });
        const token = newId();
        await query(
          here,
          `insert into password_resets (token_hash, user_id, expires_at) values (?, ?, now() + interval '1 hour')`,
          [tokenHash(token), id],
        );
        await query(
          here,
          `insert into mfa_challenges (token_hash, user_id, expires_at) values (?, ?, now() + interval '1 hour')`,
          [tokenHash(newId()), id],
        );
        await losses[who]?.(id);
        // Being enabled again, or invited elsewhere, does not bring them back.
        await query(here, `update users set status = 'active' where id = ?`, [id]);
        const body = { token, password: 'Correct-Horse-10' };
        expect((await there.call('POST', '/auth/reset-password', { body })).status, who).to.equal(400);
        expect(await query(here, 'select from mfa_challenges where user_id = ?', [id])).to.have.length(0);
      }
    });

    it('who is disabled: an export that is being sent to them', async () => {
      // More than what fits between a server and a client that does not read.
      const bytes = 9_000_000;
      await query(
        here,
        `insert into audit_logs (id, partner_id, actor_type, actor_id, action, resource_type, details, result)
        select gen_random_uuid(), ?, 'system', gen_random_uuid(), 'test.entry', 'test', jsonb_build_object('text', repeat('x', 40000)), 'success'
        from generate_series(1, ${bytes / 40_000})`,
        [tenant.partnerId],
      );
      await here.server.chainWriter.flush();
      const download = async (token: string) => {
        const answer = await fetch(`${there.url}/api/v1/audit-logs/export`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          body: '{"format":"json"}',
        });
        expect(answer.status).to.equal(200);
        return answer;
      };
      const whole = await download(tenant.admin.token);
      expect((await whole.text()).length).to.be.greaterThan(bytes);

      const { body } = await download(colleague.token);
      const reader = body?.getReader();
      await reader?.read();
      await act('PATCH', `/users/${colleague.id}`, { status: 'disabled' });
      const readOn = async () => {
        let read = 0;
        for (let chunk = 0; ; chunk++) {
          const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
          if (done) return read;
          read += value?.length ?? 0;
          // What the other server is told needs a moment, in which little is read.
          if (chunk < 5) await there.settle();
        }
      };
      const outcome: unknown = await readOn().catch((error: unknown) => error);
      expect(outcome).to.be.an('error');
    });
  });
});
