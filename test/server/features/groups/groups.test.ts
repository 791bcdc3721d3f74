import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
  type Person,
} from '../../../support/factories.ts';
import { eventually } from '../../../support/eventually.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('device groups', () => {
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
  const inDatabase = (sql: string, values: readonly (string | number)[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values));
  const auditOf = async (resourceId: string) => {
    await app.server.chainWriter.flush();
    return (
      await inDatabase(
        `select action, org_id, actor_id, resource_name, details from audit_logs where resource_id = ? order by id`,
        [resourceId],
      )
    ).rows;
  };
  async function devices(count: number, orgId = tenant.orgId): Promise<string[]> {
    const ids: string[] = [];
    for (let n = 0; n < count; n++) ids.push((await buildDevice(app, orgId)).deviceId);
    return ids;
  }
  const namesOf = (answer: { body: { data: { name: string }[] } }) =>
    answer.body.data.map(({ name }) => name);

  describe('as records', () => {
    it('are no more than 1,000 in an organization', async () => {
      await asOwner(
        app.database.ownerUrl,
        `insert into device_groups (id, org_id, name) select gen_random_uuid(), $1, 'g' || n from generate_series(1, 1000) n`,
        [tenant.orgId],
      );
      const { status, body } = await create();
      expect([status, body.code, body.error]).to.deep.equal([
        403,
        'LIMIT_REACHED',
        'Group limit reached (1000).',
      ]);
    });

    it('are made, read, changed and deleted in every scope that reaches them, each step noted', async () => {
      for (const person of [tenant.technician, tenant.admin, system]) {
        const created = await create(
          { name: ' Tills ', description: 'Point of sale', siteId: tenant.siteId },
          person,
        );
        expect(created.status).to.equal(201);
        const { id } = created.body;
        expect(created.body).to.deep.include({
          orgId: tenant.orgId,
          siteId: tenant.siteId,
          name: 'Tills',
          description: 'Point of sale',
          type: 'static',
          deviceCount: 0,
          createdBy: person.id,
        });
        expect((await send('GET', `/groups/${id}`, undefined, person)).body).to.deep.equal(created.body);

        const changed = await send(
          'PATCH',
          `/groups/${id}`,
          { name: 'Counters', description: null, siteId: null, orgId: tenant.orgId.toUpperCase() },
          person,
        );
        expect(changed.status).to.equal(200);
        expect(changed.body).to.deep.include({ name: 'Counters', description: null, siteId: null });
        expect(changed.body).not.to.have.property('changedFields');
        expect((await send('DELETE', `/groups/${id}`, undefined, person)).body).to.deep.equal({
          success: true,
        });
        expect((await send('GET', `/groups/${id}`, undefined, person)).status).to.equal(404);

        const common = { org_id: tenant.orgId, actor_id: person.id };
        expect(await auditOf(id)).to.deep.equal([
          { ...common, action: 'group.create', resource_name: 'Tills', details: { deviceCount: 0 } },
          {
            ...common,
            action: 'group.update',
            resource_name: 'Counters',
            details: {
              changedFields: ['name', 'description', 'siteId'],
              before: { name: 'Tills', description: 'Point of sale', siteId: tenant.siteId },
              after: { name: 'Counters', description: null, siteId: null },
            },
          },
          { ...common, action: 'group.delete', resource_name: 'Counters', details: {} },
        ]);
      }
    });

    it('refuse a patch without a field that they have, and another organization', async () => {
      const { body: group } = await create();
      for (const patch of [{}, { nonsense: 1 }, { orgId: tenant.orgId }]) {
        const { status, body } = await send('PATCH', `/groups/${group.id}`, patch);
        expect([status, body.error], JSON.stringify(patch)).to.deep.equal([400, 'no fields provided']);
      }
      const other = await buildOrganization(app, tenant.partnerId);
      const moved = await send('PATCH', `/groups/${group.id}`, { orgId: other, name: 'x' });
      expect([moved.status, moved.body.details]).to.deep.equal([
        400,
        [{ path: 'body.orgId', message: 'cannot be changed' }],
      ]);
      expect((await send('GET', `/groups/${group.id}`)).body).to.deep.equal(group);
      expect(await auditOf(group.id)).to.have.length(1);
    });

    it('are refused by name if a field is not right', async () => {
      const wrong: [object, string][] = [
        [{ name: '  ' }, 'body.name'],
        [{ name: 'x'.repeat(256) }, 'body.name'],
        [{ name: 'a\u0000b' }, 'body.name'],
        [{ description: 'x'.repeat(1001) }, 'body.description'],
        [{ type: 'magic' }, 'body.type'],
        [{ siteId: 'x' }, 'body.siteId'],
        [{ deviceIds: ['x'] }, 'body.deviceIds.0'],
        [{ deviceIds: Array.from({ length: 1001 }, newId) }, 'body.deviceIds'],
        [{ createdBy: newId() }, 'body'],
      ];
      for (const [fields, path] of wrong) {
        const { status, body } = await create(fields);
        expect([status, body.details?.[0]?.path], path).to.deep.equal([400, path]);
      }
      const longest = await create({ name: 'Ü'.repeat(255), description: 'Ü'.repeat(1000) });
      expect(longest.status).to.equal(201);
    });

    it('have names of their own within the organization, in any case, however many ask at once', async () => {
      const names = ['Ärzte', 'ärzte', 'ÄRZTE', ' Ärzte '];
      const answers = await Promise.all(names.map((name) => create({ name })));
      expect(answers.map(({ status }) => status)).to.have.members([201, 409, 409, 409]);
      const refused = answers.find(({ status }) => status === 409)!;
      expect([refused.body.code, refused.body.details[0].path]).to.deep.equal(['CONFLICT', 'body.name']);

      const { body: second } = await create({ name: 'Second' });
      expect((await send('PATCH', `/groups/${second.id}`, { name: 'äRZTE' })).status).to.equal(409);
      expect((await send('PATCH', `/groups/${second.id}`, { name: 'SECOND' })).body.name).to.equal('SECOND');
      const other = await buildOrganization(app, tenant.partnerId);
      expect((await create({ orgId: other, name: 'Ärzte' })).status).to.equal(201);
    });

    it('take sites of their own organization only', async () => {
      const stranger = await buildTenant(app);
      const sibling = await buildSite(app, await buildOrganization(app, tenant.partnerId));
      const { body: group } = await create();
      for (const attempt of [
        (siteId: string) => create({ siteId }),
        (siteId: string) => send('PATCH', `/groups/${group.id}`, { siteId }),
      ]) {
        const foreign = await attempt(stranger.siteId);
        expect([foreign.status, foreign.body.error]).to.deep.equal([403, 'Access to this site denied']);
        const unknown = await attempt(newId());
        expect([unknown.status, unknown.body.error]).to.deep.equal([404, 'Site not found']);
        const elsewhere = await attempt(sibling);
        expect([elsewhere.status, elsewhere.body.details]).to.deep.equal([
          400,
          [{ path: 'body.siteId', message: 'must be a site of the organization' }],
        ]);
        expect((await attempt(tenant.siteId)).body.siteId).to.equal(tenant.siteId);
      }
    });

    it('outlive the site that they are filed at', async () => {
      const siteId = await buildSite(app, tenant.orgId);
      const deviceIds = await devices(1);
      const { body: group } = await create({ siteId, deviceIds });
      expect((await send('DELETE', `/orgs/sites/${siteId}`)).status).to.equal(200);
      const { body } = await send('GET', `/groups/${group.id}`);
      expect(body).to.deep.include({ orgId: tenant.orgId, siteId: null, deviceCount: 1 });
    });

    it('are not moved to a site that is deleted at the same time', async () => {
      const siteId = await buildSite(app, tenant.orgId);
      const { body: group } = await create({ siteId: tenant.siteId });
      const waiting = () =>
        asOwner<{ pid: number }>(
          app.database.ownerUrl,
          `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
      // In an array, because a promise that is returned would be waited for before the commit.
      const [moved] = await withSystem(app.server.database.pool, 'test', async (tx) => {
        await tx('sites').where({ id: siteId }).delete();
        const answer = send('PATCH', `/groups/${group.id}`, { siteId });
        await eventually(waiting, ({ length }) => length === 1);
        return [answer];
      });
      expect([(await moved)?.status, (await moved)?.body.code]).to.deep.equal([409, 'CONFLICT']);
      expect((await send('GET', `/groups/${group.id}`)).body).to.deep.equal(group);
    });

    it('outlive the person who made them', async () => {
      const person = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      const { body: group } = await create({ deviceIds: await devices(1) }, person);
      await inDatabase('delete from organization_users where user_id = ?', [person.id]);
      await inDatabase('delete from users where id = ?', [person.id]);
      const { body } = await send('GET', `/groups/${group.id}`);
      expect(body).to.deep.include({ createdBy: null, deviceCount: 1 });
    });
  });

  describe('in lists', () => {
    it('come by name, each with the number of its devices, found by part of the name', async () => {
      const [first, second] = (await devices(2)) as [string, string];
      await create({ name: 'beta', deviceIds: [first] });
      await create({ name: 'Alpha 100%', deviceIds: [first, second] });
      await create({ name: 'gamma', siteId: tenant.siteId });
      const { body } = await send('GET', `/groups?orgId=${tenant.orgId}`);
      expect(
        body.data.map(({ name, deviceCount }: { name: string; deviceCount: number }) => [name, deviceCount]),
      ).to.deep.equal([
        ['Alpha 100%', 2],
        ['beta', 1],
        ['gamma', 0],
      ]);
      expect(body.pagination).to.deep.equal({ page: 1, limit: 50, total: 3 });
      const paged = await send('GET', '/groups?page=2&limit=2');
      expect([namesOf(paged), paged.body.pagination.total]).to.deep.equal([['gamma'], 3]);

      expect(namesOf(await send('GET', `/groups?siteId=${tenant.siteId}`))).to.deep.equal(['gamma']);
      const finds = (text: string) => send('GET', `/groups?search=${encodeURIComponent(text)}`).then(namesOf);
      expect(await finds('ALPH')).to.deep.equal(['Alpha 100%']);
      expect(await finds('0%')).to.deep.equal(['Alpha 100%']);
      expect(await finds('%')).to.deep.equal(['Alpha 100%']);
      expect(await finds('b_ta')).to.deep.equal([]);
      expect(await finds('\\')).to.deep.equal([]);
    });
  });
});
