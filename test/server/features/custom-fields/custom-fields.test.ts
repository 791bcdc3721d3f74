import { expect } from 'chai';
import fc from 'fast-check';
import { faultsOf, customFieldKinds } from '../../../../src/features/custom-fields/index.ts';
import { withTenant } from '../../../../src/platform/db/transaction.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { deviceGround, pathsOf, type Tenant } from '../devices/devices-support.ts';

describe('custom fields', () => {
  let app: TestApp;
  let tenant: Tenant;
  let device: EnrolledDevice;
  const { send, sql, read, auditOf, define } = deviceGround(
    () => app,
    () => tenant.admin,
  );
  const setValues = (customFields: unknown) => send('PATCH', `/devices/${device.deviceId}`, { customFields });
  const values = async () => (await read(device.deviceId)).customFields;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
  });

  it('are defined, read, listed, changed and deleted, each step noted', async () => {
    const made = await send('POST', '/custom-fields', {
      orgId: tenant.orgId,
      key: 'asset_tag',
      name: ' Asset tag ',
      type: 'string',
      description: 'On the sticker',
    });
    expect(made.status).to.equal(201);
    expect(made.body).to.deep.include({
      orgId: tenant.orgId,
      key: 'asset_tag',
      name: 'Asset tag',
      type: 'string',
      description: 'On the sticker',
      createdBy: tenant.admin.id,
    });
    const path = `/custom-fields/${made.body.id}`;
    expect((await send('GET', path)).body).to.deep.equal(made.body);
    expect((await send('GET', `/custom-fields?orgId=${tenant.orgId}`)).body.data).to.deep.equal([made.body]);
    const changed = await send('PATCH', path, { name: 'Sticker', description: null });
    expect(changed.body).to.deep.include({ key: 'asset_tag', name: 'Sticker', description: null });
    expect((await send('DELETE', path)).body).to.deep.equal({ success: true, devicesChanged: 0 });
    expect((await send('GET', path)).status).to.equal(404);
    const common = {
      org_id: tenant.orgId,
      actor_type: 'user',
      actor_id: tenant.admin.id,
      resource_name: 'asset_tag',
    };
    expect(await auditOf(made.body.id)).to.deep.equal([
      { ...common, action: 'custom_field.create', details: { type: 'string' } },
      {
        ...common,
        action: 'custom_field.update',
        details: {
          changedFields: ['name', 'description'],
          before: { name: 'Asset tag', description: 'On the sticker' },
          after: { name: 'Sticker', description: null },
        },
      },
      { ...common, action: 'custom_field.delete', details: { devicesChanged: 0 } },
    ]);
  });

  it('are within reach of people who may see their organization, and changed by people who may change devices', async () => {
    const stranger = await buildTenant(app);
    const { body } = await define(tenant.orgId, 'asset', 'string');
    expect((await send('GET', `/custom-fields/${body.id}`, undefined, stranger.admin)).status).to.equal(404);
    expect((await send('DELETE', `/custom-fields/${body.id}`, undefined, stranger.admin)).status).to.equal(
      404,
    );
    expect((await send('GET', '/custom-fields', undefined, stranger.admin)).body.data).to.deep.equal([]);
    const foreign = { orgId: tenant.orgId, key: 'x', name: 'x', type: 'string' };
    expect((await send('POST', '/custom-fields', foreign, stranger.admin)).status).to.equal(403);
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    expect((await send('GET', `/custom-fields/${body.id}`, undefined, viewer)).status).to.equal(200);
    expect((await send('PATCH', `/custom-fields/${body.id}`, { name: 'x' }, viewer)).status).to.equal(403);
    expect((await send('GET', `/custom-fields/${body.id}`, undefined, tenant.technician)).status).to.equal(
      200,
    );
  });

  it('have a key of their own within the organization, which is well formed', async () => {
    await define(tenant.orgId, 'asset', 'string');
    const twice = await define(tenant.orgId, 'asset', 'number');
    expect([twice.status, twice.body.details]).to.deep.equal([
      409,
      [{ path: 'body.key', message: 'must be unique' }],
    ]);
    expect((await define(await buildOrganization(app, tenant.partnerId), 'asset', 'number')).status).to.equal(
      201,
    );
    for (const key of ['Asset', '1st', '', 'a-b', 'a b', `a${'x'.repeat(64)}`, '__proto__', 'ä', 'a\n']) {
      expect(pathsOf(await define(tenant.orgId, key, 'string')), key).to.deep.equal([400, 'body.key']);
    }
    expect(pathsOf(await define(tenant.orgId, 'x', 'map'))).to.deep.equal([400, 'body.type']);
    for (const patch of [{ key: 'other' }, { orgId: tenant.orgId, name: 'x' }]) {
      const id = (await send('GET', '/custom-fields')).body.data[0].id;
      expect((await send('PATCH', `/custom-fields/${id}`, patch)).status).to.equal(400);
    }
  });

  it('are no more than 200 in an organization, however many come at once', async () => {
    await sql(
      `insert into custom_fields (id, org_id, key, name, type)
      select gen_random_uuid(), ?, 'k' || n, 'k', 'string' from generate_series(1, 197) n`,
      [tenant.orgId],
    );
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) => define(tenant.orgId, `more${i}`, 'string')),
    );
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).to.deep.equal([
      201, 201, 201, 403, 403, 403, 403, 403,
    ]);
    expect(answers.find(({ status }) => status === 403)?.body.code).to.equal('LIMIT_REACHED');
  });

  it('say what values a device may have, and each that is wrong is named', async () => {
    const good: Record<string, unknown[]> = {
      string: ['', 'x'.repeat(1000), '😀'],
      number: [0, -1.5, 1e300],
      boolean: [true, false],
      date: ['2026-11-21', '2026-11-21T08:00:00Z', '2026-11-21T08:00:00.5+02:00'],
      list: [[], ['a', 'a'], Array.from({ length: 100 }, () => 'x')],
    };
    const wrong: Record<string, unknown[]> = {
      string: [1, true, ['x'], {}, 'x'.repeat(1001)],
      number: ['1', true, [], {}],
      boolean: ['true', 0, []],
      date: ['yesterday', '2026-02-30', '2026-11-21T25:00:00Z', '2026-11-21T08:00:00', 0, ''],
      list: ['a', [1], [['a']], [''], Array.from({ length: 101 }, () => 'x'), ['x'.repeat(256)]],
    };
    for (const type of Object.keys(good)) await define(tenant.orgId, type, type);
    for (const [key, list] of Object.entries(good)) {
      for (const value of list) {
        expect((await setValues({ [key]: value })).status, `${key} ${JSON.stringify(value)}`).to.equal(200);
        expect((await values())[key]).to.deep.equal(value);
      }
    }
    const before = await values();
    for (const [key, list] of Object.entries(wrong)) {
      for (const value of list) {
        const told = pathsOf(await setValues({ [key]: value }));
        expect(told, `${key} ${JSON.stringify(value)}`).to.deep.equal([400, `body.customFields.${key}`]);
      }
    }
    expect(pathsOf(await setValues({ string: 1, number: 1, gone: 'x' }))).to.deep.equal([
      400,
      'body.customFields.string',
      'body.customFields.gone',
    ]);
    expect(await values()).to.deep.equal(before);
    await setValues({ string: null, list: null });
    const { string: _string, list: _list, ...rest } = before;
    expect(await values()).to.deep.equal(rest);
  });

  it('keep their type as long as a device has a value', async () => {
    const { body: field } = await define(tenant.orgId, 'seats', 'number');
    await setValues({ seats: 4 });
    const path = `/custom-fields/${field.id}`;
    const refused = await send('PATCH', path, { type: 'string' });
    expect([refused.status, refused.body.details]).to.deep.equal([409, { devices: 1 }]);
    expect((await send('PATCH', path, { type: 'number', name: 'Seats' })).status).to.equal(200);
    await setValues({ seats: null });
    expect((await send('PATCH', path, { type: 'string' })).body.type).to.equal('string');
    expect((await setValues({ seats: 'four' })).status).to.equal(200);
  });

  it('take their values with them when they are deleted, of decommissioned devices too, and of no other key', async () => {
    const { body: field } = await define(tenant.orgId, 'seats', 'number');
    await define(tenant.orgId, 'asset', 'string');
    await setValues({ seats: 4, asset: 'A-1' });
    const gone = await buildDevice(app, tenant.orgId);
    await send('PATCH', `/devices/${gone.deviceId}`, { customFields: { seats: 1 } });
    await send('DELETE', `/devices/${gone.deviceId}`);
    await buildDevice(app, tenant.orgId);
    expect((await send('DELETE', `/custom-fields/${field.id}`)).body.devicesChanged).to.equal(2);
    expect(await values()).to.deep.equal({ asset: 'A-1' });
    const left = await sql(`select from devices where org_id = ? and custom_fields \\? 'seats'`, [
      tenant.orgId,
    ]);
    expect(left).to.have.length(0);
    expect(pathsOf(await setValues({ seats: 1 }))).to.deep.equal([400, 'body.customFields.seats']);
  });

  it('never leave a value without its definition, when both are changed at once', async () => {
    for (let round = 0; round < 10; round++) {
      const { body: field } = await define(tenant.orgId, 'racing', 'number');
      const [deleted, set] = await Promise.all([
        send('DELETE', `/custom-fields/${field.id}`),
        setValues({ racing: round }),
      ]);
      expect(deleted.status).to.equal(200);
      expect(set.status).to.be.oneOf([200, 400]);
      expect(await values()).to.deep.equal({});
    }
  });

  it('tell the types of keys, as text if organizations do not agree', async () => {
    const other = await buildOrganization(app, tenant.partnerId);
    await define(tenant.orgId, 'seats', 'number');
    await define(other, 'seats', 'number');
    await define(tenant.orgId, 'bought', 'date');
    await define(other, 'bought', 'string');
    const caller = {
      scope: 'partner' as const,
      userId: null,
      partnerId: tenant.partnerId,
      orgAccess: 'all' as const,
      orgIds: [],
    };
    const kinds = (orgIds?: string[]) =>
      withTenant(app.server.database.pool, caller, (tx) =>
        customFieldKinds({ tx, caller: caller as never }, orgIds),
      ).then((map) => Object.fromEntries(map));
    expect(await kinds()).to.deep.equal({ seats: 'number', bought: 'string' });
    expect(await kinds([tenant.orgId])).to.deep.equal({ seats: 'number', bought: 'date' });
    expect(await kinds([])).to.deep.equal({});
  });

  it('are checked without failing, whatever the values are', () => {
    const types = ['string', 'number', 'boolean', 'date', 'list'] as const;
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom(...types), (given, type) => {
        const keys = Object.keys(given);
        const definitions = new Map(keys.slice(1).map((key) => [key, type]));
        const faults = faultsOf(given, definitions).map(({ key }) => key);
        // The one that is not defined is always named; none that was not given ever is.
        if (keys[0] !== undefined) expect(faults).to.include(keys[0]);
        expect(keys).to.include.members(faults);
        for (const key of keys.slice(1)) if (given[key] === null) expect(faults).not.to.include(key);
      }),
    );
  });
});
