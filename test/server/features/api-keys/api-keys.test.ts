import { expect } from 'chai';
import fc from 'fast-check';
import { commonPermissions, KeyUsage } from '../../../../src/features/api-keys/api-key-callers.ts';
import { exceeds } from '../../../../src/features/roles/index.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { holds } from '../../../../src/platform/context.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { isWellFormed, newToken, tokenHash } from '../../../../src/platform/secrets/tokens.ts';
import { eventually } from '../../../support/eventually.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  PASSWORD,
  type Person,
  signIn,
} from '../../../support/factories.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner, createTestDatabase } from '../../../support/test-postgres.ts';

describe('the permissions that key and maker share', () => {
  const RESOURCES = ['devices', 'sites', 'users'];
  const ACTIONS = ['read', 'write'];
  const concrete = RESOURCES.flatMap((resource) => ACTIONS.map((action) => `${resource}:${action}`));
  const permissions = fc.array(fc.constantFrom(...concrete, ...RESOURCES.map((one) => `${one}:*`), '*:*'));

  it('grant exactly what both grant, and never more than either', () => {
    fc.assert(
      fc.property(permissions, permissions, (a, b) => {
        const [left, right, common] = [new Set(a), new Set(b), commonPermissions(a, b)];
        for (const one of concrete) {
          expect(holds(common, one), one).to.equal(holds(left, one) && holds(right, one));
        }
        expect(exceeds(left, [...common])).to.deep.equal([]);
        expect(exceeds(right, [...common])).to.deep.equal([]);
        expect([...commonPermissions(b, a)]).to.have.members([...common]);
      }),
    );
  });

  it('tell the scopes that a person lacks, wildcards too', () => {
    expect(
      exceeds(new Set(['devices:*', 'sites:read']), ['devices:read', 'devices:*', 'sites:*', '*:*']),
    ).to.deep.equal(['sites:*', '*:*']);
    expect(exceeds(new Set(['*:*']), ['devices:read', 'devices:*', '*:*'])).to.deep.equal([]);
  });
});

