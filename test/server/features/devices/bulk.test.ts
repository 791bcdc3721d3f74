import { expect } from 'chai';
import { createAuditTrail } from '../../../../src/features/audit/index.ts';
import { createDeviceStore } from '../../../../src/features/devices/index.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { deviceGround, pathsOf, type Tenant } from './devices-support.ts';

interface Outcome {
  deviceId: string;
  ok: boolean;
  code?: string;
}

describe('devices changed in bulk', () => {
  let app: TestApp;
  let tenant: Tenant;
  let stranger: Tenant;
  let devices: EnrolledDevice[];
  let ids: string[];
  /** Of another organization of the partner, of a suspended one, out of service, foreign, and none at all. */
  let elsewhere: EnrolledDevice;
  let suspended: string;
  let gone: string;
  let foreign: string;
  const nobody = newId();
  const { send, sql, read, auditOf, define } = deviceGround(
    () => app,
    () => tenant.admin,
  );
  const bulk = (deviceIds: readonly string[], action: unknown, person = tenant.admin) =>
    send('POST', '/devices/bulk', { deviceIds, action }, person);
  const codes = ({ body }: { body: { results: Outcome[] } }) =>
    body.results.map(({ ok, code }) => (ok ? 'ok' : code));

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    [tenant, stranger] = [await buildTenant(app), await buildTenant(app)];
    devices = [await buildDevice(app, tenant.orgId), await buildDevice(app, tenant.orgId)];
    elsewhere = await buildDevice(app, await buildOrganization(app, tenant.partnerId));
    ids = [...devices.map(({ deviceId }) => deviceId), elsewhere.deviceId];
    const idle = await buildOrganization(app, tenant.partnerId);
    suspended = (await buildDevice(app, idle)).deviceId;
    await sql(`update organizations set status = 'suspended' where id = ?`, [idle]);
    gone = (await buildDevice(app, tenant.orgId)).deviceId;
    await send('DELETE', `/devices/${gone}`);
    foreign = (await buildDevice(app, stranger.orgId)).deviceId;
  });

  it('have an outcome each, in their order, and one that cannot be changed does not stop the others', async () => {
    const all = [suspended, ids[0]!, gone, ids[1]!.toUpperCase(), foreign, ids[2]!, nobody, ids[0]!];
    const answer = await bulk(all, { type: 'tags', add: ['new'] });
    expect(answer.status).to.equal(200);
    expect(answer.body.results.map(({ deviceId }: Outcome) => deviceId)).to.deep.equal(
      all.slice(0, 7).map((id) => id.toLowerCase()),
    );
    expect(codes(answer)).to.deep.equal([
      'TENANT_INACTIVE',
      'ok',
      'NOT_FOUND',
      'ok',
      'NOT_FOUND',
      'ok',
      'NOT_FOUND',
    ]);
    expect(answer.body).to.deep.include({ succeeded: 3, failed: 4 });
    for (const { ok, message } of answer.body.results) expect(message === undefined).to.equal(ok);
    for (const id of ids) {
      expect((await read(id)).tags).to.deep.equal(['new']);
      const [entry] = await auditOf(id);
      expect(entry).to.deep.include({
        action: 'device.update',
        actor_id: tenant.admin.id,
        org_id: (await read(id)).orgId,
        details: { changedFields: ['tags'], inBulk: true },
      });
    }
    expect((await auditOf(suspended)).length).to.equal(0);
    const none = await bulk([foreign, nobody], { type: 'tags', add: ['new'] });
    expect([none.status, none.body.succeeded, none.body.failed]).to.deep.equal([200, 0, 2]);
    expect((await send('GET', `/devices/${foreign}`, undefined, stranger.admin)).body.tags).to.deep.equal([]);
  });

  it('get and lose tags, each keeping its own', async () => {
    await send('PATCH', `/devices/${ids[0]}`, { tags: ['old', 'b', 'stays'] });
    await send('PATCH', `/devices/${ids[1]}`, { tags: Array.from({ length: 50 }, (_, i) => `t${i}`) });
    expect(codes(await bulk(ids, { type: 'tags', add: ['b', 'a'], remove: ['old'] }))).to.deep.equal([
      'ok',
      'CONFLICT',
      'ok',
    ]);
    expect((await read(ids[0]!)).tags).to.deep.equal(['b', 'stays', 'a']);
    expect((await read(ids[1]!)).tags).to.have.length(50);
    expect((await read(ids[2]!)).tags).to.deep.equal(['b', 'a']);
    // One comes, another goes: there is room.
    expect(codes(await bulk([ids[1]!], { type: 'tags', add: ['new'], remove: ['t0'] }))).to.deep.equal([
      'ok',
    ]);
  });

  it('are put in maintenance and taken out of it', async () => {
    await sql(`update devices set condition = 'quarantined' where id = ?`, [ids[1]]);
    const until = new Date(Date.now() + 3_600_000).toISOString();
    expect(codes(await bulk(ids, { type: 'maintenance', enabled: true, until }))).to.deep.equal([
      'ok',
      'CONFLICT',
      'ok',
    ]);
    expect(await read(ids[0]!)).to.include({ status: 'maintenance', maintenanceUntil: until });
    expect(await read(ids[1]!)).to.include({ status: 'quarantined' });
    expect((await auditOf(ids[0]!)).at(-1)).to.deep.include({
      action: 'device.maintenance',
      details: { enabled: true, until, inBulk: true },
    });
    await bulk(ids, { type: 'maintenance', enabled: false });
    expect(await read(ids[0]!)).to.include({ status: 'offline', maintenanceUntil: null });
  });

  it('go to another site of their organization, where those that watch see them', async () => {
    const siteId = await buildSite(app, tenant.orgId);
    const client = await connectDashboard(app, tenant.admin.token);
    await client.subscribe({ siteId });
    expect(codes(await bulk(ids, { type: 'site', siteId }))).to.deep.equal(['ok', 'ok', 'CONFLICT']);
    expect((await read(ids[0]!)).siteId).to.equal(siteId);
    await eventually(
      () => client.deltas.flatMap(({ entered }) => entered).length,
      (count) => count === 2,
    );
    expect((await bulk(ids, { type: 'site', siteId: stranger.siteId })).status).to.equal(403);
    expect((await bulk(ids, { type: 'site', siteId: newId() })).status).to.equal(404);
    client.close();
  });

  it('are decommissioned by people who may, and their connections and tokens end', async () => {
    const agents = await Promise.all(devices.map(({ token }) => connectDevice(app, token)));
    const client = await connectDashboard(app, tenant.admin.token);
    await client.subscribe();
    expect((await bulk(ids, { type: 'decommission' }, tenant.technician)).status).to.equal(403);
    expect(codes(await bulk([...ids, gone], { type: 'decommission' }))).to.deep.equal([
      'ok',
      'ok',
      'ok',
      'NOT_FOUND',
    ]);
    await eventually(
      () => agents.map(({ socket }) => socket.connected),
      (connected) => connected.join() === 'false,false',
    );
    for (const { token } of devices) {
      expect(await connectDevice(app, token).catch((error) => error.refusal.code)).to.equal('DECOMMISSIONED');
    }
    await eventually(
      () => client.deltas.flatMap(({ left }) => left),
      (left) => ids.every((id) => left.includes(id)),
    );
    expect((await auditOf(ids[0]!)).map(({ action }) => action)).to.deep.equal(['device.delete']);
    expect((await send('POST', `/devices/${ids[0]}/restore`)).status).to.equal(200);
    client.close();
  });

  it('have custom fields set if they are defined, each by its own organization', async () => {
    await define(tenant.orgId, 'seats', 'number');
    await define(tenant.orgId, 'note', 'string');
    await define(elsewhere.orgId, 'seats', 'string');
    await send('PATCH', `/devices/${ids[0]}`, { customFields: { note: 'x' } });
    const answer = await bulk(ids, { type: 'customFields', set: { seats: 4, note: null } });
    expect(codes(answer)).to.deep.equal(['ok', 'ok', 'VALIDATION_FAILED']);
    expect(answer.body.results[2].message).to.contain('seats: must be a text').and.to.contain('note: is not');
    expect((await read(ids[0]!)).customFields).to.deep.equal({ seats: 4 });
    expect((await read(ids[2]!)).customFields).to.deep.equal({});
    expect((await auditOf(ids[0]!)).at(-1)?.details).to.deep.equal({
      changedFields: ['customFields.seats', 'customFields.note'],
      inBulk: true,
    });
  });

  it('are told whether to update themselves, those that can be told', async () => {
    await sql(`update devices set capabilities = '{agent.set-auto-update}' where id = ?`, [ids[0]]);
    expect(codes(await bulk(ids, { type: 'autoUpdate', enabled: false }))).to.deep.equal(['ok', 'ok', 'ok']);
    for (const id of ids) expect((await read(id)).autoUpdate).to.equal(false);
    const commands = await sql<{ device_id: string; payload: unknown }>(
      'select device_id, payload from commands where device_id = any(?::uuid[])',
      [ids],
    );
    expect(commands).to.deep.equal([{ device_id: ids[0], payload: { enabled: false } }]);
  });

  it('are refused as a whole if the request is wrong', async () => {
    const wrong: [unknown, ...string[]][] = [
      [{ deviceIds: [], action: { type: 'decommission' } }, 'body.deviceIds'],
      [
        { deviceIds: Array.from({ length: 1001 }, () => newId()), action: { type: 'decommission' } },
        'body.deviceIds',
      ],
      [{ deviceIds: ['x'], action: { type: 'explode' } }, 'body.deviceIds.0', 'body.action.type'],
      [{ deviceIds: ids, action: { type: 'tags' } }, 'body.action'],
      [{ deviceIds: ids, action: { type: 'tags', add: ['a'], remove: ['a'] } }, 'body.action.remove'],
      [{ deviceIds: ids, action: { type: 'tags', add: ['a,b'] } }, 'body.action.add.0'],
      [
        { deviceIds: ids, action: { type: 'maintenance', enabled: false, until: '2099-01-01T00:00:00Z' } },
        'body.action.until',
      ],
      [{ deviceIds: ids, action: { type: 'site' } }, 'body.action.siteId'],
      [{ deviceIds: ids, action: { type: 'decommission', force: true } }, 'body.action'],
    ];
    for (const [body, ...paths] of wrong) {
      const [status, ...told] = pathsOf(await send('POST', '/devices/bulk', body));
      expect([status, ...new Set(told)], JSON.stringify(body).slice(-80)).to.deep.equal([400, ...paths]);
    }
    const viewer = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    expect((await bulk(ids, { type: 'tags', add: ['a'] }, viewer)).status).to.equal(403);
  });

  describe('a thousand of them', () => {
    let orgId: string;
    let many: string[];
    beforeEach(async () => {
      orgId = await buildOrganization(app, tenant.partnerId);
      const siteId = await buildSite(app, orgId);
      const made = await sql<{ id: string }>(
        `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at,
          capabilities)
        select gen_random_uuid(), ?, ?, 'bulk-' || n, 'linux', '1', 'x64', '1.0.0', now(), '{agent.set-auto-update}'
        from generate_series(1, 1000) n returning id`,
        [orgId, siteId],
      );
      many = made.map(({ id }) => id);
    });

    const ACTIONS: [type: string, rest: () => object | Promise<object>][] = [
      ['tags', () => ({ add: ['a'] })],
      ['maintenance', () => ({ enabled: true })],
      ['site', async () => ({ siteId: await buildSite(app, orgId) })],
      [
        'customFields',
        async () => {
          await define(orgId, 'seats', 'number');
          return { set: { seats: 1 } };
        },
      ],
      ['autoUpdate', () => ({ enabled: false })],
      ['decommission', () => ({})],
    ];
    for (const [type, rest] of ACTIONS) {
      it(`take no more statements than three do (${type})`, async () => {
        const action = { type, ...(await rest()) };
        const { pool } = app.server.database;
        let statements = 0;
        const count = () => void (statements += 1);
        pool.on('query', count);
        try {
          expect((await bulk(many.slice(0, 3), action)).body.succeeded).to.equal(3);
          const forThree = statements;
          expect(forThree).to.be.within(4, 20);
          statements = 0;
          expect((await bulk(many.slice(3), action)).body.succeeded).to.equal(997);
          expect(statements).to.equal(forThree);
        } finally {
          pool.off('query', count);
        }
      });
    }
  });

  it('do not wait for each other for ever, whatever the order they are named in', async () => {
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        bulk(n % 2 === 0 ? ids : [...ids].reverse(), { type: 'tags', add: [`t${n}`] }),
      ),
    );
    for (const answer of answers) expect(answer.status).to.equal(200);
    for (const id of ids) expect((await read(id)).tags).to.have.length(12);
  });

  it('do not wait for ever for what agents say of their machines either', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId);
    const siteId = await buildSite(app, orgId);
    const made = await sql<{ id: string }>(
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
      select gen_random_uuid(), ?, ?, 'bulk-' || n, 'linux', '1', 'x64', '1.0.0', now() from generate_series(1, 1000) n
      returning id`,
      [orgId, siteId],
    );
    const many = made.map(({ id }) => id).sort();
    const { hubPool } = app.server.database;
    const audit = createAuditTrail(app.server.chainWriter);
    const store = createDeviceStore({ db: hubPool, nodeId: 'n', audit, log: quietLog });
    for (let round = 0; round < 8; round++) {
      // In the order that meets the other half way.
      const facts = [...many].reverse().map((deviceId) => ({
        deviceId,
        agentVersion: `2.0.${round}`,
        capabilities: undefined,
      }));
      const [answer] = await Promise.all([
        bulk(many, { type: 'tags', add: [`t${round}`] }),
        store.recordFacts(facts),
      ]);
      expect(answer.status).to.equal(200);
    }
    const done = await sql(
      `select from devices where org_id = ? and agent_version = '2.0.7' and cardinality(tags) = 8`,
      [orgId],
    );
    expect(done).to.have.length(1000);
  });

  describe('and given work', () => {
    const order = (deviceIds: readonly string[], more: object = {}, person = tenant.admin) =>
      send('POST', '/devices/bulk/commands', { deviceIds, type: 'agent.refresh-inventory', ...more }, person);
    beforeEach(() =>
      sql(
        `update devices set capabilities = case when id = ? then '{agent.reboot}'
          else '{agent.refresh-inventory}' end::text[]`,
        [ids[1]],
      ),
    );

    it('each do it once, and those that cannot are told apart', async () => {
      const agent = await connectDevice(app, devices[0]!.token);
      const { status, body } = await order([...ids, suspended, foreign, gone], { ttlSeconds: 60 });
      expect(status).to.equal(202);
      expect(body.commands.map(({ deviceId }: Outcome) => deviceId)).to.have.members([ids[0], ids[2]]);
      expect(body.refused.map(({ deviceId, code }: Outcome) => [deviceId, code])).to.deep.equal([
        [ids[1], 'CAPABILITY_MISSING'],
        [suspended, 'TENANT_INACTIVE'],
        [foreign, 'NOT_FOUND'],
        [gone, 'NOT_FOUND'],
      ]);
      const frame = await agent.nextCommand();
      const [own] = body.commands.filter(({ deviceId }: Outcome) => deviceId === ids[0]);
      expect(frame).to.include({ id: own.id, type: 'agent.refresh-inventory' });
      expect((await auditOf(ids[0]!)).at(-1)).to.deep.include({
        action: 'device.command',
        details: { commandId: own.id, type: 'agent.refresh-inventory' },
      });
      agent.close();
    });

    it('are given it once by one key, and not if none can have it', async () => {
      const headers = { 'idempotency-key': newId() };
      const ask = () =>
        app.call('POST', '/devices/bulk/commands', {
          token: tenant.admin.token,
          headers,
          body: { deviceIds: [ids[0]], type: 'agent.refresh-inventory' },
        });
      const [first, second] = [await ask(), await ask()];
      expect(second.body).to.deep.equal(first.body);
      const none = await order([ids[1]!, foreign]);
      expect([none.status, none.body.code, none.body.details.length]).to.deep.equal([409, 'CONFLICT', 2]);
    });

    it('need what the work needs', async () => {
      const script = {
        type: 'script.run',
        payload: { language: 'bash', content: 'true', timeoutSeconds: 1 },
      };
      const { body: role } = await send('POST', '/roles', {
        name: 'Operator',
        scope: 'partner',
        permissions: ['devices:read', 'devices:execute'],
      });
      const operator = await buildPerson(app, {
        scope: 'partner',
        partnerId: tenant.partnerId,
        role: role.id,
      });
      expect((await order(ids, {}, operator)).status).to.equal(202);
      expect((await order(ids, script, operator)).status).to.equal(403);
      expect(pathsOf(await order(ids, { type: 'script.run', payload: { language: 'cobol' } }))).to.include(
        'body.payload.language',
      );
      expect(pathsOf(await order([], { type: 'nothing' }))).to.deep.equal([
        400,
        'body.deviceIds',
        'body.type',
      ]);
    });
  });
});
