import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  type Person,
} from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('device groups, by caller,', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let system: Person;

  before(async () => {
    app = await sharedTestApp();
    system = await buildPerson(app, { scope: 'system' });
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const send = (method: string, path: string, body?: unknown, person: Person = tenant.admin) =>
    app.call(method, path, { token: person.token, ...(body === undefined ? {} : { body }) });
  const create = (more: object = {}, person?: Person) =>
    send('POST', '/groups', { orgId: tenant.orgId, name: `Group ${newId()}`, ...more }, person);
  const suspend = (orgId: string) =>
    withSystem(app.server.database.pool, 'test', (tx) =>
      tx('organizations').where({ id: orgId }).update({ status: 'suspended' }),
    );
  async function devices(count: number): Promise<string[]> {
    const ids: string[] = [];
    for (let n = 0; n < count; n++) ids.push((await buildDevice(app, tenant.orgId)).deviceId);
    return ids;
  }
  const idsOf = (answer: { body: { data: { id: string }[] } }) => answer.body.data.map(({ id }) => id);

  it('are listed in the organizations that the caller reaches', async () => {
    const second = await buildOrganization(app, tenant.partnerId);
    const stranger = await buildTenant(app);
    const { body: mine } = await create({ name: 'a' });
    const { body: theirs } = await create({ orgId: second, name: 'b' });
    const { body: foreign } = await create({ orgId: stranger.orgId, name: 'c' }, stranger.admin);
    const selected = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [second],
    });
    const none = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'none',
    });
    const list = (person: Person) => send('GET', '/groups', undefined, person).then(idsOf);
    expect(await list(tenant.technician)).to.deep.equal([mine.id]);
    expect(await list(tenant.admin)).to.deep.equal([mine.id, theirs.id]);
    expect(await list(selected)).to.deep.equal([theirs.id]);
    expect(await list(none)).to.deep.equal([]);
    expect(await list(system)).to.include.members([mine.id, theirs.id, foreign.id]);
    expect(idsOf(await send('GET', `/groups?orgId=${second}`))).to.deep.equal([theirs.id]);

    for (const [person, orgId] of [
      [tenant.technician, second],
      [selected, tenant.orgId],
      [tenant.admin, stranger.orgId],
    ] as const) {
      const { status, body } = await send('GET', `/groups?orgId=${orgId}`, undefined, person);
      expect([status, body.error]).to.deep.equal([403, 'Access to this organization denied']);
    }
    expect((await send('GET', `/groups?orgId=${newId()}`, undefined, system)).status).to.equal(404);
  });

  it('cannot be made in, or reached from, an organization out of reach', async () => {
    const second = await buildOrganization(app, tenant.partnerId);
    const stranger = await buildTenant(app);
    const selected = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [second],
    });
    const deviceIds = await devices(1);
    const { body: group } = await create({ deviceIds });
    for (const person of [selected, stranger.admin, stranger.technician]) {
      const made = await create({}, person);
      expect([made.status, made.body.error]).to.deep.equal([403, 'Access to this organization denied']);
      for (const [method, path, body] of [
        ['GET', '', undefined],
        ['PATCH', '', { name: 'x' }],
        ['PATCH', '', { orgId: stranger.orgId, name: 'x' }],
        ['DELETE', '', undefined],
        ['GET', '/devices', undefined],
        ['POST', '/devices', { deviceIds }],
        ['POST', '/devices/remove', { deviceIds }],
      ] as const) {
        const answer = await send(method, `/groups/${group.id}${path}`, body, person);
        expect([answer.status, answer.body.error], `${method} ${path}`).to.deep.equal([
          404,
          'Group not found',
        ]);
      }
      expect(idsOf(await send('GET', `/devices?groupId=${group.id}`, undefined, person))).to.deep.equal([]);
    }
    expect((await send('GET', `/groups/${group.id}`)).body).to.deep.equal(group);
  });

  it('are looked at, and not changed, by people who may only look', async () => {
    const viewer = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    const deviceIds = await devices(1);
    const { body: group } = await create({ deviceIds });
    expect((await send('GET', `/groups/${group.id}`, undefined, viewer)).status).to.equal(200);
    expect((await send('GET', `/groups/${group.id}/devices`, undefined, viewer)).status).to.equal(200);
    expect((await create({}, viewer)).status).to.equal(403);
    expect((await send('DELETE', `/groups/${group.id}`, undefined, viewer)).status).to.equal(403);
    expect((await send('POST', `/groups/${group.id}/devices`, { deviceIds }, viewer)).status).to.equal(403);
  });

  it('of a suspended organization are shown, and not managed', async () => {
    const deviceIds = await devices(2);
    const { body: group } = await create({ deviceIds: deviceIds.slice(0, 1) });
    await suspend(tenant.orgId);
    for (const [method, path, body] of [
      ['POST', '/groups', { orgId: tenant.orgId, name: 'x' }],
      ['PATCH', `/groups/${group.id}`, { name: 'x' }],
      ['DELETE', `/groups/${group.id}`, undefined],
      ['POST', `/groups/${group.id}/devices`, { deviceIds }],
      ['POST', `/groups/${group.id}/devices/remove`, { deviceIds }],
    ] as const) {
      const answer = await send(method, path, body);
      expect([answer.status, answer.body.code], `${method} ${path}`).to.deep.equal([403, 'TENANT_INACTIVE']);
    }
    expect((await send('GET', `/groups/${group.id}`)).body).to.deep.equal(group);
    expect(idsOf(await send('GET', `/groups/${group.id}/devices`))).to.deep.equal(deviceIds.slice(0, 1));
  });
});
