import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import {
  buildOrganization,
  buildPerson,
  buildTenant,
  PASSWORD,
  type Person,
} from '../../../support/factories.ts';
import { createMailbox, tokenIn, type Mailbox } from '../../../support/mailbox.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

const NEW_PASSWORD = 'Welcome-2-Muster';

describe('invitations', () => {
  let app: TestApp;
  let mailbox: Mailbox;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    mailbox = await createMailbox();
    app = await createTestApp({
      env: { DATA_DIR: mailbox.dataDir, PUBLIC_URL: 'https://rmm.example.com/' },
    });
    tenant = await buildTenant(app);
  });
  after(async () => {
    await app.close();
    await mailbox.remove();
  });

  let count = 0;
  const address = () => `guest-${++count}@example.com`;
  const invite = (who: Person, body: object) =>
    app.call('POST', '/users/invite', {
      token: who.token,
      body: { name: 'Guest', roleId: SYSTEM_ROLES.partnerViewer, ...body },
    });
  const inviteIntoOrg = (who: Person, email: string, orgId = tenant.orgId) =>
    invite(who, {
      email,
      roleId: SYSTEM_ROLES.organizationViewer,
      ...(who === tenant.admin ? { orgId } : {}),
    });
  const accept = (token: string, password = NEW_PASSWORD) =>
    app.call('POST', '/auth/accept-invite', { body: { token, password } });
  const preview = (token: string) => app.call('POST', '/auth/invite/preview', { body: { token } });
  const inDatabase = (sql: string, values: readonly string[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values));

  it('bring someone into the partner by a link in a mail', async () => {
    const email = address();
    const invited = await invite(tenant.admin, {
      email,
      name: 'Ada',
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
    expect(invited.status).to.equal(201);
    expect(invited.body).to.have.all.keys('id', 'email', 'name', 'status', 'roleId', 'inviteUrl');
    expect(invited.body).to.include({ email, name: 'Ada', status: 'invited' });
    expect(invited.body.inviteUrl).to.match(/^https:\/\/rmm\.example\.com\/accept-invite#token=[\w-]{43}$/);
    const mail = await mailbox.newest(email);
    expect(mail).to.contain('https://rmm.example.com/accept-invite#token=').and.contain('Hello Ada');

    const token = tokenIn(mail);
    expect(token, 'only the mail has the link that proves the address').not.to.equal(
      tokenIn(invited.body.inviteUrl),
    );
    expect((await preview(tokenIn(invited.body.inviteUrl))).body.email).to.equal(email);
    const { name } = (await inDatabase('select name from partners where id = ?', [tenant.partnerId])).rows[0];
    expect((await preview(token)).body).to.deep.equal({ email, name: 'Ada', partnerName: name });
    const accepted = await accept(token);
    expect(accepted.status).to.equal(200);
    expect(accepted.body).to.include({ mfaRequired: false });
    expect(accepted.headers.getSetCookie()[0]).to.match(/^svc_refresh=[\w-]{43};/);
    const me = await app.call('GET', '/auth/me', { token: accepted.body.tokens.accessToken });
    expect(me.body).to.deep.include({ partnerId: tenant.partnerId, accessibleOrgIds: [tenant.orgId] });
    const login = await app.call('POST', '/auth/login', { body: { email, password: NEW_PASSWORD } });
    expect(login.status).to.equal(200);
  });

  it('bring someone into an organization, from the partner or from within', async () => {
    const boss = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    for (const who of [tenant.admin, boss]) {
      const invited = await inviteIntoOrg(who, address());
      expect(invited.status, JSON.stringify(invited.body)).to.equal(201);
      const token = tokenIn(invited.body.inviteUrl);
      expect((await preview(token)).body).to.include.keys('orgName', 'partnerName');
      const me = await app.call('GET', '/auth/me', {
        token: (await accept(token)).body.tokens.accessToken,
      });
      expect(me.body).to.include({ scope: 'organization', orgId: tenant.orgId });
    }
    const root = await buildPerson(app, { scope: 'system' });
    const system = await invite(root, { email: address(), roleId: SYSTEM_ROLES.systemAdmin });
    expect(system.status).to.equal(201);
    expect((await accept(tokenIn(system.body.inviteUrl))).status).to.equal(200);
  });

  it('bring the first person into a provider, from the system', async () => {
    const root = await buildPerson(app, { scope: 'system' });
    const asProvider = { roleId: SYSTEM_ROLES.partnerAdmin };
    const unnamed = await invite(root, { email: address(), ...asProvider });
    expect([unnamed.status, unnamed.body.details[0].path]).to.deep.equal([400, 'body.partnerId']);
    const unknown = await invite(root, { email: address(), ...asProvider, partnerId: newId() });
    expect(unknown.status).to.equal(404);
    const ofSystem = { email: address(), roleId: SYSTEM_ROLES.systemAdmin, partnerId: tenant.partnerId };
    expect((await invite(root, ofSystem)).status).to.equal(400);

    const named = { email: address(), ...asProvider, orgAccess: 'all', partnerId: tenant.partnerId };
    const invited = await invite(root, named);
    expect(invited.status, JSON.stringify(invited.body)).to.equal(201);
    expect((await preview(tokenIn(invited.body.inviteUrl))).body.partnerName).to.be.a('string');
    const { accessToken } = (await accept(tokenIn(invited.body.inviteUrl))).body.tokens;
    const me = await app.call('GET', '/auth/me', { token: accessToken });
    expect(me.body).to.include({ scope: 'partner', partnerId: tenant.partnerId });

    const other = await buildTenant(app);
    const foreign = { email: address(), ...asProvider, partnerId: other.partnerId };
    expect((await invite(tenant.admin, foreign)).status).to.equal(403);
  });

  it('go no further than the inviter', async () => {
    const other = await buildTenant(app);
    const second = await buildOrganization(app, tenant.partnerId);
    const half = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [second],
    });
    expect((await inviteIntoOrg(tenant.admin, address(), other.orgId)).status).to.equal(403);
    expect((await invite(half, { email: address(), orgAccess: 'all' })).status).to.equal(403);
    const role = (
      await app.call('POST', '/roles', {
        token: tenant.admin.token,
        body: { name: 'Inviter', permissions: ['users:invite'] },
      })
    ).body.id;
    const clerk = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId, role });
    const email = address();
    expect((await invite(clerk, { email, roleId: SYSTEM_ROLES.partnerAdmin })).status).to.equal(403);
    const { rows } = await inDatabase(
      `select email from users where email = ? union all select email from membership_invitations where email = ?`,
      [email, email],
    );
    expect(rows, 'a refused invitation leaves nothing').to.deep.equal([]);
    expect((await invite(clerk, { email, roleId: role })).status).to.equal(201);
  });

  it('are refused for members of here, and made once for each place when they come at once', async () => {
    const other = await buildTenant(app);
    expect((await invite(tenant.admin, { email: tenant.admin.email.toUpperCase() })).status).to.equal(409);
    expect((await invite(tenant.admin, { email: tenant.technician.email })).status).to.equal(409);
    const elsewhere = await invite(tenant.admin, { email: other.admin.email });
    expect([elsewhere.status, elsewhere.body.status], 'says nothing of other tenants').to.deep.equal([
      201,
      'invited',
    ]);
    expect((await accept(tokenIn(elsewhere.body.inviteUrl), PASSWORD)).status).to.equal(409);

    const email = address();
    const answers = await Promise.all([
      invite(tenant.admin, { email }),
      invite(other.admin, { email: email.toUpperCase() }),
      inviteIntoOrg(tenant.admin, email),
      invite(tenant.admin, { email }),
    ]);
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).to.deep.equal([201, 201, 201, 409]);
  });

  it('link an account that belongs nowhere, which proves its own password', async () => {
    const person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    await app.call('DELETE', `/users/${person.id}`, { token: tenant.admin.token });
    const other = await buildTenant(app);
    const invited = await invite(other.admin, { email: person.email });
    expect([invited.status, invited.body.status]).to.deep.equal([201, 'invited']);
    const token = tokenIn(invited.body.inviteUrl);
    // The inviter has the link too: with a password of their own they must not come in.
    expect((await accept(token, NEW_PASSWORD)).status).to.equal(401);
    expect((await accept(token, PASSWORD)).status).to.equal(200);
    expect((await accept(token, PASSWORD)).status).to.equal(404);
    expect((await app.call('GET', '/auth/me', { token: person.token })).status, 'an old session').to.equal(
      401,
    );
  });

  it('lead into an organization by orgId, by the only one of orgIds, or into the inviter’s own', async () => {
    const boss = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    const second = await buildOrganization(app, tenant.partnerId);
    const roleId = SYSTEM_ROLES.organizationViewer;
    const placeOf = async (who: Person, body: object) => {
      const answer = await invite(who, { email: address(), roleId, ...body });
      if (answer.status !== 201) return [answer.status, answer.body.details?.[0]];
      return (await app.call('GET', `/users/${answer.body.id}`, { token: tenant.admin.token })).body.orgId;
    };
    const [own, other] = [tenant.orgId, second];
    expect(await placeOf(boss, {})).to.equal(own);
    expect(await placeOf(boss, { orgId: own })).to.equal(own);
    expect(await placeOf(boss, { orgIds: [own] })).to.equal(own);
    expect(await placeOf(tenant.admin, { orgIds: [other] })).to.equal(other);
    expect(await placeOf(tenant.admin, { orgAccess: 'selected', orgIds: [other, other] })).to.equal(other);
    expect(await placeOf(tenant.admin, { orgId: other, orgIds: [other] })).to.equal(other);

    expect(await placeOf(tenant.admin, {})).to.deep.equal([
      400,
      { path: 'body.orgId', message: 'must name the organization, because the role is for users of one' },
    ]);
    expect(await placeOf(tenant.admin, { orgIds: [own, other] })).to.deep.equal([
      400,
      {
        path: 'body.orgIds',
        message: 'must name exactly one organization, because the role is for users of one',
      },
    ]);
    expect(await placeOf(tenant.admin, { orgId: own, orgAccess: 'all' })).to.deep.equal([
      400,
      { path: 'body.orgAccess', message: 'is only for users of a partner' },
    ]);
    expect((await placeOf(boss, { orgIds: [other] }))[0], 'of somebody else').to.equal(403);
    expect(
      (
        await placeOf(tenant.admin, { roleId: SYSTEM_ROLES.partnerViewer, orgAccess: 'none', orgIds: [own] })
      )[1],
    ).to.deep.equal({ path: 'body.orgIds', message: 'requires orgAccess selected' });
  });

  it('do not fill the mailbox of a stranger', async () => {
    const email = address();
    const { body } = await invite(tenant.admin, { email });
    const statuses = [];
    for (let n = 0; n < 6; n++) {
      const again = await app.call('POST', '/users/resend-invite', {
        token: tenant.admin.token,
        body: { userId: body.id },
      });
      statuses.push(again.status);
    }
    expect(statuses).to.deep.equal([200, 200, 200, 200, 200, 429]);
    const round = [];
    for (let n = 0; n < 5; n++) {
      const invited = await invite(tenant.admin, { email });
      await app.call('DELETE', `/users/${invited.body.id ?? body.id}`, { token: tenant.admin.token });
      round.push(invited.status);
    }
    expect(round, 'nor by taking it back each time').to.include(429);
  });

  it('work once, also when accepted twice at the same moment', async () => {
    const token = tokenIn((await invite(tenant.admin, { email: address() })).body.inviteUrl);
    const answers = await Promise.all([accept(token), accept(token, 'Another-1-Word'), accept(token)]);
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).to.deep.equal([200, 404, 404]);
    for (const answer of [await accept(token), await preview(token)]) {
      expect([answer.status, answer.body.code]).to.deep.equal([404, 'NOT_FOUND']);
    }
  });

  it('refuse a weak password, and are not used up by it', async () => {
    const token = tokenIn((await invite(tenant.admin, { email: address() })).body.inviteUrl);
    const weak = await accept(token, 'weak');
    expect([weak.status, weak.body.error, weak.body.details[0].path]).to.deep.equal([
      400,
      'The password must have at least 8 characters.',
      'body.password',
    ]);
    expect((await accept(token)).status).to.equal(200);
  });

  it('end with their seven days, with their person’s place and with the next one sent', async () => {
    const resend = (userId: string, who = tenant.admin) =>
      app.call('POST', '/users/resend-invite', { token: who.token, body: { userId } });
    const email = address();
    const { id, inviteUrl } = (await invite(tenant.admin, { email })).body;
    const { rows } = await inDatabase(
      `select extract(epoch from expires_at - created_at)::int as seconds from membership_invitations where id = ?`,
      [id],
    );
    expect(rows[0].seconds).to.equal(7 * 86_400);
    await mailbox.newest(email);
    const again = await resend(id);
    expect(again.status).to.equal(200);
    expect((await preview(tokenIn(await mailbox.newest(email, 2)))).body.email).to.equal(email);
    expect((await preview(tokenIn(inviteUrl))).status, 'replaced').to.equal(404);
    expect((await preview(tokenIn(again.body.inviteUrl))).status).to.equal(200);
    expect((await resend(id, (await buildTenant(app)).admin)).status, 'by a stranger').to.equal(404);
    expect((await resend(newId())).status).to.equal(404);

    await inDatabase(`update membership_invitations set expires_at = now() where id = ?`, [id]);
    expect((await accept(tokenIn(again.body.inviteUrl))).status, 'expired').to.equal(404);

    const third = tokenIn((await resend(id)).body.inviteUrl);
    const setStatus = (status: string) =>
      app.call('PATCH', `/users/${id}`, { token: tenant.admin.token, body: { status } });
    await setStatus('disabled');
    expect((await accept(third)).status, 'disabled').to.equal(404);
    expect((await resend(id)).status, 'disabled').to.equal(409);
    expect((await setStatus('active')).body.status, 'still not accepted').to.equal('invited');
    await app.call('DELETE', `/users/${id}`, { token: tenant.admin.token });
    expect((await accept(third)).status, 'removed').to.equal(404);
    expect((await resend(tenant.technician.id)).status, 'came long ago').to.equal(409);
  });

  it('leave their tokens out of the database and the log', async () => {
    const { inviteUrl } = (await invite(tenant.admin, { email: address() })).body;
    const { rows } = await inDatabase(
      'select link_token_hash, mail_token_hash from membership_invitations',
      [],
    );
    expect(JSON.stringify(rows)).not.to.contain(tokenIn(inviteUrl));
    expect(JSON.stringify(app.log)).not.to.contain(tokenIn(inviteUrl));
  });
});
