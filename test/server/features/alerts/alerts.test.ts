import { expect } from 'chai';
import { followCauses, type NewAlert, resolveAlert } from '../../../../src/features/alerts/index.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import { withSystem, withTenant } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice, buildOrganization, buildPerson, buildTenant } from '../../../support/factories.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { raisedAlert } from '../../../support/raised-alert.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

type Wanted = Partial<Parameters<typeof raisedAlert>[1]>;

describe('alerts', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let stranger: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    stranger = await buildTenant(app);
  });
  after(async () => app.close());

  const get = (path: string, { token } = tenant.admin) => app.call('GET', path, { token });
  const post = (path: string, body: unknown = {}, { token } = tenant.admin) =>
    app.call('POST', path, { token, body });
  const inSystem = <T>(work: Parameters<typeof withSystem<T>>[2]) =>
    withSystem(app.server.database.pool, 'test', work);
  let kinds = 0;
  const raise = (wanted: Wanted = {}) =>
    inSystem((tx) =>
      raisedAlert(tx, {
        orgId: tenant.orgId,
        kind: `kind_${++kinds}`,
        severity: 'medium',
        title: 'Something is wrong',
        message: 'It has failed.',
        ...wanted,
      }),
    );
  const ids = ({ body }: { body: { data: { id: string }[] } }) => body.data.map(({ id }) => id);

  describe('raised by a feature', () => {
    it('stand once for a device and kind, count each time, and resolve with a reason', async () => {
      const { deviceId, orgId } = await buildDevice(app, tenant.orgId);
      const about = { orgId, deviceId, kind: 'kind_of_a_feature' };
      const id = await raise({ ...about, severity: 'high', details: { job: 1 } });
      expect(await raise({ ...about, severity: 'critical', title: 'Again', details: { job: 2 } })).to.equal(
        id,
      );
      const alert = (await get(`/alerts/${id}`)).body;
      expect(alert).to.deep.include({
        ...about,
        id,
        count: 2,
        severity: 'critical',
        title: 'Again',
        details: { job: 2 },
        status: 'active',
        resolution: null,
      });
      expect(await raise({ ...about, kind: 'upgrade_failed' })).not.to.equal(id);
      const why = 'The backup has succeeded.';
      expect(await inSystem((tx) => resolveAlert(tx, { ...about, why }))).to.equal(true);
      expect(await inSystem((tx) => resolveAlert(tx, { ...about, why }))).to.equal(false);
      expect((await get(`/alerts/${id}`)).body).to.deep.include({
        status: 'resolved',
        resolution: why,
        resolvedBy: null,
      });
      // Soon afterwards it is the same alert again.
      expect(await raise(about)).to.equal(id);
      expect((await get(`/alerts/${id}`)).body).to.deep.include({
        status: 'active',
        count: 3,
        resolvedAt: null,
      });
      // What somebody has resolved is over: the next one is another.
      await post(`/alerts/${id}/resolve`);
      const next = await raise(about);
      expect(next).not.to.equal(id);
      expect(ids(await get(`/alerts?deviceId=${deviceId}&kind=kind_of_a_feature`))).to.deep.equal([next, id]);
    });

    it('say how severe their cause is now, and concern people again if it has become worse', async () => {
      const { deviceId, orgId } = await buildDevice(app, tenant.orgId);
      const kind = 'space_runs_out';
      const follow = (severity: NewAlert['severity']) =>
        inSystem((tx) =>
          followCauses(tx, {
            kind,
            alerts: [{ orgId, deviceId, kind, severity, title: `It is ${severity}`, message: 'Make room.' }],
            why: 'There is room.',
          }),
        );
      const shown = async () => {
        const { data } = (await get(`/alerts?deviceId=${deviceId}&kind=${kind}`)).body;
        return data.map((alert: { title: string; status: string }) => `${alert.title}: ${alert.status}`);
      };
      expect(await follow('high')).to.deep.equal({ raised: 1, ended: 0 });
      const [id = ''] = ids(await get(`/alerts?deviceId=${deviceId}`));
      await post(`/alerts/${id}/acknowledge`);
      await follow('medium');
      expect(await shown()).to.deep.equal(['It is medium: acknowledged']);
      await follow('critical');
      expect(await shown()).to.deep.equal(['It is critical: active']);
      await post(`/alerts/${id}/resolve`);
      await follow('critical');
      await follow('low');
      expect(await shown()).to.deep.equal(['It is low: resolved']);
      await follow('high');
      expect(await shown()).to.deep.equal(['It is high: active']);
    });

    it('at the same moment are one', async () => {
      const { deviceId } = await buildDevice(app, tenant.orgId);
      const raised = await Promise.all(
        Array.from({ length: 8 }, async () => raise({ deviceId, kind: 'sla_breach' })),
      );
      expect(new Set(raised).size).to.equal(1);
      expect((await get(`/alerts/${raised[0]}`)).body.count).to.equal(8);
    });

    it('in a request are the caller’s organization’s, and of no other', async () => {
      const own: TenantScope = {
        scope: 'organization',
        userId: tenant.technician.id,
        partnerId: null,
        orgAccess: 'listed',
        orgIds: [tenant.orgId],
      };
      const raiseFor = async (orgId: string) =>
        withTenant(app.server.database.pool, own, (tx) =>
          raisedAlert(tx, { orgId, kind: 'in_request', severity: 'low', title: 'Title', message: 'Message' }),
        );
      const id = await raiseFor(tenant.orgId);
      expect((await get(`/alerts/${id}`)).body.kind).to.equal('in_request');
      const refused = await raiseFor(stranger.orgId).then(
        () => 'raised',
        (error: { code?: string }) => error.code,
      );
      expect(refused).to.equal('42501');
    });

    it('may be about an organization, and long texts are cut', async () => {
      const id = await raise({ kind: 'of_organization', title: 'x'.repeat(400), message: 'y'.repeat(3000) });
      const alert = (await get(`/alerts/${id}`)).body;
      expect([alert.deviceId, alert.title.length, alert.message.length]).to.deep.equal([null, 300, 2000]);
      expect(await raise({ kind: 'of_organization' })).to.equal(id);
      const other = await buildOrganization(app, tenant.partnerId);
      expect(await raise({ orgId: other, kind: 'of_organization' })).not.to.equal(id);
    });

    it('have ids in the order of time, as all ids', async () => {
      const [before, id, after] = [newId(), await raise(), newId()];
      expect(id[14]).to.equal('7');
      expect(before.slice(0, 13) <= id.slice(0, 13) && id.slice(0, 13) <= after.slice(0, 13)).to.equal(true);
      const made = await asOwner<{ id: string; at: Date }>(
        app.database.ownerUrl,
        'select new_row_id() as id, clock_timestamp() as at from generate_series(1, 100)',
      );
      const msOf = (rowId: string) => Number.parseInt(rowId.replace('-', '').slice(0, 12), 16);
      for (const row of made) expect(msOf(row.id)).to.be.at.most(row.at.getTime());
    });
  });

  describe('are acknowledged and resolved', () => {
    it('by a person, with a note, once, and in the audit trail', async () => {
      const id = await raise();
      const known = await post(`/alerts/${id}/acknowledge`, { note: 'I am on it.' }, tenant.technician);
      expect(known.status).to.equal(200);
      expect(known.body).to.deep.include({
        status: 'acknowledged',
        acknowledgedBy: tenant.technician.id,
        note: 'I am on it.',
        resolvedAt: null,
      });
      expect(Date.parse(known.body.acknowledgedAt)).to.be.closeTo(Date.now(), 5000);
      const twice = await post(`/alerts/${id}/acknowledge`);
      expect([twice.status, twice.body.code, twice.body.error]).to.deep.equal([
        409,
        'CONFLICT',
        'This alert is acknowledged; only active alerts can be acknowledged.',
      ]);
      const done = await post(`/alerts/${id}/resolve`);
      expect(done.body).to.deep.include({
        status: 'resolved',
        resolvedBy: tenant.admin.id,
        acknowledgedBy: tenant.technician.id,
        note: 'I am on it.',
        resolution: null,
      });
      for (const action of ['acknowledge', 'resolve']) {
        expect((await post(`/alerts/${id}/${action}`)).status, action).to.equal(409);
      }
      await app.server.chainWriter.flush();
      const rows = await inSystem((tx) =>
        tx('audit_logs')
          .where({ resource_id: id })
          .orderBy('timestamp')
          .select('action', 'org_id', 'details'),
      );
      expect(rows.map(({ action, org_id: orgId }) => [action, orgId])).to.deep.equal([
        ['alert.acknowledge', tenant.orgId],
        ['alert.resolve', tenant.orgId],
      ]);
      expect(rows[0].details).to.include({ note: 'I am on it.' });
      const trail = await get('/audit-logs/logs?action=alert.resolve');
      expect(trail.body.data[0].category).to.equal('alert');
    });

    it('by one of two who do it at once', async () => {
      const id = await raise();
      const statuses = (await Promise.all([1, 2, 3].map(async () => post(`/alerts/${id}/resolve`)))).map(
        ({ status }) => status,
      );
      expect(statuses.toSorted((a, b) => a - b)).to.deep.equal([200, 409, 409]);
    });

    it('by people who may, of their own organizations', async () => {
      const id = await raise();
      const viewer = await buildPerson(app, {
        scope: 'organization',
        orgId: tenant.orgId,
        role: SYSTEM_ROLES.organizationViewer,
      });
      expect((await get(`/alerts/${id}`, viewer)).status).to.equal(200);
      for (const path of [`/alerts/${id}/acknowledge`, `/alerts/${id}/resolve`]) {
        expect((await post(path, {}, viewer)).status).to.equal(403);
        expect((await post(path, {}, stranger.admin)).status).to.equal(404);
      }
      expect((await post('/alerts/bulk', { alertIds: [id], action: 'resolve' }, viewer)).status).to.equal(
        403,
      );
      expect((await get(`/alerts/${id}`, stranger.admin)).status).to.equal(404);
      expect((await get(`/alerts/${id}`)).body.status).to.equal('active');
    });

    it('many at once, each with what became of it', async () => {
      const other = await buildOrganization(app, tenant.partnerId);
      const [a, b, c] = [await raise(), await raise({ orgId: other }), await raise()];
      await post(`/alerts/${c}/resolve`);
      const theirs = await raise({ orgId: stranger.orgId });
      const none = newId();
      const { status, body } = await post('/alerts/bulk', {
        alertIds: [a, b.toUpperCase(), c, theirs, none, a],
        action: 'acknowledge',
        note: 'All of them',
      });
      expect(status).to.equal(200);
      expect(body).to.deep.equal({
        changed: 2,
        outcomes: [
          { alertId: a, ok: true, status: 'acknowledged' },
          { alertId: b, ok: true, status: 'acknowledged' },
          {
            alertId: c,
            ok: false,
            status: 'resolved',
            error: {
              code: 'CONFLICT',
              message: 'This alert is resolved; only active alerts can be acknowledged.',
            },
          },
          ...[theirs, none].map((alertId) => ({
            alertId,
            ok: false,
            status: null,
            error: { code: 'NOT_FOUND', message: 'Alert not found' },
          })),
        ],
      });
      expect((await get(`/alerts/${theirs}`, stranger.admin)).body.status).to.equal('active');
      await app.server.chainWriter.flush();
      const rows = await inSystem((tx) =>
        tx('audit_logs').whereRaw(`details ->> 'note' = 'All of them'`).select('action', 'org_id', 'details'),
      );
      const entry = (org_id: string, id: string) => ({
        action: 'alert.acknowledge',
        org_id,
        details: {
          alertIds: [id],
          note: 'All of them',
          before: { alerts: { [id]: { status: 'active', note: null } } },
          after: { alerts: { [id]: { status: 'acknowledged', note: 'All of them' } } },
        },
      });
      expect(rows).to.have.deep.members([entry(tenant.orgId, a), entry(other, b)]);
      const nothing = await post('/alerts/bulk', { alertIds: [none], action: 'resolve' });
      expect([nothing.status, nothing.body.changed]).to.deep.equal([200, 0]);
      for (const wrong of [
        { alertIds: [], action: 'resolve' },
        { alertIds: Array.from({ length: 101 }, newId), action: 'resolve' },
        { alertIds: [a], action: 'delete' },
        { alertIds: ['x'], action: 'resolve' },
        { alertIds: [a], action: 'resolve', why: 'x' },
      ]) {
        expect((await post('/alerts/bulk', wrong)).status, JSON.stringify(wrong).slice(0, 80)).to.equal(400);
      }
    });
  });

  describe('are listed', () => {
    let orgId: string;
    let made: string[];
    before(async () => {
      orgId = await buildOrganization(app, tenant.partnerId);
      made = [];
      for (const [severity, title] of [
        ['critical', '50% of everything'],
        ['low', 'Printer_on fire'],
        ['info', 'A backslash \\ is here'],
      ] as const) {
        made.push(await raise({ orgId, severity, title, kind: `listed_${severity}` }));
      }
      await inSystem((tx) =>
        tx('alerts').where({ id: made[0] }).update({ raised_at: '2026-01-05T12:00:00Z' }),
      );
      await post(`/alerts/${made[1]}/acknowledge`);
    });

    const list = (query: string) => get(`/alerts?orgId=${orgId}&${query}`);

    it('newest first, by page, status, severity, kind, time and text', async () => {
      const [critical, low, info] = made as [string, string, string];
      const all = await list('');
      expect(ids(all)).to.deep.equal([info, low, critical]);
      expect(all.body.pagination).to.deep.equal({ page: 1, limit: 50, total: 3 });
      for (const [query, expected] of [
        ['limit=1&page=2', [low]],
        ['status=acknowledged', [low]],
        ['status=active,resolved', [info, critical]],
        ['severity=LOW,critical', [low, critical]],
        ['kind=listed_info', [info]],
        ['kind=listed', []],
        ['to=2026-01-05', [critical]],
        ['from=2026-01-05&to=2026-01-05T12:00:00Z', [critical]],
        ['from=2026-01-06', [info, low]],
        ['search=PRINTER', [low]],
        ['search=%25', [critical]],
        ['search=_', [low]],
        ['search=%5C', [info]],
        [`search=has%20failed`, [info, low, critical]],
        [`search='--`, []],
        [`deviceId=${orgId}`, []],
      ] as const) {
        expect(ids(await list(query)), query).to.deep.equal(expected);
      }
    });

    it('of the caller’s organizations, and no others', async () => {
      expect((await get(`/alerts?orgId=${orgId}`, stranger.admin)).body.error).to.equal(
        'Access to this organization denied',
      );
      expect(ids(await get('/alerts', tenant.technician))).not.to.include.members(made);
      expect(ids(await get('/alerts?limit=100'))).to.include.members(made);
    });

    it('and wrong questions are refused by field', async () => {
      for (const [query, path] of [
        ['status=open', 'query.status.0'],
        ['severity=high,worst', 'query.severity.1'],
        ['deviceId=x', 'query.deviceId'],
        ['from=yesterday', 'query.from'],
        ['from=2026-02-01&to=2026-01-01', 'query.from'],
      ] as const) {
        const { status, body } = await list(query);
        expect([status, body.details[0].path], query).to.deep.equal([400, path]);
      }
    });

    it('and counted', async () => {
      await post(`/alerts/${made[2]}/resolve`);
      expect((await get(`/alerts/summary?orgId=${orgId}`)).body).to.deep.equal({
        open: 2,
        byStatus: { active: 1, acknowledged: 1, resolved: 1 },
        bySeverity: { critical: 1, high: 0, medium: 0, low: 1, info: 0 },
      });
      expect((await get('/alerts/summary', (await buildTenant(app)).admin)).body.open).to.equal(0);
      expect((await get(`/alerts/summary?orgId=${orgId}`, stranger.admin)).status).to.equal(403);
    });
  });
});
