import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem, withTenant } from '../../../../src/platform/db/transaction.ts';
import { buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('roles', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let orgAdmin: Person;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    orgAdmin = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
  });
  after(async () => app.close());

  const create = (who: Person, body: object) => app.call('POST', '/roles', { token: who.token, body });
  const helpers = async (scope: 'partner' | 'organization', permissions: string[]) =>
    (await create(tenant.admin, { name: `Helper ${Math.random()}`, scope, permissions })).body;
  const names = async (who: Person) =>
    (await app.call('GET', '/roles?limit=100', { token: who.token })).body.data.map(
      (role: { name: string }) => role.name,
    );

  it('have a catalogue of what they can allow', async () => {
    const { status, body } = await app.call('GET', '/permissions/catalog', {
      token: tenant.technician.token,
    });
    expect(status).to.equal(200);
    expect(body.permissions).to.include.members(['*:*', 'devices:*', 'devices:execute', 'audit:export']);
    expect(body.data.find((row: { resource: string }) => row.resource === 'users').actions).to.include(
      'invite',
    );
  });

  it('are made, read, changed and deleted by people who may, and the trail says so', async () => {
    const made = await create(tenant.admin, {
      name: 'Night shift',
      permissions: ['devices:read', 'alerts:write', 'devices:read'],
    });
    expect(made.status).to.equal(201);
    expect(made.body).to.deep.include({
      name: 'Night shift',
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgId: null,
      isSystem: false,
      permissions: ['alerts:write', 'devices:read'],
    });
    const path = `/roles/${made.body.id}`;
    const changed = await app.call('PATCH', path, {
      token: tenant.admin.token,
      body: { permissions: ['devices:*'] },
    });
    expect([changed.status, changed.body.name, changed.body.permissions]).to.deep.equal([
      200,
      'Night shift',
      ['devices:*'],
    ]);
    expect((await app.call('GET', path, { token: tenant.admin.token })).body.permissions).to.deep.equal([
      'devices:*',
    ]);
    expect((await app.call('DELETE', path, { token: tenant.admin.token })).body).to.deep.equal({
      success: true,
    });
    expect((await app.call('GET', path, { token: tenant.admin.token })).status).to.equal(404);
    await app.server.chainWriter.flush();
    const actions = await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('audit_logs').where({ resource_id: made.body.id }).orderBy('timestamp').pluck('action'),
    );
    expect(actions).to.have.members(['role.create', 'role.update', 'role.delete']);
  });

  it('are seen by their own partner or organization only, beside those of the system', async () => {
    const other = await buildTenant(app);
    const ours = await helpers('partner', ['devices:read']);
    const theirs = (
      await create(orgAdmin, { name: 'Reception', permissions: ['devices:read', 'sites:read'] })
    ).body;
    expect([theirs.scope, theirs.orgId, theirs.partnerId]).to.deep.equal([
      'organization',
      tenant.orgId,
      null,
    ]);
    expect(await names(tenant.admin)).to.include.members([ours.name, 'Reception', 'Partner Admin']);
    expect(await names(tenant.admin)).not.to.include('System Admin');
    expect(await names(orgAdmin)).to.include.members(['Reception', 'Organization Viewer']);
    expect(await names(orgAdmin)).not.to.include.members([ours.name]);
    expect(await names(other.admin)).not.to.include.members([ours.name, 'Reception']);
    for (const [method, body] of [['GET'], ['PATCH', { name: 'Mine' }], ['DELETE']] as const) {
      const { status } = await app.call(method, `/roles/${ours.id}`, { token: other.admin.token, body });
      expect(status, method).to.equal(404);
    }
  });

  it('of the system are never changed', async () => {
    const root = await buildPerson(app, { scope: 'system' });
    for (const who of [tenant.admin, root]) {
      const where = `/roles/${SYSTEM_ROLES.partnerViewer}`;
      const change = await app.call('PATCH', where, { token: who.token, body: { permissions: ['*:*'] } });
      expect([change.status, change.body.code]).to.deep.equal([403, 'FORBIDDEN']);
      expect((await app.call('DELETE', where, { token: who.token })).status).to.equal(403);
    }
  });

  it('are guarded by the database too: of the system against deletion, all against other tenants', async () => {
    const other = await buildTenant(app);
    const ours = await helpers('partner', []);
    const caller = (partnerId: string) =>
      ({ scope: 'partner', userId: null, partnerId, orgAccess: 'all', orgIds: [] }) as const;
    const touched = (partnerId: string, id: string) =>
      withTenant(app.server.database.pool, caller(partnerId), (tx) => tx('roles').where({ id }).delete());
    expect(await touched(tenant.partnerId, SYSTEM_ROLES.organizationViewer)).to.equal(0);
    expect(await touched(other.partnerId, ours.id)).to.equal(0);
    expect(await touched(tenant.partnerId, ours.id)).to.equal(1);
    const sessions = await withTenant(app.server.database.pool, caller(other.partnerId), (tx) =>
      tx('sessions').distinct('user_id').pluck('user_id'),
    );
    expect(sessions).to.have.members([other.admin.id, other.technician.id]);
  });

  it('never allow more than their maker holds', async () => {
    const maker = await helpers('partner', ['users:*', 'devices:read']);
    const clerk = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: maker.id,
    });
    expect(
      (await create(clerk, { name: 'Fine', permissions: ['users:read', 'devices:read'] })).status,
    ).to.equal(201);
    const beyond = await create(clerk, { name: 'Beyond', permissions: ['devices:*', 'users:read'] });
    expect([beyond.status, beyond.body.error]).to.deep.equal([
      403,
      'You cannot grant permissions that you do not have: devices:*.',
    ]);
    const strong = await helpers('partner', ['scripts:execute']);
    const widen = (id: string, permissions: string[]) =>
      app.call('PATCH', `/roles/${id}`, { token: clerk.token, body: { permissions } });
    expect((await widen(strong.id, ['users:read'])).status, 'one that is more already').to.equal(403);
    expect((await widen(maker.id, ['*:*'])).status, 'one’s own').to.equal(403);
    expect((await create(orgAdmin, { name: 'Up', scope: 'partner', permissions: [] })).status).to.equal(403);
  });

  it('count for organizations that a caller may not see, and are then not theirs to change', async () => {
    const ofPartner = await helpers('organization', ['devices:read']);
    const ofStaff = await helpers('partner', ['devices:read']);
    const ofOrganization = (await create(orgAdmin, { name: 'Front desk', permissions: ['devices:read'] }))
      .body;
    const blind = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'none',
    });
    const send = (method: string, id: string) =>
      app.call(method, `/roles/${id}`, {
        token: blind.token,
        body: method === 'PATCH' ? { permissions: ['*:*'] } : undefined,
      });
    expect(await names(blind))
      .to.include(ofPartner.name)
      .and.not.to.include('Front desk');
    for (const method of ['GET', 'PATCH', 'DELETE']) {
      expect((await send(method, ofOrganization.id)).status, method).to.equal(404);
    }
    for (const { id } of [ofPartner, ofStaff]) {
      for (const method of ['PATCH', 'DELETE']) {
        const { status, body } = await send(method, id);
        expect([status, body.error], method).to.deep.equal([
          403,
          'Only users with access to all organizations can change roles of the whole partner.',
        ]);
      }
    }
    const made = await create(blind, { name: 'Everywhere', scope: 'organization', permissions: [] });
    expect(made.status).to.equal(403);
  });

  it('refuse a permission that is not known, naming it', async () => {
    const { status, body } = await create(tenant.admin, {
      name: 'Odd',
      permissions: ['devices:read', 'devices:fly'],
    });
    expect(status).to.equal(400);
    expect(body.details).to.deep.equal([
      { path: 'body.permissions.1', message: '"devices:fly" is not a known permission' },
    ]);
  });

  it('that someone holds are not deleted, nor robbed of everything; a change counts with the next request', async () => {
    const role = await helpers('organization', ['*:*']);
    const person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId, role: role.id });
    const send = (method: string, body?: object) =>
      app.call(method, `/roles/${role.id}`, { token: tenant.admin.token, body });
    expect((await send('DELETE')).status).to.equal(409);
    expect((await send('PATCH', { permissions: ['users:read'] })).status).to.equal(409);
    expect((await send('PATCH', { name: 'Chief' })).body.name).to.equal('Chief');
    // An organization sees the role of its partner that one of its people holds, and cannot change it.
    expect(await names(orgAdmin)).to.include('Chief');
    const meddling = await app.call('PATCH', `/roles/${role.id}`, {
      token: orgAdmin.token,
      body: { name: 'Ours' },
    });
    expect(meddling.status).to.equal(403);

    const small = await helpers('organization', ['users:read']);
    await app.call('POST', `/users/${person.id}/role`, {
      token: tenant.admin.token,
      body: { roleId: small.id },
    });
    expect((await app.call('GET', '/users', { token: person.token })).status).to.equal(200);
    await app.call('PATCH', `/roles/${small.id}`, { token: tenant.admin.token, body: { permissions: [] } });
    expect((await app.call('GET', '/users', { token: person.token })).status).to.equal(403);
  });
});
