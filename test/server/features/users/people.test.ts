import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildOrganization, buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('people', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp();
  });
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });
  after(async () => app.close());

  const as = (who: Person, method: string, path: string, body?: object) =>
    app.call(method, path, { token: who.token, body });
  const seenBy = async (who: Person, query = '') =>
    (await as(who, 'GET', `/users?limit=100${query}`)).body.data.map(({ id }: { id: string }) => id);
  const trail = async (id: string) => {
    await app.server.chainWriter.flush();
    return withSystem(app.server.database.pool, 'test', (tx) =>
      tx('audit_logs')
        .where({ resource_id: id })
        .whereNot({ action: 'user.login' })
        .orderBy('seq')
        .select('action', 'details'),
    );
  };
  const roleOf = async (permissions: string[], scope = 'partner') =>
    (await as(tenant.admin, 'POST', '/roles', { name: 'Some', scope, permissions })).body.id as string;
  const colleague = (role: string = SYSTEM_ROLES.partnerAdmin) =>
    buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId, role });
  const orgAdmin = () => buildPerson(app, { scope: 'organization', orgId: tenant.orgId });

  it('are listed for the people who manage them only', async () => {
    const other = await buildTenant(app);
    const second = await buildOrganization(app, tenant.partnerId);
    const far = await buildPerson(app, { scope: 'organization', orgId: second });
    const boss = await orgAdmin();
    const root = await buildPerson(app, { scope: 'system' });
    const half = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [second],
    });
    expect(await seenBy(tenant.admin)).to.have.members([
      tenant.admin.id,
      tenant.technician.id,
      far.id,
      boss.id,
      half.id,
    ]);
    expect(await seenBy(half)).to.have.members([tenant.admin.id, far.id, half.id]);
    expect(await seenBy(boss)).to.have.members([boss.id, tenant.technician.id]);
    expect(await seenBy(root)).to.include.members([tenant.admin.id, other.admin.id, far.id, root.id]);
    expect(await seenBy(tenant.admin, `&orgId=${second}`)).to.deep.equal([far.id]);
    expect((await as(half, 'GET', `/users?orgId=${tenant.orgId}`)).status).to.equal(403);

    for (const [method, path, body] of [
      ['GET', ''],
      ['PATCH', '', { name: 'Taken' }],
      ['DELETE', ''],
      ['POST', '/role', { roleId: SYSTEM_ROLES.partnerViewer }],
    ] as const) {
      const answer = await as(other.admin, method, `/users/${tenant.admin.id}${path}`, body);
      expect([answer.status, answer.body.code], method).to.deep.equal([404, 'NOT_FOUND']);
    }
    expect((await as(boss, 'GET', `/users/${tenant.admin.id}`)).status).to.equal(404);
    expect((await as(tenant.technician, 'GET', '/users')).status).to.equal(403);
  });

  it('are found by a part of name or address, a page at a time, without their secrets', async () => {
    const { body } = await as(tenant.admin, 'GET', `/users?search=${tenant.technician.email.slice(0, -6)}`);
    expect(body.pagination).to.deep.equal({ page: 1, limit: 50, total: 1 });
    expect(body.data[0]).to.deep.include({
      id: tenant.technician.id,
      scope: 'organization',
      orgId: tenant.orgId,
      partnerId: null,
      roleName: 'Organization Technician',
      status: 'active',
      orgAccess: null,
    });
    expect(JSON.stringify(body)).not.to.match(/hash|argon/i);
    expect((await as(tenant.admin, 'GET', '/users?search=%25_')).body.data).to.deep.equal([]);
    const page = (await as(tenant.admin, 'GET', '/users?limit=1&page=2')).body;
    expect([page.data.length, page.pagination.total]).to.deep.equal([1, 2]);
  });

  it('see and rename themselves', async () => {
    const me = (await as(tenant.technician, 'GET', '/users/me')).body;
    expect([me.id, me.orgId]).to.deep.equal([tenant.technician.id, tenant.orgId]);
    const changed = await as(tenant.technician, 'PATCH', '/users/me', {
      name: 'New Name',
      status: 'disabled',
    });
    expect([changed.status, changed.body.name, changed.body.status]).to.deep.equal([
      200,
      'New Name',
      'active',
    ]);
  });

  it('that are disabled are out at once, with all their sessions, until they are enabled', async () => {
    const { technician } = tenant;
    const disabled = await as(tenant.admin, 'PATCH', `/users/${technician.id}`, { status: 'disabled' });
    expect([disabled.status, disabled.body.status]).to.deep.equal([200, 'disabled']);
    expect((await as(technician, 'GET', '/auth/me')).status).to.equal(401);
    await as(tenant.admin, 'PATCH', `/users/${technician.id}`, { status: 'active' });
    expect((await as(technician, 'GET', '/auth/me')).status, 'the old session stays ended').to.equal(401);
    const again = await app.call('POST', '/auth/login', {
      body: { email: technician.email, password: 'Correct-Horse-9' },
    });
    expect(again.status).to.equal(200);
    expect((await trail(technician.id)).map(({ action }) => action)).to.deep.equal([
      'user.update',
      'user.update',
    ]);
  });

  it('get another role with their next request, and the trail knows both', async () => {
    const person = await colleague(SYSTEM_ROLES.partnerViewer);
    const second = await buildOrganization(app, tenant.partnerId);
    const answer = await as(tenant.admin, 'POST', `/users/${person.id}/role`, {
      roleId: SYSTEM_ROLES.partnerTechnician,
      orgAccess: 'selected',
      orgIds: [second, second],
    });
    expect(answer.status).to.equal(200);
    expect(answer.body).to.deep.include({ roleName: 'Partner Technician', orgIds: [second] });
    const me = (await as(person, 'GET', '/auth/me')).body;
    expect([me.role.name, me.accessibleOrgIds]).to.deep.equal(['Partner Technician', [second]]);
    const [entry] = await trail(person.id);
    expect(entry.action).to.equal('user.permission.change');
    expect(entry.details.before).to.include({ roleName: 'Partner Viewer', orgAccess: 'all' });
    expect(entry.details.after).to.include({ roleName: 'Partner Technician', orgAccess: 'selected' });
  });

  it('get a role that fits where they belong, or none', async () => {
    const other = await buildTenant(app);
    const foreign = (
      await as(other.admin, 'POST', '/roles', { name: 'Foreign', scope: 'organization', permissions: [] })
    ).body.id;
    const give = (who: string, body: object) => as(tenant.admin, 'POST', `/users/${who}/role`, body);
    for (const roleId of [SYSTEM_ROLES.partnerViewer, SYSTEM_ROLES.systemAdmin, foreign, newId()]) {
      const { status, body } = await give(tenant.technician.id, { roleId });
      expect([status, body.details?.[0].path], roleId).to.deep.equal([400, 'body.roleId']);
    }
    const orgOnly = await give(tenant.technician.id, {
      roleId: SYSTEM_ROLES.organizationViewer,
      orgAccess: 'all',
    });
    expect([orgOnly.status, orgOnly.body.details[0].path]).to.deep.equal([400, 'body.orgAccess']);
    const person = await colleague();
    const outside = await give(person.id, {
      roleId: SYSTEM_ROLES.partnerViewer,
      orgAccess: 'selected',
      orgIds: [other.orgId],
    });
    expect([outside.status, outside.body.error]).to.deep.equal([403, 'Access to this organization denied']);
  });

  it('never give, nor touch in others, more than they hold', async () => {
    const clerk = await colleague(await roleOf(['users:*', 'devices:read']));
    const viewer = await colleague(await roleOf(['devices:read']));
    const technician = await colleague(SYSTEM_ROLES.partnerTechnician);
    const expected: [string, string, string, object | undefined, number][] = [
      [viewer.id, 'POST', '/role', { roleId: SYSTEM_ROLES.partnerAdmin }, 403],
      [clerk.id, 'POST', '/role', { roleId: SYSTEM_ROLES.partnerAdmin }, 403],
      [technician.id, 'POST', '/role', { roleId: await roleOf(['devices:read']) }, 403],
      [technician.id, 'PATCH', '', { status: 'disabled' }, 403],
      [tenant.admin.id, 'DELETE', '', undefined, 403],
      [viewer.id, 'PATCH', '', { name: 'Fine' }, 200],
      [viewer.id, 'POST', '/role', { roleId: await roleOf(['users:read']) }, 200],
      [viewer.id, 'DELETE', '', undefined, 200],
    ];
    for (const [id, method, path, body, status] of expected) {
      const answer = await as(clerk, method, `/users/${id}${path}`, body);
      expect(answer.status, `${method} ${path} ${JSON.stringify(answer.body)}`).to.equal(status);
    }
  });

  it('never give a reach over organizations that they do not have', async () => {
    const second = await buildOrganization(app, tenant.partnerId);
    const half = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [second],
    });
    const person = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'none',
    });
    const give = (orgAccess: string, orgIds?: string[]) =>
      as(half, 'POST', `/users/${person.id}/role`, {
        roleId: SYSTEM_ROLES.partnerViewer,
        orgAccess,
        orgIds,
      });
    expect((await give('all')).status).to.equal(403);
    expect((await give('selected', [tenant.orgId])).status).to.equal(403);
    expect((await give('selected', [second])).status).to.equal(200);
    expect((await as(half, 'PATCH', `/users/${tenant.admin.id}`, { name: 'X' })).status).to.equal(403);
    expect((await as(half, 'DELETE', `/users/${half.id}`)).status, 'oneself').to.equal(200);
  });

  it('cannot be changed by a colleague who does not have all their organizations', async () => {
    const second = await buildOrganization(app, tenant.partnerId);
    const third = await buildOrganization(app, tenant.partnerId);
    const withOrganizations = (...orgIds: string[]) =>
      buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId, orgAccess: 'selected', orgIds });
    const half = await withOrganizations(second, third);
    const rename = async (person: Person) =>
      (await as(half, 'PATCH', `/users/${person.id}`, { name: 'X' })).status;
    expect(await rename(await withOrganizations(second)), 'fewer').to.equal(200);
    expect(await rename(await withOrganizations(second, third)), 'the same').to.equal(200);
    expect(await rename(await withOrganizations(tenant.orgId, second)), 'one of them').to.equal(403);
    expect(await rename(await withOrganizations(second, third, tenant.orgId)), 'more').to.equal(403);
  });

  it('that are removed lose everything but the account', async () => {
    const { technician } = tenant;
    const answer = await as(tenant.admin, 'DELETE', `/users/${technician.id}`);
    expect([answer.status, answer.body]).to.deep.equal([200, { success: true }]);
    expect((await as(technician, 'GET', '/auth/me')).status).to.equal(401);
    expect((await as(tenant.admin, 'GET', `/users/${technician.id}`)).status).to.equal(404);
    expect((await trail(technician.id))[0].action).to.equal('user.delete');
    const left = await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('users').where({ id: technician.id }).pluck('email'),
    );
    expect(left).to.deep.equal([technician.email]);
  });

  it('keep their last administrator, in a partner, an organization and the system', async () => {
    const boss = await orgAdmin();
    const places: [Person, string][] = [
      [tenant.admin, SYSTEM_ROLES.partnerViewer],
      [boss, SYSTEM_ROLES.organizationViewer],
    ];
    for (const [admin, roleId] of places) {
      for (const [method, path, body] of [
        ['PATCH', '', { status: 'disabled' }],
        ['POST', '/role', { roleId }],
        ['DELETE', ''],
      ] as const) {
        const answer = await as(admin, method, `/users/${admin.id}${path}`, body);
        expect([answer.status, answer.body.code], `${method} ${path}`).to.deep.equal([409, 'CONFLICT']);
      }
      expect((await as(admin, 'PATCH', `/users/${admin.id}`, { name: 'Chief' })).status).to.equal(200);
    }
    // Even by someone who is more.
    expect((await as(tenant.admin, 'DELETE', `/users/${boss.id}`)).status).to.equal(409);

    await withSystem(app.server.database.pool, 'test', (tx) => tx('system_users').delete());
    const root = await buildPerson(app, { scope: 'system' });
    expect((await as(root, 'DELETE', `/users/${root.id}`)).status).to.equal(409);
    await buildPerson(app, { scope: 'system' });
    expect((await as(root, 'DELETE', `/users/${root.id}`)).status).to.equal(200);
  });

  it('keep it when two administrators go for each other at the same moment', async () => {
    const attacks = [
      ['POST', '/role', { roleId: SYSTEM_ROLES.partnerViewer }],
      ['DELETE', '', undefined],
      ['PATCH', '', { status: 'disabled' }],
    ] as const;
    for (let round = 0; round < 9; round++) {
      const { partnerId, admin } = await buildTenant(app);
      const other = await buildPerson(app, { scope: 'partner', partnerId });
      const [method, path, body] = attacks[round % attacks.length]!;
      const answers = await Promise.all([
        as(admin, method, `/users/${other.id}${path}`, body),
        as(other, method, `/users/${admin.id}${path}`, body),
      ]);
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).to.have.lengthOf(1);
      // Who comes second is refused: as the last one's attacker, or as someone who is out by then.
      for (const status of statuses) expect(status).to.be.oneOf([200, 401, 403, 409]);
    }
  });
});
