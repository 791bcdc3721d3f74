import { expect } from 'chai';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
  type Person,
} from '../../../support/factories.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { localIn, NOW, windowGround } from './windows-support.ts';

describe('maintenance windows', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  const { send, plan, maintenanceOf } = windowGround(
    () => app,
    () => tenant.admin,
  );

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const device = async (orgId = tenant.orgId) => (await buildDevice(app, orgId)).deviceId;
  const paths = ({ body }: { body: { details: { path: string }[] } }) => body.details.map(({ path }) => path);

  it('are planned, read, changed, listed and deleted, and each change is in the audit trail', async () => {
    const body = {
      ...NOW(),
      name: 'Patch night',
      orgId: tenant.orgId,
      start: localIn(60),
      repeat: { frequency: 'weekly', days: ['sun', 'mon', 'sun'] },
    };
    const made = await plan(body);
    expect(made).to.deep.include({
      name: 'Patch night',
      orgId: tenant.orgId,
      partnerId: tenant.partnerId,
      target: { all: true },
      repeat: { frequency: 'weekly', days: ['mon', 'sun'] },
      suppress: { alerts: true, upgrades: true },
      status: 'scheduled',
      current: null,
      createdBy: tenant.admin.id,
    });
    expect(Date.parse(made.next.endsAt) - Date.parse(made.next.startsAt)).to.equal(3_600_000);
    const path = `/maintenance-windows/${made.id}`;
    expect((await send('GET', path)).body).to.deep.equal(made);
    const changed = await send('PATCH', path, { name: 'Patches', repeat: null });
    expect(changed.body).to.deep.include({ name: 'Patches', repeat: null, status: 'scheduled' });
    expect((await send('PATCH', path, {})).status).to.equal(400);
    const listed = await send('GET', `/maintenance-windows?orgId=${tenant.orgId}`);
    expect(listed.body.data.map(({ name }: { name: string }) => name)).to.deep.equal(['Patches']);
    expect((await send('POST', `${path}/end`)).body.error).to.match(/not in progress/);
    expect((await send('DELETE', path)).body).to.deep.equal({ success: true });
    expect((await send('GET', path)).status).to.equal(404);
    await app.server.chainWriter.flush();
    const entries = await asOwner<{ action: string }>(
      app.database.ownerUrl,
      'select action from audit_logs where resource_id = $1 order by "timestamp", seq',
      [made.id],
    );
    expect(entries.map(({ action }) => action)).to.deep.equal([
      'maintenance_window.create',
      'maintenance_window.update',
      'maintenance_window.delete',
    ]);
  });

  it('are shown by the devices that they have, and by no others', async () => {
    const [mine, other] = [await device(), await device()];
    const made = await plan({ orgId: tenant.orgId, target: { deviceIds: [mine] } });
    expect(made.status).to.equal('in_progress');
    expect(await maintenanceOf(mine)).to.deep.equal({
      windowId: made.id,
      name: made.name,
      until: made.current.endsAt,
    });
    expect(await maintenanceOf(other)).to.equal(null);
    // The status stays what it is: a window is no maintenance of the device alone.
    expect((await send('GET', `/devices/${mine}`)).body).to.include({
      status: 'offline',
      maintenanceUntil: null,
    });
    const found = (await send('GET', '/devices')).body.data;
    expect(found.filter((one: { maintenance: unknown }) => one.maintenance !== null)).to.have.length(1);
  });

  it('have the devices of groups, sites and filters, as they are at the time', async () => {
    const [one, two] = [await device(), await device()];
    const group = (await send('POST', '/groups', { orgId: tenant.orgId, name: 'Till', type: 'static' })).body;
    const byGroup = await plan({ orgId: tenant.orgId, target: { groupIds: [group.id] } });
    expect(await maintenanceOf(one)).to.equal(null);
    await send('POST', `/groups/${group.id}/devices`, { deviceIds: [one] });
    // As a minute later.
    await asOwner(app.database.ownerUrl, 'update maintenance_windows set due_at = now() where id = $1', [
      byGroup.id,
    ]);
    await app.settle();
    expect((await maintenanceOf(one))?.windowId).to.equal(byGroup.id);
    expect(await maintenanceOf(two)).to.equal(null);
    await send('DELETE', `/maintenance-windows/${byGroup.id}`);
    expect(await maintenanceOf(one)).to.equal(null);

    const { siteId, hostname } = (await send('GET', `/devices/${two}`)).body;
    const bySite = await plan({ orgId: tenant.orgId, target: { siteIds: [siteId] } });
    expect((await maintenanceOf(two))?.windowId).to.equal(bySite.id);
    await send('DELETE', `/maintenance-windows/${bySite.id}`);

    const filter = await send('POST', '/filters', {
      orgId: tenant.orgId,
      name: 'Two',
      conditions: {
        operator: 'AND',
        conditions: [{ field: 'hostname', operator: 'equals', value: hostname }],
      },
    });
    expect(filter.status, JSON.stringify(filter.body)).to.equal(201);
    const byFilter = await plan({ orgId: tenant.orgId, target: { filterId: filter.body.id } });
    expect((await maintenanceOf(two))?.windowId).to.equal(byFilter.id);
    expect(await maintenanceOf(one)).to.equal(null);
    const refused = await send('DELETE', `/filters/${filter.body.id}`);
    expect(refused.status).to.equal(409);
    expect(refused.body.error).to.include(byFilter.name);
  });

  it('of a partner cover all its organizations, and are for those who reach all of them', async () => {
    const otherOrg = await buildOrganization(app, tenant.partnerId);
    const [one, two] = [await device(), await device(otherOrg)];
    const limited = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
    const local = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    const made = await plan();
    expect(made.orgId).to.equal(null);
    for (const id of [one, two]) expect((await maintenanceOf(id))?.windowId).to.equal(made.id);
    // They see what it does to their devices, and not the window.
    expect((await maintenanceOf(one, local))?.name).to.equal(made.name);
    for (const person of [limited, local]) {
      expect((await send('GET', `/maintenance-windows/${made.id}`, undefined, person)).status).to.equal(404);
      expect((await send('POST', `/maintenance-windows/${made.id}/end`, undefined, person)).status).to.equal(
        404,
      );
      expect((await send('DELETE', `/maintenance-windows/${made.id}`, undefined, person)).status).to.equal(
        404,
      );
      expect((await send('GET', '/maintenance-windows', undefined, person)).body.data).to.deep.equal([]);
    }
    expect((await send('POST', '/maintenance-windows', NOW(), limited)).status).to.equal(403);
    expect(
      (await send('POST', '/maintenance-windows', { ...NOW(), orgId: otherOrg }, limited)).status,
    ).to.equal(403);
    const own = await send('POST', '/maintenance-windows', { ...NOW(), orgId: tenant.orgId }, limited);
    expect(own.status).to.equal(201);
    // Without an organization, a person of one plans for that one.
    expect((await send('POST', '/maintenance-windows', NOW(), local)).body.orgId).to.equal(tenant.orgId);
    const seen = await send('GET', `/maintenance-windows?orgId=${otherOrg}`);
    expect(seen.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([made.id]);
  });

  it('are out of reach of other tenants, and of viewers who would change them', async () => {
    const foreign = await buildTenant(app);
    const viewer: Person = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    const made = await plan({ orgId: tenant.orgId });
    const path = `/maintenance-windows/${made.id}`;
    for (const [method, at, body] of [
      ['GET', path, undefined],
      ['PATCH', path, { name: 'Taken' }],
      ['DELETE', path, undefined],
      ['POST', `${path}/end`, undefined],
    ] as const) {
      expect((await send(method, at, body, foreign.admin)).status, `${method} ${at}`).to.equal(404);
      expect((await send(method, at, body, viewer)).status).to.equal(method === 'GET' ? 200 : 403);
    }
    const from = localIn(-600).slice(0, 10);
    const calendar = `/maintenance-windows/occurrences?from=${from}&to=${localIn(1500).slice(0, 10)}`;
    expect((await send('GET', calendar, undefined, foreign.admin)).body.data).to.deep.equal([]);
    expect((await send('GET', calendar, undefined, viewer)).body.data).to.have.length(1);
    const theirs = { ...NOW(), orgId: tenant.orgId };
    expect((await send('POST', '/maintenance-windows', theirs, foreign.admin)).status).to.equal(403);
  });

  it('name only what is of their owner', async () => {
    const foreign = await buildTenant(app);
    const theirDevice = await device(foreign.orgId);
    const theirSite = await buildSite(app, foreign.orgId);
    const theirGroup = (
      await send('POST', '/groups', { orgId: foreign.orgId, name: 'A', type: 'static' }, foreign.admin)
    ).body.id;
    const theirFilter = (
      await send(
        'POST',
        '/filters',
        {
          orgId: foreign.orgId,
          name: 'A',
          conditions: {
            operator: 'AND',
            conditions: [{ field: 'hostname', operator: 'isNotNull' }],
          },
        },
        foreign.admin,
      )
    ).body.id;
    const otherOrg = await buildOrganization(app, tenant.partnerId);
    const elsewhere = await device(otherOrg);
    const mine = await device();
    const tries: [object, string | undefined, string][] = [
      [{ deviceIds: [mine, theirDevice] }, tenant.orgId, 'body.target.deviceIds.1'],
      [{ deviceIds: [mine, elsewhere] }, tenant.orgId, 'body.target.deviceIds.1'],
      [{ deviceIds: [elsewhere, theirDevice] }, undefined, 'body.target.deviceIds.1'],
      [{ siteIds: [theirSite] }, undefined, 'body.target.siteIds.0'],
      [{ groupIds: [theirGroup] }, undefined, 'body.target.groupIds.0'],
      [{ filterId: theirFilter }, undefined, 'body.target.filterId'],
      [{ filterId: theirFilter }, tenant.orgId, 'body.target.filterId'],
      [{ all: true, siteIds: [theirSite] }, tenant.orgId, 'body.target'],
      [{}, tenant.orgId, 'body.target'],
      [{ deviceIds: [] }, tenant.orgId, 'body.target.deviceIds'],
    ];
    for (const [target, orgId, path] of tries) {
      const answer = await send('POST', '/maintenance-windows', { ...NOW(), target, orgId });
      expect(answer.status, JSON.stringify(target)).to.equal(400);
      expect(paths(answer), JSON.stringify(target)).to.deep.equal([path]);
    }
    expect((await plan({ target: { deviceIds: [mine, elsewhere] } })).orgId).to.equal(null);
  });

  it('refuse times that cannot be, and say at which field', async () => {
    const tries: [object, string][] = [
      [{ timezone: '+01:00' }, 'body.timezone'],
      [{ timezone: 'Europe/Nowhere' }, 'body.timezone'],
      [{ start: '2026-02-30T10:00' }, 'body.start'],
      [{ start: '2026-12-24T24:00' }, 'body.start'],
      [{ start: '2026-12-24T22:00:00Z' }, 'body.start'],
      [{ start: '0001-01-01T00:00' }, 'body.start'],
      [{ start: '1999-01-01T00:00' }, 'body.start'],
      [{ start: '9999-12-31T00:00' }, 'body.start'],
      [{ durationMinutes: 0 }, 'body.durationMinutes'],
      [{ durationMinutes: 10_081 }, 'body.durationMinutes'],
      [{ durationMinutes: 1.5 }, 'body.durationMinutes'],
      [{ durationMinutes: 1441, repeat: { frequency: 'daily' } }, 'body.durationMinutes'],
      [{ repeat: { frequency: 'hourly' } }, 'body.repeat.frequency'],
      [{ repeat: { frequency: 'weekly' } }, 'body.repeat.days'],
      [{ repeat: { frequency: 'weekly', days: [] } }, 'body.repeat.days'],
      [{ repeat: { frequency: 'monthly', dayOfMonth: 31 } }, 'body.repeat.dayOfMonth'],
      [{ repeat: { frequency: 'daily', until: '2020-01-01' } }, 'body.repeat.until'],
      [{ name: ' ' }, 'body.name'],
      [{ name: 'a'.repeat(101) }, 'body.name'],
      [{ name: 'nul\0' }, 'body.name'],
      [{ suppress: { alerts: true } }, 'body.suppress.upgrades'],
    ];
    for (const [change, path] of tries) {
      const answer = await send('POST', '/maintenance-windows', { ...NOW(), ...change });
      expect(answer.status, JSON.stringify(change)).to.equal(400);
      expect(paths(answer)[0], JSON.stringify(change)).to.equal(path);
    }
    const made = await plan({ repeat: { frequency: 'daily' } });
    const patch = (body: object) => send('PATCH', `/maintenance-windows/${made.id}`, body);
    expect(paths(await patch({ durationMinutes: 5000 }))).to.deep.equal(['body.durationMinutes']);
    expect(paths(await patch({ repeat: null, start: '2020-01-01T00:00' }))).to.deep.equal(['body.start']);
  });

  it('have names of their own, up to a limit', async () => {
    const made = await plan({ name: 'Patch "night"; drop table devices; --', orgId: tenant.orgId });
    const again = await send('POST', '/maintenance-windows', {
      ...NOW(),
      orgId: tenant.orgId,
      name: 'PATCH "night"; drop table devices; --',
    });
    expect([again.status, again.body.details[0].path]).to.deep.equal([409, 'body.name']);
    // The same name is free for another owner.
    await plan({ name: made.name });
    await asOwner(
      app.database.ownerUrl,
      `insert into maintenance_windows (id, partner_id, org_id, name, target, timezone, start, duration_minutes,
        suppress_alerts, suppress_upgrades, due_at)
      select gen_random_uuid(), $1, $2, 'n' || n, '{"all": true}', 'UTC', '2026-01-01T00:00', 60, true, true, null
      from generate_series(2, 100) n`,
      [tenant.partnerId, tenant.orgId],
    );
    const over = await send('POST', '/maintenance-windows', { ...NOW(), orgId: tenant.orgId });
    expect([over.status, over.body.code]).to.deep.equal([403, 'LIMIT_REACHED']);
  });

  it('preview their next five occurrences, and are in a calendar of a month', async () => {
    const preview = await send('POST', '/maintenance-windows/preview', {
      timezone: 'Europe/Berlin',
      start: '2030-01-01T22:00',
      durationMinutes: 90,
      repeat: { frequency: 'monthly', nthWeekday: { nth: 2, day: 'tue' } },
    });
    expect(preview.body.data.map(({ startsAt }: { startsAt: string }) => startsAt)).to.deep.equal([
      '2030-01-08T21:00:00.000Z',
      '2030-02-12T21:00:00.000Z',
      '2030-03-12T21:00:00.000Z',
      '2030-04-09T20:00:00.000Z',
      '2030-05-14T20:00:00.000Z',
    ]);
    const made = await plan({ start: '2030-01-30T22:00', timezone: 'UTC', repeat: { frequency: 'daily' } });
    const { body } = await send('GET', '/maintenance-windows/occurrences?from=2030-02-01&to=2030-02-28');
    expect(body.complete).to.equal(true);
    expect(body.data).to.have.length(28);
    expect(body.data[0]).to.deep.include({
      windowId: made.id,
      orgId: null,
      startsAt: '2030-02-01T22:00:00.000Z',
      suppress: { alerts: true, upgrades: true },
    });
    const long = await send('GET', '/maintenance-windows/occurrences?from=2030-01-01&to=2030-06-01');
    expect(long.status).to.equal(400);
    const turned = await send('GET', '/maintenance-windows/occurrences?from=2030-02-01&to=2030-01-01');
    expect(turned.status).to.equal(400);
  });

  it('that are ended early are over for their devices, and happen again as planned', async () => {
    const id = await device();
    const made = await plan({ repeat: { frequency: 'daily' } });
    expect(await maintenanceOf(id)).to.not.equal(null);
    const ended = await send('POST', `/maintenance-windows/${made.id}/end`);
    expect(ended.body).to.deep.include({ status: 'scheduled', current: null });
    expect(ended.body.next.startsAt).to.equal(made.next.startsAt);
    await app.settle();
    expect(await maintenanceOf(id)).to.equal(null);
    expect((await send('POST', `/maintenance-windows/${made.id}/end`)).status).to.equal(409);
    // Other times are a new plan.
    await send('PATCH', `/maintenance-windows/${made.id}`, { start: localIn(-20) });
    await app.settle();
    expect((await maintenanceOf(id))?.windowId).to.equal(made.id);

    const once = await plan();
    const over = await send('POST', `/maintenance-windows/${once.id}/end`);
    expect(over.body).to.deep.include({ status: 'over', current: null, next: null });
    expect((await send('POST', `/maintenance-windows/${once.id}/end`)).body.error).to.equal(
      'This maintenance window is over.',
    );
  });

  it('that are ended early stay ended when they are renamed in a form that sends their times as well', async () => {
    const id = await device();
    const made = await plan({
      repeat: {
        frequency: 'weekly',
        days: ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'],
      },
    });
    await send('POST', `/maintenance-windows/${made.id}/end`);
    const { timezone, start, durationMinutes, repeat } = made;
    const form = { name: 'Renamed', timezone, start, durationMinutes, repeat };
    const saved = await send('PATCH', `/maintenance-windows/${made.id}`, form);
    expect(saved.body).to.deep.include({ name: 'Renamed', status: 'scheduled', current: null });
    await app.settle();
    expect(await maintenanceOf(id)).to.equal(null);

    const once = await plan();
    await send('POST', `/maintenance-windows/${once.id}/end`);
    const over = await send('PATCH', `/maintenance-windows/${once.id}`, {
      name: 'Over',
      start: once.start,
      repeat: null,
    });
    expect(over.body).to.deep.include({ name: 'Over', status: 'over' });
  });

  it('that change their name or their times change what their devices show', async () => {
    const id = await device();
    const made = await plan({ orgId: tenant.orgId });
    const path = `/maintenance-windows/${made.id}`;
    await send('PATCH', path, { name: 'Renamed', durationMinutes: 120 });
    await app.settle();
    const shown = await maintenanceOf(id);
    expect(shown.name).to.equal('Renamed');
    expect(Date.parse(shown.until) - Date.parse(made.current.endsAt)).to.equal(3_600_000);
    await send('PATCH', path, { start: localIn(60) });
    await app.settle();
    expect(await maintenanceOf(id)).to.equal(null);
    await send('PATCH', path, { start: localIn(-5), target: { deviceIds: [await device()] } });
    await app.settle();
    expect(await maintenanceOf(id)).to.equal(null);
  });

  it('are seen in live lists of devices when they begin and end', async () => {
    const id = await device();
    const dashboard = await connectDashboard(app, tenant.admin.token);
    const { devices } = await dashboard.subscribe({});
    expect(devices.find((one) => one.id === id)?.maintenance).to.equal(null);
    const made = await plan();
    const shown = () =>
      dashboard.deltas.flatMap(({ changed }) =>
        changed.flatMap((one) =>
          one.id === id && one.maintenance !== undefined ? [one.maintenance?.windowId ?? null] : [],
        ),
      );
    await eventually(shown, (list) => list.at(-1) === made.id);
    await send('POST', `/maintenance-windows/${made.id}/end`);
    await app.settle();
    await eventually(shown, (list) => list.at(-1) === null);
    dashboard.close();
  });

  it('lose a device that moves to another organization at once', async () => {
    const id = await device();
    await plan({ orgId: tenant.orgId });
    const orgId = await buildOrganization(app, tenant.partnerId);
    const siteId = await buildSite(app, orgId);
    const moved = await send('POST', `/devices/${id}/move`, { orgId, siteId });
    expect(moved.status, JSON.stringify(moved.body)).to.equal(200);
    expect(moved.body.device.maintenance).to.equal(null);
  });

  it('that fail stop no others', async () => {
    const other = await buildTenant(app);
    const [mine, theirs] = [await device(), await device(other.orgId)];
    await asOwner(
      app.database.ownerUrl,
      `insert into maintenance_windows (id, partner_id, org_id, name, target, timezone, start, duration_minutes,
        suppress_alerts, suppress_upgrades, due_at)
      values (gen_random_uuid(), $1, $2, 'broken', '{"all": true}', 'Mars/Olympus', '2026-01-01T00:00', 60, true, true,
        now() - interval '1 hour')`,
      [tenant.partnerId, tenant.orgId],
    );
    await plan({ orgId: other.orgId }, other.admin);
    expect(await maintenanceOf(theirs, other.admin)).to.not.equal(null);
    expect(await maintenanceOf(mine)).to.equal(null);
  });
});
