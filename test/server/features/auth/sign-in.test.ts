import { expect } from 'chai';
import jwt from 'jsonwebtoken';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildOrganization, buildPerson, buildTenant, PASSWORD } from '../../../support/factories.ts';
import { createTestApp, type Answer, type TestApp } from '../../../support/test-app.ts';

const SECRET = 'a-secret-that-only-tests-sign-with';

describe('sign-in', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());

  const login = (email: string, password: string) =>
    app.call('POST', '/auth/login', { body: { email, password } });
  const cookieOf = (answer: Answer) => answer.headers.getSetCookie()[0] ?? '';
  const refresh = (cookie: string) =>
    app.call('POST', '/auth/refresh', { headers: { cookie: cookie.split(';')[0] ?? '' } });
  const inDatabase = (sql: string, values: readonly string[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values));
  const me = (token: string) => app.call('GET', '/auth/me', { token });

  it('gives an access token for 15 minutes and a refresh cookie that scripts cannot read', async () => {
    const answer = await login(tenant.admin.email.toUpperCase(), PASSWORD);
    expect(answer.status).to.equal(200);
    expect(answer.body).to.have.all.keys('user', 'tokens', 'mfaRequired');
    expect(answer.body.user).to.deep.include({
      id: tenant.admin.id,
      email: tenant.admin.email,
      mfaEnabled: false,
    });
    expect(answer.body.tokens.expiresInSeconds).to.equal(900);
    expect(cookieOf(answer)).to.match(
      /^svc_refresh=[\w-]{43}; .*Path=\/api\/v1\/auth;.*HttpOnly; SameSite=Strict/,
    );
    expect(JSON.stringify(answer.body)).not.to.match(/password|hash/i);

    const decoded = jwt.decode(answer.body.tokens.accessToken, { complete: true });
    expect(decoded?.header).to.include({ alg: 'HS256' });
    expect(decoded?.header.kid).to.be.a('string');
    expect(decoded?.payload).to.include({
      sub: tenant.admin.id,
      scope: 'partner',
      partnerId: tenant.partnerId,
      roleId: SYSTEM_ROLES.partnerAdmin,
    });
  });

  it('marks the cookie Secure in production', async () => {
    const production = await createTestApp({ env: { NODE_ENV: 'production' } });
    const other = await buildTenant(production);
    const answer = await production.call('POST', '/auth/login', {
      body: { email: other.admin.email, password: PASSWORD },
    });
    expect(cookieOf(answer)).to.contain('Secure');
    await production.close();
  });

  it('refuses unknown, disabled and mistyped alike', async () => {
    const disabled = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    await inDatabase(`update users set status = 'disabled' where id = ?`, [disabled.id]);
    const answers = [
      await login(tenant.admin.email, 'wrong'),
      await login('nobody@example.com', PASSWORD),
      await login(disabled.email, PASSWORD),
    ];
    for (const { status, body } of answers) {
      expect([status, body.code, body.error]).to.deep.equal([
        401,
        'UNAUTHENTICATED',
        'The e-mail address or the password is incorrect.',
      ]);
    }
  });

  it('says who is signed in, and which organizations that opens', async () => {
    const second = await buildOrganization(app, tenant.partnerId);
    const partner = (await me(tenant.admin.token)).body;
    expect(partner).to.deep.include({ scope: 'partner', partnerId: tenant.partnerId, permissions: ['*:*'] });
    expect(partner.accessibleOrgIds).to.have.members([tenant.orgId, second]);

    const selected = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [second, newId()],
    });
    expect((await me(selected.token)).body.accessibleOrgIds).to.deep.equal([second]);
    const none = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'none',
      orgIds: [second],
    });
    expect((await me(none.token)).body.accessibleOrgIds).to.deep.equal([]);

    const organization = (await me(tenant.technician.token)).body;
    expect(organization).to.deep.include({
      scope: 'organization',
      orgId: tenant.orgId,
      accessibleOrgIds: [tenant.orgId],
    });
    expect(organization).not.to.have.property('partnerId');
    const system = await buildPerson(app, { scope: 'system' });
    expect((await me(system.token)).body.accessibleOrgIds).to.equal(null);
  });

  it('refuses tokens that are forged, foreign, expired or of another algorithm', async () => {
    const [, payload = ''] = tenant.admin.token.split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
    const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${payload}.`;
    const tokens = {
      none,
      foreign: jwt.sign(claims, 'another secret of sufficient length'),
      hs512: jwt.sign(claims, SECRET, { algorithm: 'HS512' }),
      issuer: jwt.sign({ ...claims, iss: 'somebody' }, SECRET),
      audience: jwt.sign({ ...claims, aud: 'something' }, SECRET),
      expired: jwt.sign({ ...claims, iat: 1, exp: 2 }, SECRET),
      session: jwt.sign({ ...claims, sid: newId() }, SECRET),
    };
    for (const [name, token] of Object.entries(tokens)) {
      const { status, body } = await me(token);
      expect([status, body.code], name).to.deep.equal([401, 'UNAUTHENTICATED']);
    }
  });

  it('ends access with the next request after the person, role, session or partner changes', async () => {
    const person = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
    await inDatabase(`update partner_users set role_id = ? where user_id = ?`, [
      SYSTEM_ROLES.partnerViewer,
      person.id,
    ]);
    expect((await me(person.token)).body.role.name).to.equal('Partner Viewer');
    await inDatabase(`update users set status = 'disabled' where id = ?`, [person.id]);
    expect((await me(person.token)).status).to.equal(401);

    const other = await buildTenant(app);
    await inDatabase(`update partners set status = 'suspended' where id = ?`, [other.partnerId]);
    for (const { token } of [other.admin, other.technician]) {
      const { status, body } = await me(token);
      expect([status, body.code]).to.deep.equal([403, 'PARTNER_INACTIVE']);
    }
  });

  it('trades the refresh cookie for the next one', async () => {
    const first = cookieOf(await login(tenant.admin.email, PASSWORD));
    const answer = await refresh(first);
    expect(answer.status).to.equal(200);
    expect((await me(answer.body.tokens.accessToken)).status).to.equal(200);
    expect(cookieOf(answer)).not.to.equal(first);
    expect((await refresh(cookieOf(answer))).status).to.equal(200);
  });

  it('takes six tabs that refresh at once for what they are', async () => {
    const cookie = cookieOf(await login(tenant.admin.email, PASSWORD));
    const answers = await Promise.all(Array.from({ length: 6 }, () => refresh(cookie)));
    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200, 200, 200, 200, 200]);
    expect((await refresh(cookieOf(answers[5]!))).status).to.equal(200);
  });

  it('ends the whole session when a used refresh token comes back later', async () => {
    const stolen = cookieOf(await login(tenant.admin.email, PASSWORD));
    const next = await refresh(stolen);
    await inDatabase(
      `update refresh_tokens set used_at = used_at - interval '11 seconds' where used_at is not null`,
      [],
    );
    expect((await refresh(stolen)).status).to.equal(401);
    expect((await refresh(cookieOf(next))).status).to.equal(401);
    expect((await me(next.body.tokens.accessToken)).status).to.equal(401);
  });

  it('counts the grace of a used refresh token from its first use, however often it comes back', async () => {
    const stolen = cookieOf(await login(tenant.admin.email, PASSWORD));
    const passSixSeconds = () =>
      inDatabase(
        `update refresh_tokens set used_at = used_at - interval '6 seconds' where used_at is not null`,
        [],
      );
    expect((await refresh(stolen)).status).to.equal(200);
    await passSixSeconds();
    expect((await refresh(stolen)).status).to.equal(200);
    await passSixSeconds();
    expect((await refresh(stolen)).status).to.equal(401);
  });

  it('signs out by cookie or by token, and twice', async () => {
    const byCookie = await login(tenant.admin.email, PASSWORD);
    const headers = { cookie: cookieOf(byCookie).split(';')[0] ?? '' };
    for (let times = 0; times < 2; times++) {
      const answer = await app.call('POST', '/auth/logout', { headers });
      expect([answer.status, answer.body]).to.deep.equal([200, { success: true }]);
      expect(cookieOf(answer)).to.match(/^svc_refresh=;/);
    }
    expect((await me(byCookie.body.tokens.accessToken)).status).to.equal(401);

    const byToken = await login(tenant.admin.email, PASSWORD);
    await app.call('POST', '/auth/logout', { token: byToken.body.tokens.accessToken });
    expect((await refresh(cookieOf(byToken))).status).to.equal(401);
  });

  it('leaves a person a hundred sessions, and ends the one used longest ago', async () => {
    const { id, email, token } = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    await inDatabase(
      `insert into sessions (id, user_id, expires_at, last_used_at)
      select gen_random_uuid(), ?, now() + interval '1 day', now() + n * interval '1 second' from generate_series(1, 99) n`,
      [id],
    );
    expect((await me(token)).status).to.equal(200);
    const answer = await login(email, PASSWORD);
    expect((await me(answer.body.tokens.accessToken)).status).to.equal(200);
    expect((await me(token)).status).to.equal(401);
    const { rows } = await inDatabase(
      `select count(*) filter (where revoked_at is null)::int as open,
        count(*) filter (where revoked_reason = 'too_many_sessions')::int as ended from sessions where user_id = ?`,
      [id],
    );
    expect(rows).to.deep.equal([{ open: 100, ended: 1 }]);
  });

  it('makes the first administrator from the environment, once, on an empty database only', async () => {
    const env = { SVC_ADMIN_EMAIL: 'root@example.com', SVC_ADMIN_PASSWORD: 'First-Admin-1' };
    const fresh = await createTestApp({ env });
    const answer = await fresh.call('POST', '/auth/login', {
      body: { email: 'root@example.com', password: 'First-Admin-1' },
    });
    expect(answer.status).to.equal(200);
    const again = await createTestApp({
      env: { ...env, SVC_ADMIN_EMAIL: 'other@example.com' },
      database: fresh.database,
    });
    expect(
      (
        await again.call('POST', '/auth/login', {
          body: { email: 'other@example.com', password: 'First-Admin-1' },
        })
      ).status,
    ).to.equal(401);
    await again.close();
    await fresh.close();
  });

  it('says in the log how to get an administrator, as long as there is none', async () => {
    const hintOf = ({ log }: TestApp) =>
      log.find(({ event }) => event === 'server.no_administrator')?.['hint'];
    const fresh = await createTestApp();
    expect(hintOf(fresh)).to.contain('SVC_ADMIN_EMAIL').and.contain('admin create');
    await buildPerson(fresh, { scope: 'system' });
    const again = await createTestApp({ database: fresh.database });
    expect(hintOf(again)).to.equal(undefined);
    await again.close();
    await fresh.close();
  });

  it('never writes a password or token to the log', () => {
    const text = JSON.stringify(app.log);
    expect(text).not.to.contain(PASSWORD);
    expect(text).not.to.contain(tenant.admin.token);
  });
});
