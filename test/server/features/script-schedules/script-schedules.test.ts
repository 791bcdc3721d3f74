import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildOrganization, buildPerson, buildSite, buildTenant } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { runGround, type Tenant } from '../script-runs/run-ground.ts';

const NIGHTLY = { name: 'Nightly', cron: '30 2 * * *', timezone: 'Europe/Berlin', target: { all: true } };

describe('script schedules', () => {
  let app: TestApp;
  let tenant: Tenant;
  let stranger: Tenant;
  const { call, owner, able, script, report } = runGround(
    () => app,
    () => tenant,
  );
  before(async () => {
    // Its own server: what is due runs for all tenants.
    app = await createTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    stranger = await buildTenant(app);
  });

  const create = async (more: object = {}, token?: string) => {
    const scriptId = (await script()).id;
    return call('POST', '/script-schedules', { ...NIGHTLY, scriptId, ...more }, token);
  };
  const read = async (id: string, token?: string) =>
    (await call('GET', `/script-schedules/${id}`, undefined, token)).body;
  const runsOf = async (id: string) => (await call('GET', `/script-runs?scheduleId=${id}`)).body.data;
  /** Lets the job run whose schedule is due once a minute. */
  const tick = async () => {
    await owner(`update job_schedules set next_at = now() where name = 'script-schedules.run-due'`);
    await app.settle();
  };
  const makeDue = (id: string, ago = '1 minute') =>
    owner(`update script_schedules set next_at = now() - $2::interval where id = $1`, [id, ago]);

  it('are made, read, changed and deleted, each noted, with their next three times', async () => {
    const { status, body } = await create({ orgId: tenant.orgId, parameters: { A: '1' } });
    expect(status, JSON.stringify(body)).to.equal(201);
    expect(body).to.deep.include({
      ...NIGHTLY,
      orgId: tenant.orgId,
      enabled: true,
      parameters: { A: '1' },
      catchUpMinutes: 1440,
      runsAs: tenant.admin.id,
      paused: null,
      lastSlotAt: null,
      scriptName: 'Clean up',
    });
    expect(body.nextRuns).to.have.length(3);
    const path = `/script-schedules/${body.id}`;
    expect((await call('GET', path)).body).to.deep.equal(body);
    const off = await call('PATCH', path, { enabled: false });
    expect(off.body).to.deep.include({ enabled: false, nextRuns: [] });
    expect((await call('PATCH', path, { enabled: true, cron: '0  4 * * *' })).body.cron).to.equal(
      '0 4 * * *',
    );
    expect((await call('PATCH', path, {})).status).to.equal(400);
    expect((await create({ orgId: tenant.orgId })).status).to.equal(409);
    const list = await call('GET', `/script-schedules?orgId=${tenant.orgId}`);
    expect(list.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([body.id]);
    const preview = await call('POST', '/script-schedules/preview', { cron: '0 0 1 1 *', timezone: 'UTC' });
    expect(preview.body.data.map((at: string) => at.slice(4))).to.deep.equal(
      Array(3).fill('-01-01T00:00:00.000Z'),
    );
    expect((await call('DELETE', path)).body).to.deep.equal({ success: true });
    expect((await call('GET', path)).status).to.equal(404);
    await app.server.chainWriter.flush();
    const trail = await owner(
      `select action from audit_logs where resource_id = $1 order by "timestamp", action`,
      [body.id],
    );
    expect(trail.map(({ action }) => action)).to.have.members([
      'script.schedule.create',
      'script.schedule.update',
      'script.schedule.update',
      'script.schedule.delete',
    ]);
  });

  it('take no nonsense', async () => {
    for (const [field, value] of [
      ['cron', '* * * * * *'],
      ['cron', '* * * * *'],
      ['cron', '0 0 31 2 *'],
      ['cron', 'x'.repeat(101)],
      ['timezone', 'Europe/Nowhere'],
      ['timezone', '+01:00'],
      ['catchUpMinutes', 1],
      ['scriptId', newId()],
      ['target', {}],
      ['target', { groupIds: [newId()] }],
      ['parameters', { 'A B': 'x' }],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop
      const { status, body } = await create({ [field]: value });
      expect([status, String(body.details[0].path).split('.')[1]], field).to.deep.equal([400, field]);
    }
  });

  it('belong to their tenant: others find nothing, viewers change nothing', async () => {
    const { body } = await create();
    const path = `/script-schedules/${body.id}`;
    const viewer = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    const some = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
    for (const token of [stranger.admin.token, some.token, tenant.technician.token]) {
      for (const [method, patch] of [['GET'], ['PATCH', { enabled: false }], ['DELETE']] as const) {
        // oxlint-disable-next-line no-await-in-loop
        expect((await call(method, path, patch, token)).status).to.equal(404);
      }
    }
    expect((await read(body.id, viewer.token)).parameters).to.equal(null);
    expect((await call('PATCH', path, { enabled: false }, viewer.token)).status).to.equal(403);
    expect((await call('DELETE', path, undefined, viewer.token)).status).to.equal(403);
    expect((await create({}, viewer.token)).status).to.equal(403);
    expect((await create({}, some.token)).status).to.equal(403);
    expect((await create({ orgId: stranger.orgId })).status).to.equal(403);
    const theirs = await script({ orgId: stranger.orgId }, stranger.admin.token);
    expect((await create({ scriptId: theirs.id })).body.details[0].path).to.equal('body.scriptId');
    const device = await able(stranger.orgId);
    expect((await create({ target: { deviceIds: [device.deviceId] } })).status).to.equal(400);
    // The script of one organization does not run on the devices of all.
    const own = await script({ orgId: tenant.orgId });
    expect((await create({ scriptId: own.id })).status).to.equal(400);
  });

  it('run when they are due, once, however many servers look', async () => {
    const device = await able();
    await able(stranger.orgId);
    const { body } = await create({ parameters: { A: '1' } });
    await tick();
    expect(await runsOf(body.id)).to.deep.equal([]);
    await makeDue(body.id);
    const second = await createTestApp({ database: app.database });
    try {
      await owner(`update job_schedules set next_at = now() where name = 'script-schedules.run-due'`);
      await Promise.all([app.settle(), second.settle()]);
    } finally {
      await second.close();
    }
    await tick();
    const [run, ...more] = await runsOf(body.id);
    expect(more).to.deep.equal([]);
    expect(run).to.deep.include({
      createdBy: tenant.admin.id,
      parameters: { A: '1' },
      total: 1,
      scheduleId: body.id,
    });
    const commands = await owner('select device_id from commands where execution_id = $1', [run.id]);
    expect(commands).to.deep.equal([{ device_id: device.deviceId }]);
    const after = await read(body.id);
    expect([after.lastSkip, after.nextRuns.length]).to.deep.equal([null, 3]);
    expect(Date.parse(after.nextRuns[0])).to.be.greaterThan(Date.now());
    await app.server.chainWriter.flush();
    const trail = await owner(
      `select org_id, details -> 'scheduleId' as schedule from audit_logs where action = 'script.execute' and details ->> 'executionId' = $1`,
      [run.id],
    );
    expect(trail).to.deep.equal([{ org_id: tenant.orgId, schedule: body.id }]);
  });

  it('catch up once: devices that were away run the newest, and servers that were away start one run', async () => {
    await able();
    const { body } = await create({ cron: '*/5 * * * *', catchUpMinutes: 60 });
    await makeDue(body.id, '3 days');
    await tick();
    const [first, ...others] = await runsOf(body.id);
    expect(others).to.deep.equal([]);
    const left = Date.parse(first.expiresAt) - Date.now();
    expect(left).to.be.within(54 * 60_000, 60 * 60_000);
    // The device is still away when the next time comes.
    await owner(`update script_runs set slot_at = slot_at - interval '1 hour' where id = $1`, [first.id]);
    await makeDue(body.id);
    await tick();
    const open = await owner(
      `select r.id = $2 as is_first, c.status, c.reason from commands c join script_runs r on r.id = c.execution_id where r.schedule_id = $1`,
      [body.id, first.id],
    );
    expect(open).to.have.deep.members([
      { is_first: true, status: 'cancelled', reason: 'superseded' },
      { is_first: false, status: 'queued', reason: null },
    ]);
  });

  it('are skipped, and say why, if nothing can be made up for or there are no devices', async () => {
    const { body } = await create({ cron: '0 3 1 1 *', catchUpMinutes: 5 });
    await makeDue(body.id, '1 day');
    await tick();
    expect(await read(body.id)).to.include({ lastSkip: 'missed' });
    await makeDue(body.id);
    await owner(`update script_schedules set catch_up_minutes = 43200, cron = '*/5 * * * *' where id = $1`, [
      body.id,
    ]);
    await tick();
    const skipped = await read(body.id);
    expect([skipped.lastSkip, skipped.nextRuns.length]).to.deep.equal(['no_devices', 3]);
    expect(await runsOf(body.id)).to.deep.equal([]);
  });

  it('stop with the person by whose rights they run, with a reason, until another person changes them', async () => {
    await able();
    const otherOrg = await buildOrganization(app, tenant.partnerId);
    await buildSite(app, otherOrg);
    const person = () => buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
    const losses: [string, (id: string) => Promise<unknown>][] = [
      ['person_gone', (id) => owner(`update users set status = 'disabled' where id = $1`, [id])],
      ['person_gone', (id) => owner('delete from users where id = $1', [id])],
      ['person_gone', (id) => owner('delete from partner_users where user_id = $1', [id])],
      [
        'permission_lost',
        (id) =>
          owner('update partner_users set role_id = $2 where user_id = $1', [id, SYSTEM_ROLES.partnerViewer]),
      ],
      [
        'access_lost',
        (id) =>
          owner(
            `update partner_users set org_access = 'selected', org_ids = array[$2::uuid] where user_id = $1`,
            [id, otherOrg],
          ),
      ],
    ];
    for (const [reason, lose] of losses) {
      // oxlint-disable-next-line no-await-in-loop
      const who = await person();
      // oxlint-disable-next-line no-await-in-loop
      const { body } = await create({ orgId: tenant.orgId, name: newId() }, who.token);
      // oxlint-disable-next-line no-await-in-loop
      await lose(who.id);
      // oxlint-disable-next-line no-await-in-loop
      await makeDue(body.id);
      // oxlint-disable-next-line no-await-in-loop
      await tick();
      // oxlint-disable-next-line no-await-in-loop
      const paused = await read(body.id);
      expect([paused.paused?.reason, paused.nextRuns], reason).to.deep.equal([reason, []]);
      // oxlint-disable-next-line no-await-in-loop
      expect(await runsOf(body.id)).to.deep.equal([]);
      // oxlint-disable-next-line no-await-in-loop
      await app.server.chainWriter.flush();
      // oxlint-disable-next-line no-await-in-loop
      const trail = await owner(
        `select details ->> 'reason' as reason from audit_logs where action = 'script.schedule.pause' and resource_id = $1`,
        [body.id],
      );
      expect(trail).to.deep.equal([{ reason }]);
      // oxlint-disable-next-line no-await-in-loop
      const resumed = await call('PATCH', `/script-schedules/${body.id}`, { enabled: true });
      expect(resumed.body).to.deep.include({ paused: null, runsAs: tenant.admin.id });
      expect(resumed.body.nextRuns).to.have.length(3);
    }
  });

  it('run the script as it is at the time, and stop when it is deleted', async () => {
    const device = await able();
    const { body } = await create();
    await call('PATCH', `/scripts/${body.scriptId}`, { content: 'echo newer' });
    await makeDue(body.id);
    await tick();
    const [run] = await runsOf(body.id);
    await report(run.id, [
      { deviceId: device.deviceId, output: { exitCode: 0, stdout: '', stderr: '', truncated: false } },
    ]);
    expect((await call('GET', `/script-runs/${run.id}`)).body).to.include({
      content: 'echo newer',
      state: 'completed',
    });
    await call('DELETE', `/scripts/${body.scriptId}`);
    expect((await read(body.id)).paused.reason).to.equal('script_gone');
    await makeDue(body.id);
    await tick();
    expect(await runsOf(body.id)).to.have.length(1);
    expect((await call('PATCH', `/script-schedules/${body.id}`, { enabled: true })).status).to.equal(400);
    const other = await script();
    expect(
      (await call('PATCH', `/script-schedules/${body.id}`, { scriptId: other.id })).body.paused,
    ).to.equal(null);
  });

  it('keep the filter that they use', async () => {
    const filter = await call('POST', '/filters', {
      orgId: tenant.orgId,
      name: 'Linux',
      conditions: { operator: 'AND', conditions: [{ field: 'osType', operator: 'equals', value: 'linux' }] },
    });
    await able();
    await able(tenant.orgId, { osType: 'windows' });
    const { body } = await create({ orgId: tenant.orgId, target: { filterId: filter.body.id } });
    expect((await call('DELETE', `/filters/${filter.body.id}`)).status).to.equal(409);
    await makeDue(body.id);
    await tick();
    expect((await runsOf(body.id))[0].total).to.equal(1);
  });
});
