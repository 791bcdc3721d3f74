import { expect } from 'chai';
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
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { deviceGround, pathsOf, type Tenant } from './devices-support.ts';

/** What ends with the move: membership of groups, which its answer names, and of maintenance windows. */
const ENDS = [
  'device_group_members',
  'maintenance_members',
  'alert_rule_matches',
  'alert_rule_checks',
  'watched_filter_members',
];

/** Work of a cloud directory belongs to no device. */
const OF_NO_DEVICE = ['c2c_job_facts', 'c2c_outcomes', 'c2c_restored_items'];

describe('a device that is moved', () => {
  let app: TestApp;
  let tenant: Tenant;
  let device: EnrolledDevice;
  let target: { orgId: string; siteId: string };
  const { send, sql, read, auditOf, define } = deviceGround(
    () => app,
    () => tenant.admin,
  );
  const move = (body: unknown, person = tenant.admin, id = device.deviceId) =>
    send('POST', `/devices/${id}/move`, body, person);

  const tellSoftware = async ({ deviceId, token }: EnrolledDevice, names: string[]) => {
    const answer = await app.call('POST', `/agents/${deviceId}/inventory`, {
      token,
      body: {
        collectedAt: new Date().toISOString(),
        software: names.map((name) => ({ name, version: '1' })),
      },
    });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
  };

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId, { machineId: 'machine-1' });
    const orgId = await buildOrganization(app, tenant.partnerId);
    target = { orgId, siteId: await buildSite(app, orgId) };
  });

  it('goes to another site of its organization with all it is in', async () => {
    const siteId = await buildSite(app, tenant.orgId);
    await define(tenant.orgId, 'asset', 'string');
    await send('PATCH', `/devices/${device.deviceId}`, { customFields: { asset: 'A-1' } });
    const group = await send('POST', '/groups', {
      orgId: tenant.orgId,
      name: 'Tills',
      deviceIds: [device.deviceId],
    });
    const { status, body } = await move({ siteId });
    expect(status).to.equal(200);
    expect(body).to.deep.equal({
      device: await read(device.deviceId),
      groupsLeft: [],
      customFieldsDropped: [],
    });
    expect(body.device).to.deep.include({
      orgId: tenant.orgId,
      siteId,
      groupIds: [group.body.id],
      customFields: { asset: 'A-1' },
    });
    const [, entry] = await auditOf(device.deviceId);
    expect(entry).to.deep.include({
      action: 'device.move',
      org_id: tenant.orgId,
      details: {
        before: { siteId: device.siteId },
        after: { siteId },
        from: { orgId: tenant.orgId, siteId: device.siteId },
        to: { orgId: tenant.orgId, siteId },
        groupsLeft: [],
        customFieldsDropped: [],
      },
    });
  });

  it('goes to another organization; what cannot come along is named, in the answer and in both trails', async () => {
    for (const [key, type, there] of [
      ['kept', 'string', 'string'],
      ['other_type', 'string', 'list'],
      ['unknown_there', 'number', undefined],
    ] as const) {
      await define(tenant.orgId, key, type);
      if (there !== undefined) await define(target.orgId, key, there);
    }
    await send('PATCH', `/devices/${device.deviceId}`, {
      displayName: 'Till',
      tags: ['front'],
      customFields: { kept: 'x', other_type: 'y', unknown_there: 1 },
    });
    await send('POST', `/devices/${device.deviceId}/maintenance`, { enabled: true });
    const groups: string[] = [];
    for (const name of ['b', 'A']) {
      const { body } = await send('POST', '/groups', {
        orgId: tenant.orgId,
        name,
        deviceIds: [device.deviceId],
      });
      groups.unshift(body.id);
    }
    const { status, body } = await move(target);
    expect(status).to.equal(200);
    expect(body).to.deep.include({
      groupsLeft: [
        { id: groups[0], name: 'A' },
        { id: groups[1], name: 'b' },
      ],
      customFieldsDropped: ['kept', 'other_type', 'unknown_there'].slice(1),
    });
    expect(body.device).to.deep.equal(await read(device.deviceId));
    expect(body.device).to.deep.include({
      ...target,
      displayName: 'Till',
      tags: ['front'],
      customFields: { kept: 'x' },
      groupIds: [],
      status: 'maintenance',
    });
    const entries = (await auditOf(device.deviceId)).filter(({ action }) => action === 'device.move');
    expect(entries.map((entry) => entry.org_id)).to.have.members([tenant.orgId, target.orgId]);
    for (const { details } of entries) {
      expect(details).to.deep.equal({
        before: { orgId: tenant.orgId, siteId: device.siteId },
        after: target,
        from: { orgId: tenant.orgId, siteId: device.siteId },
        to: target,
        groupsLeft: ['A', 'b'],
        customFieldsDropped: ['other_type', 'unknown_there'],
      });
    }
    // What was noted before stays where it was noted.
    expect(
      (await auditOf(device.deviceId)).filter(({ org_id: orgId }) => orgId === target.orgId),
    ).to.have.length(1);
  });

  it('takes along whatever belongs to it, in every table there is', async () => {
    const agent = await connectDevice(app, device.token);
    await agent.heartbeat();
    await eventually(
      () => send('POST', `/devices/${device.deviceId}/commands`, { type: 'agent.refresh-inventory' }),
      ({ status }) => status === 202,
    );
    const frame = await agent.nextCommand();
    await agent.succeed(frame, {});
    await sql(
      `insert into diagnostic_logs (id, device_id, org_id, "timestamp", level, component, message)
      values (gen_random_uuid(), ?, ?, now(), 'info', 'c', 'm')`,
      [device.deviceId, tenant.orgId],
    );
    await sql(
      `insert into event_logs (id, device_id, org_id, "timestamp", level, category, source, message)
      values (gen_random_uuid(), ?, ?, now(), 'info', 'system', 's', 'm')`,
      [device.deviceId, tenant.orgId],
    );
    await sql('insert into stored_log_days (device_id, org_id, day) values (?, ?, now())', [
      device.deviceId,
      tenant.orgId,
    ]);
    await sql(
      `insert into alerts (id, device_id, org_id, kind, severity, title, message)
      values (gen_random_uuid(), ?, ?, 'test', 'low', 't', 'm')`,
      [device.deviceId, tenant.orgId],
    );
    await sql(
      `insert into device_upgrades (id, device_id, org_id, component, attempt_id, target_version, state)
      values (gen_random_uuid(), ?, ?, 'agent', gen_random_uuid(), '1.1.0', 'downloading')`,
      [device.deviceId, tenant.orgId],
    );
    await sql(
      `with made as (
        insert into backup_repositories (id, org_id, device_id) values (gen_random_uuid(), ?, ?)
        returning id, org_id, device_id),
      job as (
        insert into work (id, kind, partner_id, org_id, device_id, input, step, deadline_at, paused_at)
        select gen_random_uuid(), 'backup', o.partner_id, m.org_id, m.device_id, '{}', 'begin', now(), now()
        from made m join organizations o on o.id = m.org_id returning id, org_id, device_id),
      facts as (
        insert into backup_job_facts (id, org_id, device_id, type) select id, org_id, device_id, 'manual' from job),
      snapshot as (
        insert into backup_snapshots (id, org_id, device_id, repository_id, engine_id, received_at)
        select gen_random_uuid(), org_id, device_id, id, repeat('0', 64), now() from made)
      insert into backup_store_credentials (id, org_id, repository_id, secret_hash, role, expires_at)
      select gen_random_uuid(), org_id, id, repeat('0', 64), 'device', now() from made`,
      [tenant.orgId, device.deviceId],
    );
    await sql(
      `with added as (
        insert into work (id, kind, partner_id, org_id, device_id, input, step, deadline_at, paused_at)
        select gen_random_uuid(), 'restore', o.partner_id, o.id, d.id, '{}', 'record', now(), now()
        from organizations o, devices d where o.id = ? and d.id = ? returning id, org_id)
      insert into backup_restore_facts (id, org_id, overwrite) select id, org_id, 'never' from added`,
      [tenant.orgId, device.deviceId],
    );
    await sql(
      `with copy as (
        insert into backup_repositories (id, org_id, device_id, is_vault) values (gen_random_uuid(), ?, ?, true)
        returning id, org_id, device_id),
      vault as (
        insert into backup_vaults (id, org_id, device_id, name, source_repository_id, repository_id, provider, details,
          sync_after_backup, retention_count, max_lag_hours)
        select gen_random_uuid(), org_id, device_id, 'Vault', id, id, 'server', '{}', true, 3, 48 from copy
        returning id, org_id, device_id),
      added as (
        insert into work (id, kind, partner_id, org_id, device_id, input, step, deadline_at, paused_at)
        select gen_random_uuid(), 'vault_sync', o.partner_id, o.id, v.device_id, '{}', 'begin', now(), now()
        from vault v join organizations o on o.id = v.org_id returning id, org_id)
      insert into backup_vault_sync_facts (id, org_id, vault_id, reason)
      select added.id, added.org_id, vault.id, 'manual' from added, vault`,
      [tenant.orgId, device.deviceId],
    );
    for (const text of [
      `with added as (
        insert into work (id, kind, partner_id, org_id, device_id, input, step, deadline_at, paused_at)
        select gen_random_uuid(), 'verification', o.partner_id, o.id, d.id, '{}', 'verify', now(), now()
        from organizations o, devices d where o.id = ? and d.id = ? returning id, org_id)
      insert into backup_verification_facts (id, org_id, verification_type) select id, org_id, 'integrity' from added`,
      `insert into backup_readiness (org_id, device_id, score, risks, calculated_at) values (?, ?, 50, '[]', now())`,
      `insert into backup_sla_events (id, org_id, device_id, event_type)
      values (gen_random_uuid(), ?, ?, 'rpo_breach')`,
      `insert into backup_database_instances (id, org_id, device_id, engine, instance, facts, last_discovered_at)
      values (gen_random_uuid(), ?, ?, 'postgresql', '5432', '{}', now())`,
      `insert into backup_machines (id, org_id, device_id, hypervisor, machine_id, name, facts, last_discovered_at)
      values (gen_random_uuid(), ?, ?, 'hyperv', gen_random_uuid(), 'Guest', '{}', now())`,
      `insert into backup_vm_restores (id, org_id, device_id, kind, hypervisor, vm_name, spec, operation, command_id,
        holds_snapshot, expires_at)
      values (gen_random_uuid(), ?, ?, 'as_vm', 'kvm', 'Guest', '{}', 'restore', gen_random_uuid(), false, now())`,
      `insert into device_services (org_id, device_id, name, state, since) values (?, ?, 'nginx', 'running', now())`,
      `insert into device_metric_averages (org_id, device_id) values (?, ?)`,
      `with run as (
        insert into script_runs (id, partner_id, org_ids, script_name, language, content, os_types, timeout_seconds, version,
          target, expires_at)
        select gen_random_uuid(), partner_id, array[id], 's', 'bash', 'true', '{}', 60, repeat('0', 64), '{}', now()
        from organizations where id = ? returning id)
      insert into script_run_devices (run_id, org_id, device_id, command_id)
      select run.id, c.org_id, c.device_id, c.id from run, (select * from commands where device_id = ? limit 1) c`,
      `insert into device_notes (id, org_id, device_id, text, author_name)
      values (gen_random_uuid(), ?, ?, 'The owner switches it off on Fridays.', 'Ada')`,
      `with question as (
        insert into event_log_questions (id, partner_id, org_id, target, query, at_most_rows, days, ends_at, author_name)
        select gen_random_uuid(), partner_id, id, '{"all":true}', '{"name":"System"}', 50, 7, now(), 'Ada'
        from organizations where id = ? returning id, org_id)
      insert into event_log_answers (id, question_id, org_id, device_id)
      select gen_random_uuid(), id, org_id, ? from question`,
      `insert into terminals (id, org_id, device_id, opened_in, user_name, user_email, resume_token_hash, cols, rows,
        sealed_key, ended_at, end_reason)
      select gen_random_uuid(), o.id, d.id, o.id, 'Ada', 'ada@example.com', 'x', 80, 24, 'x', now(), 'closed'
      from (select ?::uuid as id) o, (select ?::uuid as id) d`,
      `insert into terminal_parts (terminal_id, org_id, seq, content)
      select id, org_id, 1, '\\x00' from terminals where org_id = ? and device_id = ?`,
      `insert into device_service_reports (org_id, device_id, manager, reported_at) values (?, ?, 'systemd', now())`,
      `insert into backup_recovery_tokens (id, org_id, device_id, snapshot_id, restore_type, token_hash, expires_at)
      select gen_random_uuid(), org_id, device_id, id, 'bare_metal', repeat('0', 64), now()
      from backup_snapshots where org_id = ? and device_id = ?`,
    ]) {
      await sql(text, [tenant.orgId, device.deviceId]);
    }
    // As an open command has them.
    await sql(
      `insert into command_secrets (id, org_id, command_id, ref, value)
      select gen_random_uuid(), org_id, id, gen_random_uuid(), 'sealed' from commands where device_id = ? limit 1`,
      [device.deviceId],
    );
    // The first is no change; what differs in the second is.
    await tellSoftware(device, ['Editor', 'Browser']);
    await tellSoftware(device, ['Editor', 'Mail']);
    // The target knows one of the titles already, by another id.
    await tellSoftware(await buildDevice(app, target.orgId), ['Other', 'Mail']);
    const owner = <Row extends object>(text: string, values?: unknown[]) =>
      asOwner<Row & Record<string, unknown>>(app.database.ownerUrl, text, values);
    // Every table that refers to a device, or to what refers to one, by its organization.
    const keys = await owner<{ child: string; parent: string; column: string; action: string }>(
      `with recursive owned (oid) as (
        select 'devices'::regclass::oid
        union
        select c.conrelid from pg_constraint c join owned on owned.oid = c.confrelid
        where c.contype = 'f' and cardinality(c.conkey) > 1
      )
      select c.conrelid::regclass::text as child, c.confrelid::regclass::text as parent, c.confupdtype as action,
        (select a.attname from pg_attribute a where a.attrelid = c.conrelid and a.attnum = c.conkey[2]) as column
      from pg_constraint c join owned on owned.oid = c.confrelid where c.contype = 'f' and cardinality(c.conkey) > 1`,
    );
    const moving = keys.filter(({ child }) => !ENDS.includes(child) && !OF_NO_DEVICE.includes(child));
    expect(moving.map(({ child }) => child)).to.include.members(['device_presence', 'command_transitions']);
    for (const { child, action } of moving) {
      expect(action, `${child}: on update cascade, or named in ENDS and in the answer`).to.equal('c');
    }
    // None that holds an id of a device without such a key.
    const untied = await owner<{ name: string }>(
      `select c.relname as name from pg_class c
      join pg_attribute d on d.attrelid = c.oid and d.attname = 'device_id'
      join pg_attribute o on o.attrelid = c.oid and o.attname = 'org_id'
      where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace`,
    );
    // Partitions with keys would lock `devices`, so the rows of these tables follow by a trigger.
    const followed = await owner<{ source: string }>(
      `select prosrc as source from pg_proc where proname in ('move_metric_history', 'move_metric_days', 'move_logs_of_device')`,
    );
    const byTrigger = followed.flatMap(({ source }) => source.match(/(?<=update )\w+/g) ?? []);
    // What happened in a group stays with the group, and an execution of a recovery plan with its organization.
    const stays = ['device_group_changes', 'dr_steps', 'dr_actions'];
    const tied = untied.map(({ name }) => name).filter((name) => !stays.includes(name));
    expect([...keys.map(({ child }) => child), ...byTrigger]).to.include.members(tied);

    const rowsOf = async (child: string, parent: string, column: string, orgId: string) => {
      const ids = parent === 'devices' ? '$1' : `(select id from ${parent} where device_id = $1)`;
      const [counted] = await owner<{ count: number }>(
        `select count(*)::int as count from ${child} where org_id = $2 and ${column} ${parent === 'devices' ? '=' : 'in'} ${ids}`,
        [device.deviceId, orgId],
      );
      return counted!.count;
    };
    await eventually(
      () => rowsOf('device_presence', 'devices', 'device_id', tenant.orgId),
      (count) => count === 1,
    );
    const before: Record<string, number> = {};
    for (const { child, parent, column } of moving) {
      before[child] = await rowsOf(child, parent, column, tenant.orgId);
      expect(before[child], `${child}: put a row into it above`).to.be.greaterThan(0);
    }
    expect((await move(target)).status).to.equal(200);
    for (const { child, parent, column } of moving) {
      expect(await rowsOf(child, parent, column, tenant.orgId), child).to.equal(0);
      expect(await rowsOf(child, parent, column, target.orgId), child).to.equal(before[child]);
    }
    const { body: installed } = await send('GET', `/devices/${device.deviceId}/software`);
    expect(installed.data.map(({ name }: { name: string }) => name)).to.have.members(['Editor', 'Mail']);
    const history = await send('GET', `/commands/${frame.id}`);
    expect(history.body).to.deep.include({ orgId: target.orgId, status: 'succeeded' });
    expect(history.body.transitions).to.have.length(before['command_transitions']!);
    agent.close();
  });

  it('comes back by itself under what it is now: its token stays good, also for what it sends over HTTP', async () => {
    const clients = {
      from: await connectDashboard(app, tenant.technician.token),
      to: await connectDashboard(
        app,
        (await buildPerson(app, { scope: 'organization', orgId: target.orgId })).token,
      ),
    };
    for (const client of Object.values(clients)) await client.subscribe();
    const agent = await connectDevice(app, device.token);
    await agent.heartbeat();
    await move(target);
    await eventually(
      () => agent.socket.connected,
      (connected) => !connected,
    );
    const again = await connectDevice(app, device.token);
    await again.heartbeat();
    const shipped = await app.call('POST', `/agents/${device.deviceId}/logs`, {
      token: device.token,
      body: {
        logs: [{ timestamp: new Date().toISOString(), level: 'info', component: 'agent', message: 'here' }],
      },
    });
    expect(shipped.status, JSON.stringify(shipped.body)).to.be.within(200, 202);
    const logs = await sql('select from diagnostic_logs where org_id = ? and device_id = ?', [
      target.orgId,
      device.deviceId,
    ]);
    expect(logs).to.have.length(1);
    await eventually(
      () => clients.from.deltas.flatMap(({ left }) => left),
      (ids) => ids.includes(device.deviceId),
    );
    await eventually(
      () => clients.to.deltas.flatMap(({ entered }) => entered.map(({ id }) => id)),
      (ids) => ids.includes(device.deviceId),
    );
    await eventually(
      () => read(device.deviceId),
      ({ status }) => status === 'online',
    );
    expect((await send('GET', `/devices/${device.deviceId}`, undefined, tenant.technician)).status).to.equal(
      404,
    );
    for (const client of Object.values(clients)) client.close();
    again.close();
  });

  it('needs rights at both ends, and a place there', async () => {
    const stranger = await buildTenant(app);
    const theirs = { orgId: stranger.orgId, siteId: stranger.siteId };
    expect((await move(theirs)).status).to.equal(403);
    expect((await move(theirs, stranger.admin)).status).to.equal(404);
    expect((await move(target, tenant.technician)).status).to.equal(403);
    expect((await move({ siteId: stranger.siteId })).status).to.equal(403);
    expect(pathsOf(await move({ siteId: target.siteId }))).to.deep.equal([400, 'body.siteId']);
    expect(pathsOf(await move({ orgId: target.orgId, siteId: device.siteId }))).to.deep.equal([
      400,
      'body.siteId',
    ]);
    expect(pathsOf(await move({}))).to.deep.equal([400, 'body.siteId']);
    const selected = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
    expect((await move(target, selected)).status).to.equal(403);
    for (const orgId of [tenant.orgId, target.orgId]) {
      await sql(`update organizations set status = 'suspended' where id = ?`, [orgId]);
      expect((await move(target)).body.code).to.equal('TENANT_INACTIVE');
      await sql(`update organizations set status = 'active' where id = ?`, [orgId]);
    }
    expect(await read(device.deviceId)).to.include({ orgId: tenant.orgId, siteId: device.siteId });
    const system = await buildPerson(app, { scope: 'system' });
    expect((await move(theirs, system)).body.device).to.include(theirs);
    expect((await move(theirs, system)).status).to.equal(200);
  });

  it('does not come if the same machine is already', async () => {
    await buildDevice(app, target.orgId, { machineId: 'machine-1' });
    const { status, body } = await move(target);
    expect([status, body.code, body.details]).to.deep.equal([
      409,
      'CONFLICT',
      [{ path: 'body.orgId', message: 'must be unique' }],
    ]);
    expect(await read(device.deviceId)).to.include({ orgId: tenant.orgId });
  });

  it('counts by the caps of its new organization, however many come at once', async () => {
    const devices = [device.deviceId];
    for (let n = 0; n < 4; n++) devices.push((await buildDevice(app, tenant.orgId)).deviceId);
    await sql('update organizations set max_devices = 2 where id = ?', [target.orgId]);
    // The provider is full: its devices move within it all the same.
    await sql('update partners set max_devices = 5 where id = ?', [tenant.partnerId]);
    const answers = await Promise.all(devices.map((id) => move(target, tenant.admin, id)));
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).to.deep.equal([
      200, 200, 403, 403, 403,
    ]);
    expect(answers.find(({ status }) => status === 403)?.body.error).to.equal(
      'Device limit of the organization reached (2).',
    );
    const system = await buildPerson(app, { scope: 'system' });
    const full = await buildTenant(app);
    await sql('update partners set max_devices = 0 where id = ?', [full.partnerId]);
    const [stays = ''] = devices.filter((_id, i) => answers[i]?.status === 403);
    const across = await move({ orgId: full.orgId, siteId: full.siteId }, system, stays);
    expect(across.body.error).to.equal('Device limit of the provider reached (0).');
  });

  it('ends in one place, when it is moved to two at once and changed meanwhile', async () => {
    const second = await buildOrganization(app, tenant.partnerId);
    const other = { orgId: second, siteId: await buildSite(app, second) };
    for (let round = 0; round < 5; round++) {
      const agent = await connectDevice(app, device.token);
      const answers = await Promise.all([
        move(target),
        move(other),
        agent.heartbeat({ metrics: { cpuPercent: 1, ramPercent: 1, diskPercent: 1 } }).catch(() => undefined),
        send('POST', `/devices/${device.deviceId}/commands`, { type: 'agent.refresh-inventory' }),
        send('PATCH', `/devices/${device.deviceId}`, { tags: [`round-${round}`] }),
      ]);
      for (const answer of answers) {
        if (answer !== undefined && 'status' in answer) {
          // 503: on a machine that is busy enough, the wait for the other changes was too long, and nothing was changed.
          expect(answer.status, JSON.stringify(answer.body)).to.be.oneOf([200, 202, 409, 503]);
        }
      }
      const { orgId } = await read(device.deviceId);
      expect(orgId).to.be.oneOf([target.orgId, other.orgId]);
      const [strays] = await sql<{ count: number }>(
        `select (select count(*) from commands where device_id = ? and org_id <> ?)::int +
          (select count(*) from device_presence where device_id = ? and org_id <> ?)::int as count`,
        [device.deviceId, orgId, device.deviceId, orgId],
      );
      expect(strays?.count).to.equal(0);
      agent.close();
    }
  });
});
