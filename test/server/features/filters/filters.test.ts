import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import {
  buildDevice,
  buildOrganization,
  buildPartner,
  buildPerson,
  buildSite,
  type Person,
} from '../../../support/factories.ts';
import { createTestApp } from '../../../support/test-app.ts';
import { LINUX, all, of } from './conditions.ts';
import { filterGround } from './filter-ground.ts';

describe('saved filters', () => {
  const ground = filterGround();
  const { send, owner, create, trailOf, pathsOf } = ground;
  let system: Person;
  before(async () => {
    system = await buildPerson(ground.app, { scope: 'system' });
  });

  it('are made, read, changed and deleted in every scope that reaches them, each step noted', async () => {
    const orgAdmin = await buildPerson(ground.app, { scope: 'organization', orgId: ground.tenant.orgId });
    for (const person of [ground.tenant.admin, orgAdmin, system]) {
      const made = await create({ name: ' Linux ', description: 'all of it' }, person);
      expect(made.status).to.equal(201);
      const { id } = made.body;
      expect(made.body).to.have.all.keys(
        'id',
        'orgId',
        'name',
        'description',
        'conditions',
        'createdBy',
        'createdAt',
        'updatedAt',
      );
      expect(made.body).to.deep.include({
        orgId: ground.tenant.orgId,
        name: 'Linux',
        description: 'all of it',
        conditions: LINUX,
        createdBy: person.id,
      });
      const read = await send('GET', `/filters/${id}`, undefined, person);
      expect([read.status, read.body]).to.deep.equal([200, made.body]);
      const conditions = { operator: 'OR', conditions: [of('tags', 'isEmpty'), LINUX] };
      const changed = await send('PATCH', `/filters/${id}`, { conditions, description: null }, person);
      expect(changed.status).to.equal(200);
      expect(changed.body).to.deep.include({ name: 'Linux', description: null, conditions });
      const deleted = await send('DELETE', `/filters/${id}`, undefined, person);
      expect([deleted.status, deleted.body]).to.deep.equal([200, changed.body]);
      expect((await send('GET', `/filters/${id}`, undefined, person)).status).to.equal(404);
    }
    const noted = { resource_name: 'Linux' };
    const created = await trailOf('filter.create');
    expect(created).to.have.length(3);
    for (const entry of created) expect(entry).to.deep.include({ ...noted, details: {} });
    for (const entry of await trailOf('filter.update')) {
      expect(entry).to.deep.include(noted);
      const { changedFields, before, after } = (entry as { details: Record<string, object> }).details;
      expect(changedFields).to.deep.equal(['description', 'conditions']);
      expect(before).to.have.keys('description', 'conditions');
      expect(after).to.have.keys('description', 'conditions');
    }
    expect(await trailOf('filter.delete')).to.have.length(3);
  });

  it('belong to the organization that the scope says', async () => {
    for (const person of [ground.tenant.admin, system]) {
      const nowhere = await create({ orgId: undefined }, person);
      expect([nowhere.status, nowhere.body.error]).to.deep.equal([
        400,
        'orgId is required for partner scope',
      ]);
      expect((await create({ orgId: 'x' }, person)).body.details).to.deep.equal([
        { path: 'body.orgId', message: 'must be a UUID' },
      ]);
    }
    // One's own organization is the only one that there is, whatever is said.
    for (const orgId of [undefined, ground.stranger.orgId, 'nonsense']) {
      expect((await create({ orgId }, ground.tenant.technician)).body.orgId).to.equal(ground.tenant.orgId);
    }
    const foreign = await create({ orgId: ground.stranger.orgId });
    expect([foreign.status, foreign.body.error]).to.deep.equal([403, 'Access to this organization denied']);
    expect((await create({ orgId: newId() }, system)).status).to.equal(404);
  });

  it('are out of reach of everybody else, and of those who lack the permission', async () => {
    const { id } = (await create()).body;
    const elsewhere = await buildPerson(ground.app, {
      scope: 'organization',
      orgId: await buildOrganization(ground.app, ground.tenant.partnerId),
    });
    for (const person of [ground.stranger.admin, ground.stranger.technician, elsewhere]) {
      expect((await send('GET', `/filters/${id}`, undefined, person)).status).to.equal(404);
      expect((await send('PATCH', `/filters/${id}`, { name: 'x' }, person)).status).to.equal(404);
      expect((await send('POST', `/filters/${id}/preview`, undefined, person)).status).to.equal(404);
      expect((await send('GET', `/filters/${id}/usage`, undefined, person)).status).to.equal(404);
      expect((await send('GET', `/devices?filterId=${id}`, undefined, person)).status).to.equal(404);
      const explained = await send('POST', '/filters/explain', { filterId: id, deviceId: newId() }, person);
      expect(explained.status).to.equal(404);
    }
    const viewer = await buildPerson(ground.app, {
      scope: 'organization',
      orgId: ground.tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    expect((await send('GET', `/filters/${id}`, undefined, viewer)).status).to.equal(200);
    expect((await send('POST', `/filters/${id}/preview`, undefined, viewer)).status).to.equal(200);
    expect((await create({}, viewer)).status).to.equal(403);
    expect((await send('DELETE', `/filters/${id}`, undefined, ground.tenant.technician)).status).to.equal(
      403,
    );
    // A key that may read filters sees no device by them, and one that may read devices no filter.
    for (const [scope, path, method] of [
      ['filters:read', `/filters/${id}/preview`, 'POST'],
      ['devices:read', `/devices?filterId=${id}`, 'GET'],
    ] as const) {
      const { body } = await send('POST', '/api-keys', { name: 'Key', scopes: [scope] });
      expect((await ground.app.call(method, path, { token: body.key })).status, scope).to.equal(403);
    }
  });

  it('are refused with all that is wrong', async () => {
    const wrong = await create({
      name: ' ',
      description: 'x'.repeat(1001),
      conditions: all(of('hostnme', 'equals', 'x'), of('status', 'equals', 'dead'), {
        operator: 'OR',
        conditions: [],
      }),
      colour: 'red',
    });
    expect(wrong.status).to.equal(400);
    expect(pathsOf(wrong)).to.include.members([
      'body.name',
      'body.description',
      'body.conditions.conditions.0.field',
      'body.conditions.conditions.1.value',
      'body.conditions.conditions.2.conditions',
    ]);
    expect(JSON.stringify(wrong.body)).to.include('Unknown field');
    for (const missing of [
      { name: undefined },
      { conditions: undefined },
      { conditions: null },
      { conditions: [] },
    ]) {
      expect((await create(missing)).status).to.equal(400);
    }
    const { id } = (await create()).body;
    for (const nothing of [{}, { nonsense: 1 }]) {
      const { status, body } = await send('PATCH', `/filters/${id}`, nothing);
      expect([status, body.error]).to.deep.equal([400, 'no fields provided']);
    }
    const patched = await send('PATCH', `/filters/${id}`, {
      conditions: all(of('custom.x', 'greaterThan', 5)),
    });
    expect(pathsOf(patched)).to.deep.equal(['body.conditions.conditions.0.operator']);
  });

  it('are listed newest first over all accessible organizations, found by part of name or description', async () => {
    const other = await buildOrganization(ground.app, ground.tenant.partnerId);
    const names = ['First', 'Second 100%', 'Third'];
    for (const [index, name] of names.entries()) {
      await create({
        name,
        orgId: index === 1 ? other : ground.tenant.orgId,
        ...(index === 2 ? { description: 'Old PRINTERS' } : {}),
      });
    }
    const listed = async (query = '', person?: Person) => {
      const { status, body } = await send('GET', `/filters${query}`, undefined, person);
      expect(status).to.equal(200);
      expect(body.total).to.equal(body.data.length);
      return body.data.map(({ name }: { name: string }) => name);
    };
    expect(await listed()).to.deep.equal(['Third', 'Second 100%', 'First']);
    expect(await listed('', ground.tenant.technician)).to.deep.equal(['Third', 'First']);
    expect(await listed('?search=printer')).to.deep.equal(['Third']);
    expect(await listed('?search=SEC')).to.deep.equal(['Second 100%']);
    expect(await listed('?search=%25')).to.deep.equal(['Second 100%']);
    expect(await listed('?search=_')).to.deep.equal([]);
    expect(await listed('', ground.stranger.technician)).to.deep.equal([]);
    expect(await listed('', system)).to.include.members(names);
    const [newest] = (await send('GET', '/filters')).body.data;
    expect(newest).to.deep.equal((await send('GET', `/filters/${newest.id}`)).body);
  });

  it('are not made in an organization that is suspended, nor beyond what a list can hold', async () => {
    const suspended = await buildOrganization(ground.app, ground.tenant.partnerId, { status: 'suspended' });
    expect((await create({ orgId: suspended })).body.code).to.equal('TENANT_INACTIVE');
    await owner(
      `insert into saved_filters (id, org_id, name, conditions) select gen_random_uuid(), $1, 'x', $2 from generate_series(1, 1000)`,
      [ground.tenant.orgId, JSON.stringify(all(of('hostname', 'contains', 'x'.repeat(40_000))))],
    );
    expect((await create()).body.code).to.equal('LIMIT_REACHED');
    const { body } = await send('GET', '/filters');
    expect(body.total).to.equal(1000);
    expect(body.data.length).to.be.within(700, 900);
  });
});

describe('saved filters of a partner’s people who reach a part of it', () => {
  it('are those of the organizations that they reach', async () => {
    const app = await createTestApp();
    try {
      const partnerId = await buildPartner(app);
      const [near, far] = [await buildOrganization(app, partnerId), await buildOrganization(app, partnerId)];
      const admin = await buildPerson(app, { scope: 'partner', partnerId });
      const limited = await buildPerson(app, {
        scope: 'partner',
        partnerId,
        orgAccess: 'selected',
        orgIds: [near],
      });
      for (const orgId of [near, far]) {
        await buildSite(app, orgId);
        await buildDevice(app, orgId);
        await app.call('POST', '/filters', {
          token: admin.token,
          body: { orgId, name: orgId, conditions: all(of('hostname', 'isNotNull')) },
        });
      }
      const listed = await app.call('GET', '/filters', { token: limited.token });
      expect(listed.body.data.map(({ name }: { name: string }) => name)).to.deep.equal([near]);
      const preview = await app.call('POST', `/filters/${listed.body.data[0].id}/preview`, {
        token: limited.token,
      });
      expect(preview.body.data.totalCount).to.equal(1);
      const named = { conditions: all(of('orgId', 'in', [near, far])) };
      expect(
        (await app.call('POST', '/filters/preview', { token: limited.token, body: named })).status,
      ).to.equal(400);
      expect(
        (await app.call('POST', '/filters/preview', { token: admin.token, body: named })).body.data
          .totalCount,
      ).to.equal(2);
    } finally {
      await app.close();
    }
  });
});
