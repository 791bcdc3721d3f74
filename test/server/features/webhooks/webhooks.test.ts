import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import {
  EVENT_TYPES,
  type EventTypeName,
  EventTypeName as Names,
} from '../../../../src/features/webhooks/event-catalogue.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildOrganization, buildPerson, buildTenant } from '../../../support/factories.ts';
import { webhookGround } from '../../../support/webhooks/webhook-support.ts';

describe('webhooks', () => {
  let ground: Awaited<ReturnType<typeof webhookGround>>;

  before(async () => {
    ground = await webhookGround();
  });
  after(async () => ground.close());
  afterEach(() => ground.sql('delete from webhooks'));

  const roleWith = async (permissions: string[]) => {
    const id = newId();
    await withSystem(ground.app.server.database.pool, 'test data', (tx) =>
      tx('roles').insert({
        id,
        scope: 'partner',
        partner_id: ground.tenant.partnerId,
        name: `Role ${id}`,
        permissions,
      }),
    );
    return id;
  };

  it('show their secret once, and keep it sealed and out of everything else', async () => {
    const { call, sql } = ground;
    const { id, secret } = await ground.webhook('secretive');
    expect(secret).to.match(/^whsec_[A-Za-z0-9+/]{43}=$/);
    const rotated = (await call('POST', `/webhooks/${id}/rotate-secret`, {})).body;
    const [row] = await sql<Record<string, string>>('select * from webhooks where id = $1', [id]);
    await ground.app.server.chainWriter.flush();
    const trail = await sql('select action, details from audit_logs where resource_id = $1', [id]);
    expect(trail.map(({ action }) => action)).to.have.members(['webhook.create', 'webhook.rotate']);
    const elsewhere = JSON.stringify([
      row,
      trail,
      (await call('GET', `/webhooks/${id}`)).body,
      (await call('GET', '/webhooks')).body,
      (await call('PATCH', `/webhooks/${id}`, { url: ground.receiver.url('/a-secret-path') })).body.name,
      ground.app.log,
    ]);
    for (const text of [secret, rotated.secret]) expect(elsewhere).not.to.include(text.slice(6, 30));
    await ground.app.server.chainWriter.flush();
    const changes = await sql(
      `select details from audit_logs where action = 'webhook.update' and resource_id = $1`,
      [id],
    );
    expect(JSON.stringify(changes)).to.include('127.0.0.1').and.not.include('a-secret-path');
  });

  it('refuse addresses inside, other protocols, unknown events and too many of them', async () => {
    const { call, tenant } = ground;
    const fields = { name: 'refused', eventTypes: ['alert.raised'], orgId: tenant.orgId };
    for (const url of [
      'http://example.com/',
      'https://10.0.0.1/',
      'https://127.0.0.2/',
      'https://u:p@example.com/',
      'nonsense',
    ]) {
      const answer = await call('POST', '/webhooks', { ...fields, url });
      expect(answer.status, url).to.equal(400);
      expect(answer.body.details[0].path).to.equal('body.url');
    }
    const url = ground.receiver.url('/x');
    for (const wrong of [
      { eventTypes: [] },
      { eventTypes: ['device.exploded'] },
      { name: ' ' },
      { more: 1 },
      { eventTypes: ['rollout.halted'] },
    ]) {
      expect(
        (await call('POST', '/webhooks', { ...fields, url, ...wrong })).status,
        JSON.stringify(wrong),
      ).to.equal(400);
    }
    await ground.webhook('taken');
    expect((await call('POST', '/webhooks', { ...fields, url, name: 'TAKEN' })).status).to.equal(409);
    for (let n = 1; n < 20; n++) await ground.webhook(`of ${n}`);
    const beyond = await call('POST', '/webhooks', { ...fields, url });
    expect([beyond.status, beyond.body.code]).to.deep.equal([403, 'LIMIT_REACHED']);
    // Those of the partner count by themselves.
    await ground.webhook('of the partner', { orgId: undefined });
  });

  it('are out of sight for other tenants, and for people who see only some organizations', async () => {
    const { app, as, tenant } = ground;
    const other = await buildTenant(app);
    const [own, ofPartner] = [
      await ground.webhook('own'),
      await ground.webhook('partner', { orgId: undefined }),
    ];
    await ground.raise();
    const mine = await ground.delivery(own.id, ({ status }) => status === 'delivered');
    const theirs = await ground.delivery(ofPartner.id, ({ status }) => status === 'delivered');
    const inside = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    const limited = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
    const ways = (id: string, deliveryId: string): [string, string, object?][] => [
      ['GET', `/webhooks/${id}`],
      ['PATCH', `/webhooks/${id}`, { name: 'stolen' }],
      ['DELETE', `/webhooks/${id}`],
      ['POST', `/webhooks/${id}/rotate-secret`, {}],
      ['POST', `/webhooks/${id}/test`],
      ['GET', `/webhooks/${id}/deliveries`],
      ['GET', `/webhooks/${id}/deliveries/${deliveryId}`],
      ['POST', `/webhooks/${id}/deliveries/${deliveryId}/replay`],
      ['POST', `/webhooks/${id}/replay`, { from: '2026-01-01', to: '2099-01-01' }],
    ];
    const statuses = async (token: string, id: string, deliveryId: string) =>
      new Set(await Promise.all(ways(id, deliveryId).map(async (way) => (await as(token)(...way)).status)));
    expect(await statuses(other.admin.token, own.id, mine.id)).to.deep.equal(new Set([404]));
    for (const { token } of [other.admin, inside, limited]) {
      expect(await statuses(token, ofPartner.id, theirs.id)).to.deep.equal(new Set([404]));
    }
    // A delivery is found by way of its own webhook only.
    expect((await ground.call('GET', `/webhooks/${own.id}/deliveries/${theirs.id}`)).status).to.equal(404);
    const names = async (token: string) =>
      (await as(token)('GET', '/webhooks')).body.data.map(({ name }: { name: string }) => name);
    expect(await names(other.admin.token)).to.deep.equal([]);
    for (const { token } of [inside, limited]) expect(await names(token)).to.deep.equal(['own']);
    const fields = { name: 'new', url: ground.receiver.url('/x'), eventTypes: ['alert.raised'] };
    const made = async (token: string, orgId?: string) =>
      (await as(token)('POST', '/webhooks', { ...fields, ...(orgId === undefined ? {} : { orgId }) })).status;
    expect(await made(limited.token)).to.equal(403);
    expect(await made(other.admin.token, tenant.orgId)).to.equal(403);
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationTechnician,
    });
    expect(await made(viewer.token)).to.equal(403);

    // What happens elsewhere goes to nobody but its own partner.
    const before = ground.receiver.received.length;
    await ground.raise(other.orgId);
    const second = await buildOrganization(app, tenant.partnerId);
    await ground.raise(second);
    await eventually(
      () => ground.receiver.at('/partner'),
      (got) => got.length === 2,
    );
    expect(ground.receiver.received.slice(before).map(({ path, body }) => [path, body.orgId])).to.deep.equal([
      ['/partner', second],
    ]);
  });

  it('cannot be used to read what their maker may not read', async () => {
    const { app, as, tenant, call } = ground;
    const { id } = await ground.webhook('audited', { eventTypes: ['audit.recorded', 'alert.raised'] });
    const role = await roleWith(['webhooks:*', 'alerts:read']);
    const person = as(
      (await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId, role })).token,
    );
    const status = async (...way: [string, string, object?]) => (await person(...way)).status;
    const url = ground.receiver.url('/elsewhere');
    expect(await status('PATCH', `/webhooks/${id}`, { url })).to.equal(403);
    expect(await status('POST', `/webhooks/${id}/rotate-secret`, {})).to.equal(403);
    expect(await status('POST', '/webhooks', { name: 'mine', url, eventTypes: ['audit.recorded'] })).to.equal(
      403,
    );
    expect(await status('PATCH', `/webhooks/${id}`, { name: 'renamed' })).to.equal(200);
    await app.server.chainWriter.flush();
    const audited = await ground.delivery(
      id,
      ({ eventType, status: is }) => eventType === 'audit.recorded' && is === 'delivered',
    );
    const read = async (by: typeof call) =>
      (await by('GET', `/webhooks/${id}/deliveries/${audited.id}`)).body.data;
    expect(await read(person)).to.equal(null);
    expect(await read(call)).to.have.property('action');
    expect(await status('PATCH', `/webhooks/${id}`, { eventTypes: ['alert.raised'], url })).to.equal(200);
  });

  it('are tested with a ping at once, whatever the receiver does', async () => {
    const { call, receiver } = ground;
    const { id } = await ground.webhook('pinged', { enabled: false });
    const good = (await call('POST', `/webhooks/${id}/test`)).body;
    expect(good).to.deep.include({ ok: true, responseStatus: 204, error: null });
    expect(receiver.at('/pinged')[0]!.body).to.deep.include({
      type: 'webhook.ping',
      data: { webhookId: id },
    });
    receiver.status('/pinged', 418);
    const bad = (await call('POST', `/webhooks/${id}/test`)).body;
    expect(bad).to.deep.include({ ok: false, responseStatus: 418, responseExcerpt: 'said 418' });
    for (let n = 2; n < 10; n++) await call('POST', `/webhooks/${id}/test`);
    expect((await call('POST', `/webhooks/${id}/test`)).status).to.equal(429);
    expect((await call('GET', `/webhooks/${id}/deliveries`)).body.data).to.deep.equal([]);
  });

  it('get every event of the catalogue, in the form that it describes', async () => {
    const { app, call, sql, tenant } = ground;
    const { id } = await ground.webhook('all', { orgId: undefined, eventTypes: [...Names.options] });
    const alertId = await ground.raise();
    await call('POST', `/alerts/${alertId}/acknowledge`, {});
    await call('POST', `/alerts/${alertId}/resolve`, {});
    const { deviceId } = await buildDevice(app, tenant.orgId);
    await call('DELETE', `/devices/${deviceId}`);
    await call('POST', `/devices/${deviceId}/restore`);
    const one = { o: tenant.orgId, d: deviceId, i: newId() };
    const [backup, restore] = [newId(), newId()];
    for (const statement of [
      `insert into commands (id, org_id, device_id, type, payload, timeout_seconds, expires_at)
        values ('${one.i}', '${one.o}', '${one.d}', 'script.run', '{}', 60, now())`,
      `update commands set status = 'succeeded', output = '{"exitCode": 1, "stdout": "hidden"}', finished_at = now() where id = '${one.i}'`,
      `insert into work (id, kind, partner_id, org_id, device_id, input, step, deadline_at, paused_at)
        select '${backup}', 'backup', partner_id, id, '${one.d}', '{}', 'begin', now(), now()
        from organizations where id = '${one.o}'`,
      `insert into backup_job_facts (id, org_id, device_id, type, added_bytes)
        values ('${backup}', '${one.o}', '${one.d}', 'manual', 5000000000)`,
      `update work set status = 'completed', stage = 'ended', finished_at = now() where id = '${backup}'`,
      `insert into work (id, kind, partner_id, org_id, device_id, input, step, deadline_at, paused_at)
        select '${restore}', 'restore', partner_id, id, '${one.d}', '{}', 'record', now(), now()
        from organizations where id = '${one.o}'`,
      `insert into backup_restore_facts (id, org_id, overwrite) values ('${restore}', '${one.o}', 'never')`,
      `update work set status = 'cancelled', stage = 'ended', finished_at = now() where id = '${restore}'`,
      `insert into backup_encryption_keys (id, org_id, name) values ('${one.i}', '${one.o}', 'Key')`,
      `insert into c2c_connections (id, org_id, provider, auth_method, display_name, tenant_id)
        values ('${one.i}', '${one.o}', 'microsoft_365', 'platform_app', 'Cloud', '${one.i}')`,
      `insert into c2c_configs (id, org_id, connection_id, name, encryption_key_id, backup_scope, all_users, target_users)
        values ('${one.i}', '${one.o}', '${one.i}', 'Cloud', '${one.i}', '{mail}', true, '{}')`,
      `insert into work (id, kind, partner_id, org_id, input, step, deadline_at, paused_at)
        select '${one.i}', 'cloud_backup', partner_id, id, '{}', 'run', now(), now() from organizations where id = '${one.o}'`,
      `insert into c2c_job_facts (id, org_id, config_id, type, trigger)
        values ('${one.i}', '${one.o}', '${one.i}', 'backup', 'manual')`,
      `update work set status = 'partial', stage = 'ended', finished_at = now() where id = '${one.i}'`,
      `insert into agent_rollouts (id, component, version, waves, failed_percent, silent_minutes, min_devices)
        values ('${one.i}', 'agent', '1.2.3', '[{"percent": 100, "soakMinutes": 0}]', 5, 10, 3)`,
      `update agent_rollouts set state = 'halted' where id = '${one.i}'`,
    ]) {
      await sql(statement);
    }
    await app.server.chainWriter.flush();
    const got = await eventually(
      () => ground.receiver.at('/all'),
      (list) => new Set(list.map(({ body }) => body.type)).size === Names.options.length,
    );
    for (const { body } of got) {
      const type = EVENT_TYPES[body.type as EventTypeName];
      expect(Object.keys(type.data.parse(body.data)), body.type).to.deep.equal(Object.keys(body.data));
    }
    const ended = got.find(({ body }) => body.type === 'command.ended');
    expect(ended?.body.data).to.deep.include({ status: 'succeeded', exitCode: 1 });
    expect(JSON.stringify(ended?.body)).not.to.contain('hidden');
    // The database writes no other fields, and no other types.
    const stored = await sql<{ type: EventTypeName; data: object }>(
      'select distinct on (type) type, data from webhook_events',
    );
    for (const { type, data } of stored) {
      expect(Object.keys(data), type).to.have.members(Object.keys(EVENT_TYPES[type].data.shape));
    }
    const sources = await sql<{ source: string }>(
      `select prosrc as source from pg_proc where proname like 'webhook\\_%'`,
    );
    const written = sources.flatMap(({ source }) =>
      [...source.matchAll(/'([a-z_]+\.[a-z_]+)'/g)].map(([, name]) => name),
    );
    expect(new Set(written)).to.deep.equal(new Set(Names.options));
    const listed = (await call('GET', '/webhooks/event-types')).body.data;
    expect(listed.map(({ name }: { name: string }) => name)).to.deep.equal(Names.options);
    expect((await call('GET', `/webhooks/${id}`)).body.status).to.equal('active');
  });
});
