import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { newId } from '../../../src/platform/ids.ts';
import {
  buildDevice,
  buildOrganization,
  buildPartner,
  buildPerson,
  buildSite,
  buildTenant,
  type EnrolledDevice,
  type Person,
} from '../../support/factories.ts';
import { createTestApp, type TestApp } from '../../support/test-app.ts';
import { asOwner } from '../../support/test-postgres.ts';

const of = (field: string, operator: string, value?: unknown) => ({
  field,
  operator,
  ...(value === undefined ? {} : { value }),
});
const all = (...conditions: unknown[]) => ({ operator: 'AND', conditions });

describe('saved filters', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let stranger: Awaited<ReturnType<typeof buildTenant>>;
  let system: Person;

  before(async () => {
    app = await createTestApp();
    system = await buildPerson(app, { scope: 'system' });
    stranger = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const send = (method: string, path: string, body?: unknown, person: Person = tenant.admin) =>
    app.call(method, path, { token: person.token, ...(body === undefined ? {} : { body }) });
  const LINUX = all(of('osType', 'equals', 'linux'));
  const create = (more: object = {}, person?: Person) =>
    send('POST', '/filters', { orgId: tenant.orgId, name: 'Linux', conditions: LINUX, ...more }, person);
  const owner = (sql: string, values: unknown[] = []) => asOwner(app.database.ownerUrl, sql, values);
  const trailOf = async (action: string, orgId: string | null = tenant.orgId) => {
    await app.server.auditSealer.flush();
    return owner(
      `select resource_id, resource_name, details from audit_logs where action = $1 and (org_id = $2 or (org_id is null and $2::uuid is null and partner_id = $3)) order by id`,
      [action, orgId, tenant.partnerId],
    );
  };
  const pathsOf = (answer: { body: { details: { path: string }[] } }) =>
    answer.body.details.map(({ path }) => path);

  describe('as records', () => {
    it('are made, read, changed and deleted in every scope that reaches them, each step noted', async () => {
      const orgAdmin = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
      for (const person of [tenant.admin, orgAdmin, system]) {
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
          orgId: tenant.orgId,
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
        expect(entry).to.deep.include({
          ...noted,
          details: { changedFields: ['description', 'conditions'] },
        });
      }
      expect(await trailOf('filter.delete')).to.have.length(3);
    });

    it('belong to the organization that the scope says', async () => {
      for (const person of [tenant.admin, system]) {
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
      for (const orgId of [undefined, stranger.orgId, 'nonsense']) {
        expect((await create({ orgId }, tenant.technician)).body.orgId).to.equal(tenant.orgId);
      }
      const foreign = await create({ orgId: stranger.orgId });
      expect([foreign.status, foreign.body.error]).to.deep.equal([403, 'Access to this organization denied']);
      expect((await create({ orgId: newId() }, system)).status).to.equal(403);
    });

    it('are out of reach of everybody else, and of those who lack the permission', async () => {
      const { id } = (await create()).body;
      const elsewhere = await buildPerson(app, {
        scope: 'organization',
        orgId: await buildOrganization(app, tenant.partnerId),
      });
      for (const person of [stranger.admin, stranger.technician, elsewhere]) {
        expect((await send('GET', `/filters/${id}`, undefined, person)).status).to.equal(404);
        expect((await send('PATCH', `/filters/${id}`, { name: 'x' }, person)).status).to.equal(404);
        expect((await send('POST', `/filters/${id}/preview`, undefined, person)).status).to.equal(404);
        expect((await send('GET', `/filters/${id}/usage`, undefined, person)).status).to.equal(404);
        expect((await send('GET', `/devices?filterId=${id}`, undefined, person)).status).to.equal(404);
        const explained = await send('POST', '/filters/explain', { filterId: id, deviceId: newId() }, person);
        expect(explained.status).to.equal(404);
      }
      const viewer = await buildPerson(app, {
        scope: 'organization',
        orgId: tenant.orgId,
        role: SYSTEM_ROLES.organizationViewer,
      });
      expect((await send('GET', `/filters/${id}`, undefined, viewer)).status).to.equal(200);
      expect((await send('POST', `/filters/${id}/preview`, undefined, viewer)).status).to.equal(200);
      expect((await create({}, viewer)).status).to.equal(403);
      expect((await send('DELETE', `/filters/${id}`, undefined, tenant.technician)).status).to.equal(403);
      // A key that may read filters sees no device by them, and one that may read devices no filter.
      for (const [scope, path, method] of [
        ['filters:read', `/filters/${id}/preview`, 'POST'],
        ['devices:read', `/devices?filterId=${id}`, 'GET'],
      ] as const) {
        const { body } = await send('POST', '/api-keys', { name: 'Key', scopes: [scope] });
        expect((await app.call(method, path, { token: body.key })).status, scope).to.equal(403);
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
      const other = await buildOrganization(app, tenant.partnerId);
      const names = ['First', 'Second 100%', 'Third'];
      for (const [index, name] of names.entries()) {
        await create({
          name,
          orgId: index === 1 ? other : tenant.orgId,
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
      expect(await listed('', tenant.technician)).to.deep.equal(['Third', 'First']);
      expect(await listed('?search=printer')).to.deep.equal(['Third']);
      expect(await listed('?search=SEC')).to.deep.equal(['Second 100%']);
      expect(await listed('?search=%25')).to.deep.equal(['Second 100%']);
      expect(await listed('?search=_')).to.deep.equal([]);
      expect(await listed('', stranger.technician)).to.deep.equal([]);
      expect(await listed('', system)).to.include.members(names);
      const [newest] = (await send('GET', '/filters')).body.data;
      expect(newest).to.deep.equal((await send('GET', `/filters/${newest.id}`)).body);
    });

    it('are not made in an organization that is suspended, nor beyond what a list can hold', async () => {
      const suspended = await buildOrganization(app, tenant.partnerId, { status: 'suspended' });
      expect((await create({ orgId: suspended })).body.code).to.equal('TENANT_INACTIVE');
      await owner(
        `insert into saved_filters (id, org_id, name, conditions) select gen_random_uuid(), $1, 'x', $2 from generate_series(1, 1000)`,
        [tenant.orgId, JSON.stringify(all(of('hostname', 'contains', 'x'.repeat(40_000))))],
      );
      expect((await create()).body.code).to.equal('LIMIT_REACHED');
      const { body } = await send('GET', '/filters');
      expect(body.total).to.equal(1000);
      expect(body.data.length).to.be.within(700, 900);
    });
  });

  describe('that name others', () => {
    it('are refused in the same words for what is foreign and for what is not there', async () => {
      const foreignGroup = (
        await send('POST', '/groups', { orgId: stranger.orgId, name: 'G' }, stranger.admin)
      ).body.id;
      for (const [field, foreign] of [
        ['orgId', stranger.orgId],
        ['siteId', stranger.siteId],
        ['groupId', foreignGroup],
      ] as const) {
        const told: string[] = [];
        for (const id of [foreign, newId()]) {
          const conditions = { operator: 'OR', conditions: [LINUX, of(field, 'in', [id])] };
          for (const [path, body] of [
            ['/filters', { orgId: tenant.orgId, name: 'x', conditions }],
            ['/filters/preview', { conditions }],
          ] as const) {
            const refused = await send('POST', path, body);
            expect(refused.status).to.equal(400);
            expect(pathsOf(refused)).to.deep.equal(['body.conditions.conditions.1.value']);
            told.push(refused.body.error.replace(id, 'ID'));
          }
        }
        expect(new Set(told).size, field).to.equal(1);
        expect(
          (
            await create(
              { orgId: stranger.orgId, conditions: all(of(field, 'equals', foreign)) },
              stranger.admin,
            )
          ).status,
        ).to.equal(201);
      }
    });

    it('still load when that is gone, say so, find nothing, and can be mended', async () => {
      const siteId = await buildSite(app, tenant.orgId);
      const groupId = (await send('POST', '/groups', { orgId: tenant.orgId, name: newId() })).body.id;
      const conditions = {
        operator: 'OR',
        conditions: [of('siteId', 'equals', siteId), of('groupId', 'in', [groupId])],
      };
      const made = await create({ conditions });
      expect(made.status).to.equal(201);
      const path = `/filters/${made.body.id}`;
      await send('DELETE', `/groups/${groupId}`);
      await send('DELETE', `/orgs/sites/${siteId}`);
      const faults = [
        { path: 'conditions.conditions.0.value', message: `names a site that is not there: ${siteId}` },
        { path: 'conditions.conditions.1.value', message: `names a group that is not there: ${groupId}` },
      ];
      expect((await send('GET', path)).body).to.deep.equal({ ...made.body, faults });
      const renamed = await send('PATCH', path, { name: 'Broken' });
      expect([renamed.status, renamed.body.name, renamed.body.faults]).to.deep.equal([200, 'Broken', faults]);
      for (const answer of [
        await send('POST', `${path}/preview`),
        await send('GET', `/devices?filterId=${made.body.id}`),
      ]) {
        expect([answer.status, answer.body.details]).to.deep.equal([400, faults]);
      }
      const mended = await send('PATCH', path, { conditions: LINUX });
      expect(mended.body).not.to.have.property('faults');
      expect((await send('POST', `${path}/preview`)).status).to.equal(200);
    });

    it('still load when a field or an operator is not known any more', async () => {
      const { id } = (await create()).body;
      const old = all(of('hardware.gone', 'equals', 'x'), of('custom.rack', 'greaterThan', 5));
      await owner('update saved_filters set conditions = $2 where id = $1', [id, JSON.stringify(old)]);
      const { status, body } = await send('GET', `/filters/${id}`);
      expect([status, body.conditions]).to.deep.equal([200, old]);
      expect(body.faults.map(({ path }: { path: string }) => path)).to.deep.equal([
        'conditions.conditions.0.field',
        'conditions.conditions.1.operator',
      ]);
      const preview = await send('POST', `/filters/${id}/preview`);
      expect([preview.status, preview.body.error]).to.deep.equal([
        400,
        'Unknown field "hardware.gone" (conditions.conditions.0.field)',
      ]);
      expect((await send('PATCH', `/filters/${id}`, { conditions: LINUX })).status).to.equal(200);
    });
  });

  describe('of custom fields', () => {
    it('ask what the definition allows, of text where organizations do not agree, and say when it is gone', async () => {
      const define = async (type: string, orgId = tenant.orgId) =>
        (await send('POST', '/custom-fields', { orgId, key: 'rack', name: 'Rack', type })).body.id;
      const { deviceId } = await buildDevice(app, tenant.orgId);
      const above = all(of('custom.rack', 'greaterThan', 5));
      expect((await create({ conditions: above })).status).to.equal(400);
      const definition = await define('number');
      expect((await send('PATCH', `/devices/${deviceId}`, { customFields: { rack: 7 } })).status).to.equal(
        200,
      );
      expect((await create({ conditions: all(of('custom.rack', 'contains', '7')) })).status).to.equal(400);
      const made = await create({ conditions: above });
      expect(made.status).to.equal(201);
      const preview = () => send('POST', `/filters/${made.body.id}/preview`);
      expect((await preview()).body.data.totalCount).to.equal(1);

      await define('string', await buildOrganization(app, tenant.partnerId));
      expect((await preview()).status).to.equal(400);
      const asText = await send('POST', '/filters/preview', {
        conditions: all(of('custom.rack', 'equals', '7')),
      });
      expect(asText.body.data.totalCount).to.equal(1);
      // In one organization alone there is nothing to disagree with.
      const own = await send('POST', `/filters/${made.body.id}/preview`, undefined, tenant.technician);
      expect(own.body.data.totalCount).to.equal(1);

      expect((await send('DELETE', `/custom-fields/${definition}`)).status).to.equal(200);
      const { body } = await send('GET', `/filters/${made.body.id}`, undefined, tenant.technician);
      expect(body.faults.map(({ path }: { path: string }) => path)).to.deep.equal([
        'conditions.conditions.0.operator',
      ]);
    });
  });

  describe('find devices', () => {
    let devices: EnrolledDevice[];
    beforeEach(async () => {
      const other = await buildOrganization(app, tenant.partnerId);
      await buildSite(app, other);
      devices = [];
      for (const [index, orgId] of [tenant.orgId, other, tenant.orgId, other].entries()) {
        devices.push(
          await buildDevice(app, orgId, {
            hostname: `HOST-${'dbca'[index] ?? ''}`,
            osType: index === 3 ? 'macos' : 'linux',
          }),
        );
      }
      await buildDevice(app, stranger.orgId, { hostname: 'HOST-x' });
    });
    const idOf = (index: number) => devices[index]?.deviceId ?? '';

    it('in a preview of all accessible organizations, counted before it is cut, by name', async () => {
      const preview = await send('POST', '/filters/preview', { conditions: LINUX, limit: 2 });
      expect(preview.status).to.equal(200);
      const { totalCount, devices: shown, evaluatedAt } = preview.body.data;
      expect(totalCount).to.equal(3);
      expect(Date.parse(evaluatedAt)).to.be.closeTo(Date.now(), 60_000);
      expect(shown).to.deep.equal([
        {
          id: idOf(1),
          hostname: 'HOST-b',
          displayName: null,
          osType: 'linux',
          status: 'offline',
          lastSeenAt: null,
        },
        {
          id: idOf(2),
          hostname: 'HOST-c',
          displayName: null,
          osType: 'linux',
          status: 'offline',
          lastSeenAt: null,
        },
      ]);
      const byTechnician = await send('POST', '/filters/preview', { conditions: LINUX }, tenant.technician);
      expect(byTechnician.body.data.totalCount).to.equal(2);
      await owner(
        `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason, last_seen_at) values ($1, $2, 1, 'n', 'connected', now(), 'connected', '2026-01-31T08:00:00.123Z')`,
        [idOf(0), tenant.orgId],
      );
      const seen = await send('POST', '/filters/preview', {
        conditions: all(of('status', 'equals', 'online')),
      });
      expect(seen.body.data.devices).to.deep.equal([
        {
          id: idOf(0),
          hostname: 'HOST-d',
          displayName: null,
          osType: 'linux',
          status: 'online',
          lastSeenAt: '2026-01-31T08:00:00.123Z',
        },
      ]);
      const none = await send('POST', '/filters/preview', {
        conditions: all(of('hostname', 'equals', 'none')),
      });
      expect(none.body.data).to.deep.include({ totalCount: 0, devices: [] });
      const entries = await trailOf('filter.preview', null);
      expect(entries).to.have.length(3);
      expect(entries[0]).to.deep.include({ details: { conditions: 1, totalCount: 3 } });
    });

    it('in a preview of a saved filter, with a limit in the address', async () => {
      const { id } = (await create()).body;
      const preview = await send('POST', `/filters/${id}/preview?limit=1`);
      expect(preview.body.data.totalCount).to.equal(3);
      expect(preview.body.data.devices).to.have.length(1);
      expect(await trailOf('filter.saved.preview')).to.deep.equal([
        { resource_id: id, resource_name: 'Linux', details: { totalCount: 3 } },
      ]);
      for (const limit of ['0', '101', '-1', '1.5', 'x']) {
        const refused = await send('POST', `/filters/${id}/preview?limit=${limit}`);
        expect([refused.status, pathsOf(refused)[0]], limit).to.deep.equal([400, 'query.limit']);
      }
      for (const limit of [0, 101, '5', 1.5]) {
        expect(pathsOf(await send('POST', '/filters/preview', { conditions: LINUX, limit }))).to.deep.equal([
          'body.limit',
        ]);
      }
    });

    it('without those that are out of service', async () => {
      await send('DELETE', `/devices/${idOf(0)}`);
      expect((await send('POST', '/filters/preview', { conditions: LINUX })).body.data.totalCount).to.equal(
        2,
      );
    });

    it('in the list of devices, beside its other filters, counted and in its order', async () => {
      const { id } = (await create()).body;
      const { body } = await send('GET', `/devices?filterId=${id}&sort=hostname&order=desc&limit=2`);
      expect(body.pagination).to.deep.equal({ page: 1, limit: 2, total: 3 });
      expect(body.data.map((device: { hostname: string }) => device.hostname)).to.deep.equal([
        'HOST-d',
        'HOST-c',
      ]);
      const narrower = await send('GET', `/devices?filterId=${id}&orgId=${tenant.orgId}&search=host-c`);
      expect(narrower.body.pagination.total).to.equal(1);
      const group = (
        await send('POST', '/groups', { orgId: tenant.orgId, name: newId(), deviceIds: [idOf(0)] })
      ).body.id;
      expect((await send('GET', `/groups/${group}/devices?filterId=${id}`)).body.pagination.total).to.equal(
        1,
      );
    });

    it('explain what each condition made of a device', async () => {
      await owner(
        `update devices set tags = '{Till}', custom_fields = '{"__proto__": "x", "rack": "R1"}', hardware = '{"cpuCores": 4}' where id = $1`,
        [idOf(0)],
      );
      const conditions = all(
        of('osType', 'equals', 'linux'),
        {
          operator: 'OR',
          conditions: [
            of('tags', 'contains', 'till'),
            of('lastSeenAt', 'notWithinLast', { amount: 1, unit: 'days' }),
          ],
        },
        of('hardware.cpuCores', 'greaterThan', 8),
        of('custom.rack', 'startsWith', 'r'),
        of('custom.__proto__', 'equals', 'x'),
        of('custom.constructor', 'isNull'),
        of('metrics.cpuPercent', 'isNull'),
      );
      const { status, body } = await send('POST', '/filters/explain', { conditions, deviceId: idOf(0) });
      expect(status).to.equal(200);
      expect(body.data).to.deep.include({ deviceId: idOf(0), matched: false });
      const seen = body.data.conditions.map((one: Record<string, unknown>) => [
        one['path'],
        one['matched'],
        one['value'],
      ]);
      expect(seen).to.deep.equal([
        ['conditions.conditions.0', true, 'linux'],
        ['conditions.conditions.1.conditions.0', true, ['Till']],
        ['conditions.conditions.1.conditions.1', true, null],
        ['conditions.conditions.2', false, 4],
        ['conditions.conditions.3', true, 'R1'],
        ['conditions.conditions.4', true, 'x'],
        ['conditions.conditions.5', true, null],
        ['conditions.conditions.6', true, null],
      ]);
      expect(body.data.conditions[0]).to.deep.include({ field: 'osType', operator: 'equals' });
      const { id } = (await create()).body;
      expect(
        (await send('POST', '/filters/explain', { filterId: id, deviceId: idOf(0) })).body.data.matched,
      ).to.equal(true);
      for (const what of [{}, { filterId: id, conditions }]) {
        expect(pathsOf(await send('POST', '/filters/explain', { ...what, deviceId: idOf(0) }))).to.deep.equal(
          ['body.filterId'],
        );
      }
      expect((await send('POST', '/filters/explain', { filterId: id, deviceId: newId() })).status).to.equal(
        404,
      );
    });

    it('for scripts, each device refused by itself, and no more than can be started at once', async () => {
      const { id } = (await create()).body;
      const script = (await send('POST', '/scripts', { name: 'S', language: 'bash', content: 'true' })).body
        .id;
      const execute = (body: object) => send('POST', `/scripts/${script}/execute`, body);
      expect((await execute({ filterId: id })).status).to.equal(409);
      await owner(`update devices set capabilities = '{script.run}' where id = any($1)`, [
        [idOf(0), idOf(1)],
      ]);
      const { status, body } = await execute({ filterId: id });
      expect(status).to.equal(202);
      expect(body.commands.map((one: { deviceId: string }) => one.deviceId)).to.have.members([
        idOf(0),
        idOf(1),
      ]);
      expect(
        body.refused.map((one: { deviceId: string; code: string }) => [one.deviceId, one.code]),
      ).to.deep.equal([[idOf(2), 'CAPABILITY_MISSING']]);
      for (const both of [{}, { filterId: id, deviceIds: [idOf(0)] }]) {
        expect(pathsOf(await execute(both))).to.deep.equal(['body.filterId']);
      }
      const none = (await create({ conditions: all(of('hostname', 'equals', 'none')) })).body.id;
      expect((await execute({ filterId: none })).body.error).to.equal('The filter finds no device.');
      await owner(
        `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
        select gen_random_uuid(), $1, $2, 'h' || n, 'linux', '1', 'x64', '1', now() from generate_series(1, 500) n`,
        [tenant.orgId, tenant.siteId],
      );
      expect((await execute({ filterId: id })).body.details).to.deep.equal([
        { path: 'body.filterId', message: 'finds more than 500 devices' },
      ]);
    });
  });

  describe('that are too much', () => {
    const raw = (path: string, rawBody: string) =>
      app.call('POST', path, { token: tenant.admin.token, rawBody });
    const deep = (levels: number, leaf = JSON.stringify(of('hostname', 'isNotNull'))) =>
      '{"operator":"AND","conditions":['.repeat(levels) + leaf + ']}'.repeat(levels);

    it('are not what is 20,000 levels deep: that is made, listed, read back, previewed, explained and deleted', async () => {
      const device = await buildDevice(app, tenant.orgId);
      const conditions = deep(20_000);
      const made = await raw(
        '/filters',
        `{"orgId":"${tenant.orgId}","name":"deep","conditions":${conditions}}`,
      );
      expect(made.status).to.equal(201);
      const path = `/filters/${made.body.id}`;
      for (const [method, where] of [
        ['GET', path],
        ['PATCH', path],
        ['GET', '/filters'],
        ['DELETE', path],
      ] as const) {
        if (method === 'DELETE') {
          expect((await send('POST', `${path}/preview`)).body.data.totalCount).to.equal(1);
          expect(
            (await raw('/filters/preview', `{"conditions":${conditions}}`)).body.data.totalCount,
          ).to.equal(1);
          const { body } = await send('POST', '/filters/explain', {
            filterId: made.body.id,
            deviceId: device.deviceId,
          });
          expect([body.data.matched, body.data.conditions.length]).to.deep.equal([true, 1]);
        }
        const response = await fetch(`${app.url}/api/v1${where}`, {
          method,
          headers: { authorization: `Bearer ${tenant.admin.token}`, 'content-type': 'application/json' },
          ...(method === 'PATCH' ? { body: '{"name":"deeper"}' } : {}),
        });
        expect(response.status).to.equal(200);
        expect((await response.text()).includes(`"conditions":${conditions}`), where).to.equal(true);
      }
      const wrong = await raw(
        '/filters/preview',
        `{"conditions":${deep(20_000, '{"field":"x","operator":"equals"}')}}`,
      );
      expect([wrong.status, wrong.body.details.length]).to.deep.equal([400, 1]);
    });

    it('are bodies of more than a megabyte', async () => {
      const body = `{"conditions":${JSON.stringify(all(of('hostname', 'equals', 'x'.repeat(2_000_000))))}}`;
      for (const path of ['/filters', '/filters/preview', '/filters/explain']) {
        const { status, body: answer } = await raw(path, body);
        expect([status, answer.code]).to.deep.equal([413, 'PAYLOAD_TOO_LARGE']);
      }
    });

    it('are not 65,536 values, nor hostile expressions, which are answered in time or refused', async () => {
      const values = Array.from({ length: 65_536 }, (_, n) => `h${n}`);
      const many = await send('POST', '/filters/preview', {
        conditions: all(of('hostname', 'notIn', values)),
      });
      expect([many.status, many.body.data?.totalCount]).to.deep.equal([200, 0]);
      await owner(
        `insert into devices (id, org_id, site_id, hostname, os_type, os_version, os_build, architecture, agent_version, enrolled_at)
        select gen_random_uuid(), $1, $2, repeat('a', 250), 'linux', repeat('a', 199) || '!', repeat('ab', 50), 'x64', '1', now() from generate_series(1, 500) n`,
        [tenant.orgId, tenant.siteId],
      );
      for (const [pattern, expected] of [
        ['(a+)+$', [200]],
        ['^(a|aa)+$', [200]],
        ['(x+x+)+y', [200]],
        ['(a?)'.repeat(60), [200]],
        ['(a{200}){200}', [400]],
        ['[^a]{255}'.repeat(20), [200, 400]],
        ['((a*)*)*$', [200]],
        ['(a)\\1', [400]],
      ] as const) {
        const begun = performance.now();
        const { status } = await send('POST', '/filters/preview', {
          conditions: all(of('osVersion', 'matches', pattern)),
        });
        expect(status, pattern).to.be.oneOf(expected);
        expect(performance.now() - begun, pattern).to.be.lessThan(6000);
      }
    });
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