describe('API keys', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let secondOrg: string;
  before(async () => {
    app = await createTestApp({ dashboardRecheckMs: 50 });
    tenant = await buildTenant(app);
    secondOrg = await buildOrganization(app, tenant.partnerId);
    await buildDevice(app, tenant.orgId);
    await buildDevice(app, secondOrg);
  });
  after(async () => app.close());

  const sql = async (text: string, values: string[] = []) =>
    (await withSystem(app.server.database.pool, 'test', (tx) => tx.raw(text, values))).rows;
  const create = (person: Person, body: object = {}) =>
    app.call('POST', '/api-keys', {
      token: person.token,
      body: { name: 'Script', scopes: ['devices:read'], ...body },
    });
  const created = async (person: Person, body: object = {}) => {
    const answer = await create(person, body);
    if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
    return answer.body as { id: string; key: string };
  };
  const me = (token: string) => app.call('GET', '/auth/me', { token });
  const statusOf = async (token: string) => (await me(token)).status;
  const newAdmin = () => buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });

  it('are shown once, and stored as a hash', async () => {
    const { status, body } = await create(tenant.admin, { orgId: tenant.orgId, rateLimit: 50 });
    expect(status).to.equal(201);
    expect(body.key).to.match(/^mstr_[0-9A-Za-z]{46}$/);
    expect(isWellFormed('apiKey', body.key)).to.equal(true);
    expect(body).to.deep.include({
      orgId: tenant.orgId,
      createdBy: tenant.admin.id,
      name: 'Script',
      keyPrefix: body.key.slice(0, 10),
      scopes: ['devices:read'],
      rateLimit: 50,
      expiresAt: null,
      revokedAt: null,
      lastUsedAt: null,
      usageCount: 0,
    });
    const { key, ...record } = body;
    const read = await app.call('GET', `/api-keys/${body.id}`, { token: tenant.admin.token });
    expect([read.status, read.body]).to.deep.equal([200, record]);
    const list = await app.call('GET', `/api-keys?orgId=${tenant.orgId}`, { token: tenant.admin.token });
    expect(list.body.data[0]).to.deep.equal(record);
    expect(JSON.stringify([await sql('select * from api_keys'), list.body])).not.to.contain(key);
    expect(JSON.stringify([read.body, list.body])).not.to.match(/hash/i);
  });

  it('are a hundred of one person at most, of which revoked ones do not count', async () => {
    const [person, other] = [await newAdmin(), await newAdmin()];
    const { id } = await created(person);
    await sql(
      `insert into api_keys (id, created_by, name, key_hash, key_prefix, scopes, rate_limit)
      select gen_random_uuid(), created_by, name, md5(n::text || id) || md5(id::text || n), key_prefix, scopes, rate_limit
      from api_keys, generate_series(2, 100) n where id = ?`,
      [id],
    );
    const refused = await create(person);
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'LIMIT_REACHED']);
    expect((await create(other)).status).to.equal(201);
    await app.call('DELETE', `/api-keys/${id}`, { token: person.token });
    expect((await create(person)).status).to.equal(201);
  });

  it('open what their scopes say, where their maker may go', async () => {
    const { key, id } = await created(tenant.admin, { scopes: ['devices:*'] });
    const answer = await me(key);
    expect(answer.body).to.deep.include({
      scope: 'partner',
      partnerId: tenant.partnerId,
      permissions: ['devices:*'],
    });
    expect(answer.body.accessibleOrgIds).to.have.members([tenant.orgId, secondOrg]);
    const devices = await app.call('GET', '/devices', { token: key });
    expect([devices.status, devices.body.data.length]).to.deep.equal([200, 2]);
    const sites = await app.call('GET', '/orgs/sites', { token: key });
    expect([sites.status, sites.body.code]).to.deep.equal([403, 'FORBIDDEN']);
    expect(id).to.be.a('string');
  });

  it('of one organization see nothing of another, not even of their own partner', async () => {
    const { key } = await created(tenant.admin, { orgId: secondOrg, scopes: ['*:*'] });
    const answer = (await me(key)).body;
    expect(answer).to.deep.include({
      scope: 'organization',
      orgId: secondOrg,
      accessibleOrgIds: [secondOrg],
    });
    expect(answer).not.to.have.property('partnerId');
    const devices = await app.call('GET', '/devices', { token: key });
    expect(devices.body.data.map((device: { orgId: string }) => device.orgId)).to.deep.equal([secondOrg]);
    expect((await app.call('GET', `/devices?orgId=${tenant.orgId}`, { token: key })).status).to.equal(403);
    expect((await app.call('GET', '/orgs/partners', { token: key })).status).to.equal(403);
  });

  it('cannot be given what their maker does not hold, nor an organization that is not theirs', async () => {
    const refused = await create(tenant.technician, { scopes: ['devices:read', 'users:write', '*:*'] });
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'FORBIDDEN']);
    expect(refused.body.error).to.contain('users:write, *:*');
    const { id } = await created(tenant.technician);
    const patch = (body: object) =>
      app.call('PATCH', `/api-keys/${id}`, { token: tenant.technician.token, body });
    expect((await patch({ scopes: ['devices:*'] })).status).to.equal(403);
    expect((await patch({ scopes: ['nonsense'] })).status).to.equal(400);
    const foreign = await buildTenant(app);
    for (const orgId of [secondOrg, foreign.orgId]) {
      expect((await create(tenant.technician, { orgId })).status).to.equal(403);
    }
    expect((await create(tenant.admin, { orgId: foreign.orgId })).status).to.equal(403);
  });

  it('are never good for every tenant', async () => {
    const system = await buildPerson(app, { scope: 'system' });
    expect((await create(system)).status).to.equal(403);
    const { key } = await created(system, { orgId: tenant.orgId, scopes: ['*:*'] });
    expect((await me(key)).body).to.deep.include({ scope: 'organization', accessibleOrgIds: [tenant.orgId] });

    const risen = await newAdmin();
    const before = await created(risen);
    await sql('insert into system_users (user_id, role_id) values (?, ?)', [
      risen.id,
      SYSTEM_ROLES.systemAdmin,
    ]);
    expect(await statusOf(before.key)).to.equal(401);
  });

  it('lose at once what their maker loses', async () => {
    const person = await newAdmin();
    const { key } = await created(person, { scopes: ['*:*'] });
    const inOrg = await created(person, { scopes: ['*:*'], orgId: tenant.orgId });
    const setRole = (role: string) =>
      sql('update partner_users set role_id = ? where user_id = ?', [role, person.id]);
    await setRole(SYSTEM_ROLES.partnerViewer);
    expect((await me(key)).body.permissions)
      .to.include('devices:read')
      .and.not.include('devices:write');
    expect((await app.call('GET', '/devices', { token: inOrg.key })).status).to.equal(200);
    expect((await app.call('GET', '/enrollment-keys', { token: inOrg.key })).status).to.equal(200);

    await sql(
      `update partner_users set org_access = 'selected', org_ids = array[?::uuid] where user_id = ?`,
      [secondOrg, person.id],
    );
    expect((await me(key)).body.accessibleOrgIds).to.deep.equal([secondOrg]);
    expect(await statusOf(inOrg.key)).to.equal(401);
    await sql(`update users set status = 'disabled' where id = ?`, [person.id]);
    expect(await statusOf(key)).to.equal(401);
    await sql(`update users set status = 'active' where id = ?`, [person.id]);
    expect(await statusOf(key)).to.equal(200);
    await sql('delete from partner_users where user_id = ?', [person.id]);
    expect(await statusOf(key)).to.equal(401);
  });

  it('stop with their partner and with their organization', async () => {
    const other = await buildTenant(app);
    const { key } = await created(other.admin);
    const inOrg = await created(other.admin, { orgId: other.orgId });
    const system = await buildPerson(app, { scope: 'system' });
    const bySystem = await created(system, {
      orgId: await buildOrganization(app, other.partnerId),
    });
    expect(await statusOf(bySystem.key)).to.equal(200);
    await sql('update organizations set deleted_at = now() where id = ?', [other.orgId]);
    expect([await statusOf(key), await statusOf(inOrg.key)]).to.deep.equal([200, 401]);
    await sql(`update partners set status = 'suspended' where id = ?`, [other.partnerId]);
    for (const one of [key, bySystem.key]) {
      const { status, body } = await me(one);
      expect([status, body.code]).to.deep.equal([403, 'PARTNER_INACTIVE']);
    }
  });

  it('are refused when unknown, mistyped, expired or revoked', async () => {
    const { key, id } = await created(tenant.admin, {
      expiresAt: new Date(Date.now() + 60_000).toISOString(),
    });
    expect(await statusOf(key)).to.equal(200);
    const mistyped = key.slice(0, -1) + (key.endsWith('0') ? '1' : '0');
    for (const wrong of [newToken('apiKey'), mistyped, 'mstr_', newToken('agent')]) {
      expect(await statusOf(wrong), wrong).to.equal(401);
    }
    await sql(`update api_keys set expires_at = now() where id = ?`, [id]);
    expect(await statusOf(key)).to.equal(401);
    const renewed = await app.call('PATCH', `/api-keys/${id}`, {
      token: tenant.admin.token,
      body: { expiresAt: null },
    });
    expect([renewed.status, renewed.body.expiresAt]).to.deep.equal([200, null]);
    expect(await statusOf(key)).to.equal(200);
    const revoke = () => app.call('DELETE', `/api-keys/${id}`, { token: tenant.admin.token });
    expect([(await revoke()).body, (await revoke()).status]).to.deep.equal([{ success: true }, 200]);
    expect(await statusOf(key)).to.equal(401);
    for (const [method, path] of [
      ['PATCH', ''],
      ['POST', '/rotate'],
    ] as const) {
      const answer = await app.call(method, `/api-keys/${id}${path}`, {
        token: tenant.admin.token,
        body: { name: 'x' },
      });
      expect(answer.status, method).to.equal(409);
    }
    expect((await create(tenant.admin, { expiresAt: '2020-01-01T00:00:00.000Z' })).status).to.equal(400);
  });

  it('are rotated: the new one opens, the old one does not', async () => {
    const { key, id } = await created(tenant.admin);
    const { status, body } = await app.call('POST', `/api-keys/${id}/rotate`, { token: tenant.admin.token });
    expect([status, body.id]).to.deep.equal([200, id]);
    expect(body.key).not.to.equal(key);
    expect([await statusOf(key), await statusOf(body.key)]).to.deep.equal([401, 200]);
  });

  it('are their maker’s; who holds users:write sees and revokes those of the tenant, and no more', async () => {
    const { id, key } = await created(tenant.technician);
    const peer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationTechnician,
    });
    const foreign = await buildTenant(app);
    for (const { token } of [peer, foreign.admin, foreign.technician]) {
      expect((await app.call('GET', `/api-keys/${id}`, { token })).status).to.equal(404);
      expect((await app.call('DELETE', `/api-keys/${id}`, { token })).status).to.equal(404);
      const list = await app.call('GET', '/api-keys?limit=100', { token });
      expect(list.body.data.map((one: { id: string }) => one.id)).not.to.include(id);
    }
    const { token } = tenant.admin;
    expect((await app.call('GET', `/api-keys/${id}`, { token })).status).to.equal(200);
    expect(
      (await app.call('PATCH', `/api-keys/${id}`, { token, body: { scopes: ['*:*'] } })).status,
    ).to.equal(403);
    expect((await app.call('POST', `/api-keys/${id}/rotate`, { token })).status).to.equal(403);
    expect((await app.call('DELETE', `/api-keys/${id}`, { token })).status).to.equal(200);
    expect(await statusOf(key)).to.equal(401);
  });

  it('do nothing that is for people: no keys, no second factor', async () => {
    const { key, id } = await created(tenant.admin, { scopes: ['*:*'] });
    const body = { name: 'x', scopes: ['*:*'], currentPassword: PASSWORD, code: '000000' };
    for (const [method, path] of [
      ['POST', '/api-keys'],
      ['GET', '/api-keys'],
      ['GET', `/api-keys/${id}`],
      ['PATCH', `/api-keys/${id}`],
      ['DELETE', `/api-keys/${id}`],
      ['POST', `/api-keys/${id}/rotate`],
      ['POST', '/auth/mfa/setup'],
      ['POST', '/auth/mfa/enable'],
      ['POST', '/auth/mfa/disable'],
      ['POST', '/auth/mfa/recovery-codes'],
    ] as const) {
      const answer = await app.call(method, path, { token: key, ...(method === 'GET' ? {} : { body }) });
      expect([answer.status, answer.body.code], `${method} ${path}`).to.deep.equal([403, 'FORBIDDEN']);
      expect(answer.body.error).to.contain('API key');
    }
    expect(await statusOf(key)).to.equal(200);
  });

  it('have a limit an hour each, which a change moves', async () => {
    const { key, id } = await created(tenant.admin, { rateLimit: 3 });
    const other = await created(tenant.admin, { rateLimit: 3 });
    const statuses = await Promise.all([1, 2, 3, 4, 5].map(() => statusOf(key)));
    expect(statuses.toSorted((a, b) => a - b)).to.deep.equal([200, 200, 200, 429, 429]);
    const over = await me(key);
    expect([over.status, over.body.code]).to.deep.equal([429, 'RATE_LIMITED']);
    expect(Number(over.headers.get('retry-after'))).to.be.within(3500, 3600);
    expect(await statusOf(other.key)).to.equal(200);
    await app.call('PATCH', `/api-keys/${id}`, { token: tenant.admin.token, body: { rateLimit: 100 } });
    expect(await statusOf(key)).to.equal(200);
  });

  it('give people no rights, and take them away if they may', async () => {
    const { key } = await created(tenant.admin, { scopes: ['*:*'] });
    const place = { scope: 'partner', partnerId: tenant.partnerId } as const;
    const person = await buildPerson(app, { ...place, role: SYSTEM_ROLES.partnerViewer });
    const body = {
      email: 'guest@example.com',
      name: 'Guest',
      roleId: SYSTEM_ROLES.partnerAdmin,
      userId: person.id,
      permissions: ['*:*'],
    };
    const role = await app.call('POST', '/roles', {
      token: key,
      body: { name: 'Made by a program', permissions: ['devices:read'] },
    });
    expect(role.status).to.equal(201);
    for (const [method, path] of [
      ['POST', '/users/invite'],
      ['POST', '/users/resend-invite'],
      ['POST', `/users/${person.id}/role`],
      ['PATCH', `/roles/${role.body.id}`],
    ] as const) {
      const refused = await app.call(method, path, { token: key, body });
      expect([refused.status, refused.body.code], path).to.deep.equal([403, 'FORBIDDEN']);
      expect(refused.body.error, path).to.contain('API key');
    }
    const setStatus = (token: string, status: string) =>
      app.call('PATCH', `/users/${person.id}`, { token, body: { status } });
    expect((await setStatus(key, 'disabled')).status).to.equal(200);
    const enabling = await setStatus(key, 'active');
    expect([enabling.status, enabling.body.code]).to.deep.equal([403, 'FORBIDDEN']);
    expect((await setStatus(tenant.admin.token, 'active')).status).to.equal(200);
    expect((await setStatus(key, 'active')).status, 'nothing to give').to.equal(200);
  });

  it('refuse a scope that is no permission, naming it', async () => {
    const { id } = await created(tenant.admin);
    for (const [method, path] of [
      ['POST', '/api-keys'],
      ['PATCH', `/api-keys/${id}`],
    ] as const) {
      const { status, body } = await app.call(method, path, {
        token: tenant.admin.token,
        body: { name: 'Odd', scopes: ['devices:read', 'nope:read'] },
      });
      expect([status, body.details], method).to.deep.equal([
        400,
        [{ path: 'body.scopes.1', message: '"nope:read" is not a known permission' }],
      ]);
    }
  });

  it('cannot act on the account of their maker', async () => {
    const person = await newAdmin();
    const { key } = await created(person, { scopes: ['*:*'] });
    const own: [string, string, object?][] = [
      ['PATCH', '/users/me', { name: 'Renamed' }],
      ['DELETE', '/users/me'],
      ['POST', '/auth/change-password', { currentPassword: PASSWORD, newPassword: 'Another-Horse-10' }],
      ['POST', '/auth/mfa/setup', { currentPassword: PASSWORD }],
      ['POST', '/auth/mfa/enable', { code: '123456' }],
      ['POST', '/auth/mfa/disable', { currentPassword: PASSWORD, code: '123456' }],
      ['POST', '/auth/mfa/recovery-codes', { currentPassword: PASSWORD, code: '123456' }],
      ['GET', '/auth/sessions'],
      ['DELETE', '/auth/sessions'],
      ['DELETE', `/auth/sessions/${person.id}`],
      ['PATCH', `/users/${person.id}`, { name: 'Renamed' }],
      ['PATCH', `/users/${person.id}`, { status: 'disabled' }],
      ['DELETE', `/users/${person.id}`],
    ];
    for (const [method, path, body] of own) {
      const answer = await app.call(method, path, { token: key, ...(body === undefined ? {} : { body }) });
      expect([answer.status, answer.body.code], `${method} ${path}`).to.deep.equal([403, 'FORBIDDEN']);
    }
    expect((await app.call('GET', '/users/me', { token: key })).body.id, 'reading').to.equal(person.id);
  });

  it('stop when their maker is disabled or resets the password, and outlive one that is changed', async () => {
    const person = await newAdmin();
    const { key } = await created(person);
    const setStatus = (status: string) =>
      app.call('PATCH', `/users/${person.id}`, { token: tenant.admin.token, body: { status } });
    expect((await setStatus('disabled')).status).to.equal(200);
    expect(await statusOf(key)).to.equal(401);
    expect((await setStatus('active')).status).to.equal(200);
    expect(await statusOf(key)).to.equal(200);

    const token = await signIn(app, person.email);
    const next = 'Another-Horse-10';
    const change = { currentPassword: PASSWORD, newPassword: next };
    expect((await app.call('POST', '/auth/change-password', { token, body: change })).status).to.equal(200);
    expect(await statusOf(key), 'after a change').to.equal(200);
    await sql(
      `insert into password_resets (token_hash, user_id, expires_at) values (?, ?, now() + interval '1 hour')`,
      [tokenHash('a link'), person.id],
    );
    const reset = { token: 'a link', password: `${next}-b` };
    expect((await app.call('POST', '/auth/reset-password', { body: reset })).status).to.equal(200);
    expect([await statusOf(token), await statusOf(key)], 'after a reset').to.deep.equal([401, 401]);
  });

  it('open the dashboard socket until they are revoked', async () => {
    const { key, id } = await created(tenant.admin, { orgId: secondOrg });
    const dashboard = await connectDashboard(app, key);
    const snapshot = await dashboard.subscribe();
    expect(snapshot.devices).to.have.lengthOf(1);
    const gone = new Promise((resolve) => dashboard.socket.once('disconnect', resolve));
    await app.call('DELETE', `/api-keys/${id}`, { token: tenant.admin.token });
    await gone;
    const refused = await connectDashboard(app, key).catch(
      (error: { data: { code: string } }) => error.data.code,
    );
    expect(refused).to.equal('UNAUTHENTICATED');
    const blind = await created(tenant.admin, { scopes: ['sites:read'] });
    const forbidden = await connectDashboard(app, blind.key).catch(
      (error: { data: { code: string } }) => error.data.code,
    );
    expect(forbidden).to.equal('FORBIDDEN');
  });

  it('stand in the audit trail: their making as their maker’s deed, their deeds as their own', async () => {
    const { key, id } = await created(tenant.admin, { scopes: ['agents:*'] });
    const made = await app.call('POST', '/enrollment-keys', {
      token: key,
      body: { orgId: tenant.orgId, name: 'By key' },
    });
    expect(made.status).to.equal(201);
    await app.server.chainWriter.flush();
    const entries = await sql(
      `select actor_type, actor_id, action, actor_email from audit_logs where resource_id = any(?::uuid[]) order by id`,
      [`{${id},${made.body.id}}`],
    );
    expect(entries).to.deep.equal([
      {
        actor_type: 'user',
        actor_id: tenant.admin.id,
        action: 'api_key.create',
        actor_email: tenant.admin.email,
      },
      {
        actor_type: 'api_key',
        actor_id: id,
        action: 'enrollment_key.create',
        actor_email: tenant.admin.email,
      },
    ]);
  });

  it('have their use kept while it cannot be written, and written once a minute', async () => {
    const { id } = await created(tenant.admin);
    const { lines, log } = recordingLog();
    const rename = (from: string, to: string) =>
      asOwner(app.database.ownerUrl, `alter table ${from} rename to ${to}`);
    const count = async () =>
      (await sql('select usage_count::int as count from api_keys where id = ?', [id]))[0].count;
    const usage = new KeyUsage(app.server.database.pool, log, 100);
    usage.note(id, 2);
    usage.note(id, 1);
    expect(await count()).to.equal(0);
    await eventually(count, (now) => now === 3);

    await rename('api_keys', 'away');
    usage.note(id, 4);
    await eventually(
      async () => lines.map(({ event }) => event),
      (said) => said.includes('api_keys.usage_not_written'),
    );
    await rename('away', 'api_keys');
    usage.note(id, 1);
    await usage.close();
    expect(await count()).to.equal(8);
  });

  it('have their use written behind, and nothing of it is lost at the end', async () => {
    const database = await createTestDatabase();
    const other = await createTestApp({ database });
    const own = await buildTenant(other);
    const { body } = await other.call('POST', '/api-keys', {
      token: own.admin.token,
      body: { name: 'x', scopes: ['*:*'] },
    });
    const use = () =>
      asOwner(database.ownerUrl, 'select usage_count::int as count, last_used_at as at from api_keys');
    for (let i = 0; i < 7; i++) await other.call('GET', '/auth/me', { token: body.key });
    expect(await use()).to.deep.equal([{ count: 0, at: null }]);
    await other.close();
    const [after] = await use();
    expect(after?.['count']).to.equal(7);
    expect(Date.now() - Number(after?.['at'])).to.be.within(0, 60_000);
    await database.drop();
  });
});
