import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { alertGround } from '../../../support/alert-rule-ground.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
  type Person,
} from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

const OFFLINE = { kind: 'offline', forMinutes: 5 };
const CPU = { kind: 'metric', metric: 'cpuPercent', operator: 'greaterThan', threshold: 90, forMinutes: 10 };
const EVENT = { kind: 'event', source: 'Disk', count: 1, withinMinutes: 60 };

describe('alert rules', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let ground: ReturnType<typeof alertGround>;

  before(async () => {
    app = await sharedTestApp();
    ground = alertGround(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const send = (method: string, path: string, body?: object, { token }: Person = tenant.admin) =>
    app.call(method, path, body === undefined ? { token } : { token, body });
  const wanted = (more: object = {}) => ({
    orgId: tenant.orgId,
    name: 'Busy',
    severity: 'medium',
    target: { all: true },
    condition: CPU,
    ...more,
  });
  const paths = ({ body }: { body: { details: { path: string }[] } }) => body.details.map(({ path }) => path);

  it('are there from the start of an organization', async () => {
    const { body } = await send('GET', `/alert-rules?orgId=${tenant.orgId}`);
    expect(
      body.data.map(({ name, alertKind, enabled }: { name: string; alertKind: string; enabled: boolean }) => [
        name,
        alertKind,
        enabled,
      ]),
    ).to.deep.equal([
      ['Backup failed', 'backup_failed', true],
      ['Device offline', 'device_offline', true],
      ['Disk almost full', 'disk_full', true],
    ]);
  });

  it('are created, read, changed, listed and deleted, and each change is in the audit trail', async () => {
    const made = await send('POST', '/alert-rules', wanted());
    expect(made.status).to.equal(201);
    expect(made.body).to.deep.include({
      ...wanted(),
      partnerId: tenant.partnerId,
      enabled: true,
      autoResolve: true,
      cooldownMinutes: 0,
      alertKind: 'cpu_high',
      openAlerts: 0,
      createdBy: tenant.admin.id,
    });
    const path = `/alert-rules/${made.body.id}`;
    expect((await send('GET', path)).body).to.deep.equal(made.body);
    const changed = await send('PATCH', path, { name: 'Very busy', enabled: false, cooldownMinutes: 60 });
    expect(changed.body).to.deep.include({
      name: 'Very busy',
      enabled: false,
      cooldownMinutes: 60,
      condition: CPU,
    });
    expect((await send('PATCH', path, {})).status).to.equal(400);
    const listed = await send('GET', `/alert-rules?orgId=${tenant.orgId}&kind=metric&search=BUSY`);
    expect(listed.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([made.body.id]);
    expect((await send('DELETE', path)).body).to.deep.equal({ success: true });
    expect((await send('GET', path)).status).to.equal(404);
    await app.server.chainWriter.flush();
    const entries = await ground.sql<{ action: string }>(
      'select action from audit_logs where resource_id = ? order by "timestamp", seq',
      [made.body.id],
    );
    expect(entries.map(({ action }) => action)).to.deep.equal([
      'alert_rule.create',
      'alert_rule.update',
      'alert_rule.delete',
    ]);
  });

  it('have names that no other rule of the owner has', async () => {
    await send('POST', '/alert-rules', wanted());
    expect((await send('POST', '/alert-rules', wanted({ name: 'BUSY' }))).status).to.equal(409);
    expect((await send('POST', '/alert-rules', wanted({ orgId: undefined }))).status).to.equal(201);
  });

  it('refuse conditions that make no sense, by field', async () => {
    for (const [condition, path] of [
      [{ kind: 'nothing' }, 'body.condition.kind'],
      [{ kind: 'offline', forMinutes: 0 }, 'body.condition.forMinutes'],
      [{ kind: 'offline', forMinutes: 5, more: 1 }, 'body.condition'],
      [{ ...CPU, threshold: 101 }, 'body.condition.threshold'],
      [{ ...CPU, threshold: Number.NaN }, 'body.condition.threshold'],
      [{ ...CPU, threshold: -1 }, 'body.condition.threshold'],
      [{ ...CPU, clearThreshold: 95 }, 'body.condition.clearThreshold'],
      [{ ...CPU, operator: 'lessThan', threshold: 5, clearThreshold: 4 }, 'body.condition.clearThreshold'],
      [{ ...CPU, metric: 'processCpuPercent' }, 'body.condition.metric'],
      [{ kind: 'event', count: 1, withinMinutes: 5 }, 'body.condition'],
      [{ ...EVENT, text: '   ' }, 'body.condition.text'],
      [{ ...EVENT, text: 'x'.repeat(201) }, 'body.condition.text'],
      [{ ...EVENT, count: 1001 }, 'body.condition.count'],
      [{ kind: 'software', name: ' ', change: 'installed' }, 'body.condition.name'],
      [{ kind: 'reported', alertKind: 'Backup failed' }, 'body.condition.alertKind'],
    ] as const) {
      const answer = await send('POST', '/alert-rules', wanted({ condition }));
      expect(answer.status, JSON.stringify(condition)).to.equal(400);
      expect(paths(answer), JSON.stringify(condition)).to.deep.equal([path]);
    }
    const megabyte = await send(
      'POST',
      '/alert-rules',
      wanted({ condition: { ...EVENT, text: 'x'.repeat(2 ** 20) } }),
    );
    expect(megabyte.status).to.be.oneOf([400, 413]);
  });

  it('cover nothing of another tenant', async () => {
    const stranger = await buildTenant(app);
    const theirDevice = await buildDevice(app, stranger.orgId);
    const theirFilter = (
      await send(
        'POST',
        '/filters',
        {
          orgId: stranger.orgId,
          name: 'Theirs',
          conditions: { operator: 'AND', conditions: [{ field: 'hostname', operator: 'isNotNull' }] },
        },
        stranger.admin,
      )
    ).body.id;
    for (const [target, path] of [
      [{ deviceIds: [theirDevice.deviceId] }, 'body.target.deviceIds.0'],
      [{ siteIds: [stranger.siteId] }, 'body.target.siteIds.0'],
      [{ filterId: theirFilter }, 'body.target.filterId'],
    ] as const) {
      for (const owner of [{}, { orgId: undefined }]) {
        const answer = await send('POST', '/alert-rules', wanted({ ...owner, target }));
        expect([answer.status, ...paths(answer)], JSON.stringify(target)).to.deep.equal([400, path]);
        const preview = await send('POST', '/alert-rules/preview', {
          orgId: tenant.orgId,
          ...owner,
          target,
          condition: CPU,
        });
        expect([preview.status, ...paths(preview)]).to.deep.equal([400, path]);
      }
    }
    const { id } = (await send('POST', '/alert-rules', wanted())).body;
    for (const [method, body] of [
      ['GET', undefined],
      ['PATCH', { enabled: false }],
      ['DELETE', undefined],
    ] as const) {
      expect((await send(method, `/alert-rules/${id}`, body, stranger.admin)).status).to.equal(404);
    }
    expect(
      (await send('GET', `/alert-rules?orgId=${tenant.orgId}`, undefined, stranger.admin)).status,
    ).to.equal(403);
    expect((await send('POST', '/alert-rules', wanted(), stranger.admin)).status).to.equal(403);
    expect(
      (
        await send(
          'POST',
          '/alert-rules/preview',
          { orgId: tenant.orgId, target: { all: true }, condition: CPU },
          stranger.admin,
        )
      ).status,
    ).to.equal(403);
  });

  it('of the partner are seen and changed by people with access to all its organizations only', async () => {
    const { id } = (await send('POST', '/alert-rules', wanted({ orgId: undefined }))).body;
    const some = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
    for (const person of [some, tenant.technician]) {
      expect((await send('GET', `/alert-rules/${id}`, undefined, person)).status).to.equal(404);
      expect((await send('PATCH', `/alert-rules/${id}`, { enabled: false }, person)).status).to.be.oneOf([
        403, 404,
      ]);
    }
    expect((await send('POST', '/alert-rules', wanted({ orgId: undefined }), some)).status).to.equal(403);
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    expect((await send('POST', '/alert-rules', wanted(), viewer)).status).to.equal(403);
    expect((await send('GET', `/alert-rules?orgId=${tenant.orgId}`, undefined, viewer)).status).to.equal(200);
  });

  it('are limited in number, for the organization and for the partner', async () => {
    await ground.sql(
      `insert into alert_rules (id, partner_id, org_id, name, severity, target, condition, condition_kind, alert_kind)
      select gen_random_uuid(), ?, o.id, 'Rule ' || n, 'low', '{"all": true}', '{"kind":"offline","forMinutes":60}', 'offline', 'device_offline'
      from generate_series(1, 200) n, (select ?::uuid as id union all select null) o
      where n <= 197 or o.id is null`,
      [tenant.partnerId, tenant.orgId],
    );
    for (const owner of [{}, { orgId: undefined }]) {
      const { status, body } = await send('POST', '/alert-rules', wanted(owner));
      expect([status, body.error]).to.deep.equal([403, 'Alert rule limit reached (200).']);
    }
  });

  it('keep their filter from being deleted', async () => {
    const filter = (
      await send('POST', '/filters', {
        orgId: tenant.orgId,
        name: 'Servers',
        conditions: {
          operator: 'AND',
          conditions: [{ field: 'hostname', operator: 'contains', value: 'SRV' }],
        },
      })
    ).body.id;
    await send('POST', '/alert-rules', wanted({ target: { filterId: filter } }));
    const { status, body } = await send('DELETE', `/filters/${filter}`);
    expect([status, body.error]).to.deep.equal([409, 'This filter is used by alert rule Busy.']);
  });

  describe('cover devices', () => {
    const raisedFor = async () =>
      (
        await ground.sql<{ device_id: string }>('select device_id from alerts where org_id = ?', [
          tenant.orgId,
        ])
      ).map(({ device_id: id }) => id);

    for (const form of ['short', 'whole'] as const) {
      it(`by site, group, list and filter, as they are at the time (${form} rounds)`, async () => {
        const siteId = await buildSite(app, tenant.orgId);
        const devices = [];
        for (let at = 0; at < 5; at++) devices.push(await buildDevice(app, tenant.orgId));
        const [atSite, inGroup, listed, matching, none] = devices.map(({ deviceId }) => deviceId);
        await ground.sql('update devices set site_id = ? where id = ?', [siteId, atSite!]);
        await ground.sql(`update devices set hostname = 'SRV-1' where id = ?`, [matching!]);
        const group = (await send('POST', '/groups', { orgId: tenant.orgId, name: 'G', type: 'static' })).body
          .id;
        await send('POST', `/groups/${group}/devices`, { deviceIds: [inGroup] });
        const filter = (
          await send('POST', '/filters', {
            orgId: tenant.orgId,
            name: 'Servers',
            conditions: {
              operator: 'AND',
              conditions: [{ field: 'hostname', operator: 'contains', value: 'SRV' }],
            },
          })
        ).body.id;
        for (const target of [
          { siteIds: [siteId] },
          { groupIds: [group] },
          { deviceIds: [listed] },
          { filterId: filter },
        ]) {
          await ground.rule(tenant.admin.token, { orgId: tenant.orgId, target, condition: OFFLINE });
        }
        await app.settle();
        for (const one of devices) await ground.gone(one, 5.2);
        await ground[form]();
        expect(await raisedFor()).to.have.members([atSite, inGroup, listed, matching]);
        expect(await raisedFor()).not.to.include(none);
        // What no rule covers any more is resolved.
        await send('POST', `/groups/${group}/devices/remove`, { deviceIds: [inGroup] });
        await ground.sql('delete from alert_rules where org_id = ? and target = ?', [
          tenant.orgId,
          JSON.stringify({ deviceIds: [listed] }),
        ]);
        await ground.sql(
          `update alert_rules set enabled = false where org_id = ? and target = '{"all": true}'`,
          [tenant.orgId],
        );
        await ground.whole();
        const open = await ground.sql<{ device_id: string }>(
          `select device_id from alerts where org_id = ? and status = 'active'`,
          [tenant.orgId],
        );
        expect(open.map(({ device_id: id }) => id)).to.have.members([atSite, matching]);
      });
    }

    it('of all organizations, if they are of the partner, and of no other partner', async () => {
      const [second, stranger] = [await buildOrganization(app, tenant.partnerId), await buildTenant(app)];
      await ground.rule(tenant.admin.token, { condition: OFFLINE });
      const [mine, theirs] = [await buildDevice(app, second), await buildDevice(app, stranger.orgId)];
      for (const one of [mine, theirs]) await ground.gone(one, 6);
      await ground.whole();
      const rows = await ground.sql<{ device_id: string }>(
        'select device_id from alerts where org_id in (?, ?)',
        [second, stranger.orgId],
      );
      expect(rows.map(({ device_id: id }) => id)).to.deep.equal([mine.deviceId]);
    });
  });

  it('that raise the same kind share one alert, which gets worse with the worse rule', async () => {
    const one = await buildDevice(app, tenant.orgId);
    const quick = await ground.rule(tenant.admin.token, {
      orgId: tenant.orgId,
      severity: 'low',
      condition: OFFLINE,
    });
    const slow = await ground.rule(tenant.admin.token, {
      orgId: tenant.orgId,
      severity: 'critical',
      condition: { kind: 'offline', forMinutes: 60 },
    });
    const alert = async () =>
      (await send('GET', `/alerts?deviceId=${one.deviceId}`)).body.data.map(
        ({ severity, ruleId, status, count }: Record<string, unknown>) => ({
          severity,
          ruleId,
          status,
          count,
        }),
      );
    await ground.gone(one, 6);
    await ground.short();
    expect(await alert()).to.deep.equal([{ severity: 'low', ruleId: quick, status: 'active', count: 1 }]);
    const [{ id }] = (await send('GET', `/alerts?deviceId=${one.deviceId}`)).body.data;
    await send('POST', `/alerts/${id}/acknowledge`, {});
    // The rule with which the organization begins is worse than the first, and the last is the worst.
    await ground.gone(one, 30.1);
    await ground.sql(`update alerts set last_at = now() where id = ?`, [id]);
    await ground.short();
    expect((await alert())[0]).to.deep.include({ severity: 'high', status: 'active' });
    await ground.gone(one, 60.1);
    await ground.sql(`update alerts set last_at = now() where id = ?`, [id]);
    await ground.short();
    expect(await alert()).to.deep.equal([{ severity: 'critical', ruleId: slow, status: 'active', count: 3 }]);
    await ground.whole();
    expect(await alert()).to.deep.equal([{ severity: 'critical', ruleId: slow, status: 'active', count: 3 }]);
  });

  it('that do not resolve by themselves leave their alert open, and count the cause when it returns', async () => {
    const one = await buildDevice(app, tenant.orgId);
    await ground.rule(tenant.admin.token, { orgId: tenant.orgId, condition: OFFLINE, autoResolve: false });
    const alert = async () => (await send('GET', `/alerts?deviceId=${one.deviceId}`)).body.data[0];
    await ground.gone(one, 6);
    await ground.short();
    await ground.back(one, 3);
    await ground.short();
    expect(await alert()).to.deep.include({ status: 'active', count: 1, resolution: null });
    await ground.sql(`update alerts set last_at = now() - interval '10 minutes' where device_id = ?`, [
      one.deviceId,
    ]);
    await ground.gone(one, 6);
    await ground.short();
    expect(await alert()).to.deep.include({ status: 'active', count: 2 });
  });

  it('raise nothing about a device during their cooldown', async () => {
    const one = await buildDevice(app, tenant.orgId);
    await ground.rule(tenant.admin.token, { orgId: tenant.orgId, condition: OFFLINE, cooldownMinutes: 120 });
    const statuses = async () =>
      (await send('GET', `/alerts?deviceId=${one.deviceId}`)).body.data.map(
        ({ status }: { status: string }) => status,
      );
    const leave = async () => {
      await ground.gone(one, 6);
      await ground.whole();
      return statuses();
    };
    expect(await leave()).to.deep.equal(['active']);
    await ground.back(one, 3);
    await ground.whole();
    expect(await leave()).to.deep.equal(['resolved']);
    await ground.sql(`update alerts set resolved_at = now() - interval '121 minutes' where device_id = ?`, [
      one.deviceId,
    ]);
    expect(await leave()).to.deep.equal(['active', 'resolved']);
  });

  it('resolve their alerts when they are deleted', async () => {
    const one = await buildDevice(app, tenant.orgId);
    const id = await ground.rule(tenant.admin.token, { orgId: tenant.orgId, condition: OFFLINE });
    await ground.gone(one, 6);
    await ground.short();
    expect((await send('GET', `/alert-rules/${id}`)).body.openAlerts).to.equal(1);
    await send('DELETE', `/alert-rules/${id}`);
    const [alert] = (await send('GET', `/alerts?deviceId=${one.deviceId}`)).body.data;
    expect(alert).to.deep.include({ status: 'resolved', resolution: 'The rule was deleted.', ruleId: null });
  });

  it('resolve their alerts within a short round when they are switched off, or do not cover the device any more', async () => {
    const [one, two, three] = [
      await buildDevice(app, tenant.orgId),
      await buildDevice(app, tenant.orgId),
      await buildDevice(app, tenant.orgId),
    ];
    const disk = { kind: 'metric', metric: 'diskPercent', operator: 'greaterThan', threshold: 70 };
    const off = await ground.rule(tenant.admin.token, {
      orgId: tenant.orgId,
      condition: { ...disk, forMinutes: 0 },
      target: { deviceIds: [one.deviceId] },
    });
    const elsewhere = await ground.rule(tenant.admin.token, {
      orgId: tenant.orgId,
      condition: { ...disk, forMinutes: 0 },
      target: { deviceIds: [two.deviceId] },
    });
    await ground.disk(one, 80);
    await ground.disk(two, 80);
    await ground.short();
    const alert = async ({ deviceId }: { deviceId: string }) =>
      (await send('GET', `/alerts?deviceId=${deviceId}`)).body.data[0];
    expect([(await alert(one)).status, (await alert(two)).status]).to.deep.equal(['active', 'active']);
    await send('PATCH', `/alert-rules/${off}`, { enabled: false });
    await send('PATCH', `/alert-rules/${elsewhere}`, { target: { deviceIds: [three.deviceId] } });
    await ground.short();
    for (const device of [one, two]) {
      const gone = { status: 'resolved', resolution: 'No alert rule watches for this any more.' };
      expect(await alert(device)).to.deep.include(gone);
    }
  });
});
