import { expect } from 'chai';
import { clock } from '../../../../src/clock.ts';
import { countTrends } from '../../../../src/features/fleet-trends/trend.job.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice, buildOrganization, buildPerson, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('the trends of a fleet', () => {
  const HOUR = 3_600_000;
  const DAY = 24 * HOUR;
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  /** The begin of the present day of UTC. */
  let today: number;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    today = Math.floor(clock.now() / DAY) * DAY;
  });

  const inSystem = <T>(work: Parameters<typeof withSystem<T>>[2]) =>
    withSystem(app.server.database.pool, 'test', work);
  const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);
  /** As the server counts at that time. Default: at noon, so that no test is on two days. */
  const count = (at = today + 12 * HOUR) => countTrends(app.server.database.pool, at);
  const read = (query: Record<string, string> = {}, { token }: { token: string } = tenant.admin) =>
    app.call('GET', `/fleet/trends?${new URLSearchParams(query).toString()}`, { token });

  async function buildConnected(orgId: string): Promise<string> {
    const { deviceId } = await buildDevice(app, orgId);
    const presence = {
      epoch: 1,
      node_id: 'node',
      state: 'connected',
      reason: 'connected',
      since: clock.date(),
    };
    await inSystem((tx) =>
      tx('device_presence')
        .insert({ device_id: deviceId, org_id: orgId, ...presence })
        .onConflict('device_id')
        .merge(),
    );
    return deviceId;
  }
  const setPresence = (deviceId: string, state: string) =>
    inSystem((tx) => tx('device_presence').where({ device_id: deviceId }).update({ state }));
  const raise = (orgId: string, raisedAt: number, row: Record<string, unknown> = {}) =>
    inSystem((tx) =>
      tx('alerts').insert({
        id: newId(),
        org_id: orgId,
        kind: `kind_${newId().slice(-6)}`,
        severity: 'high',
        title: 'T',
        message: 'M',
        raised_at: new Date(raisedAt),
        ...row,
      }),
    );
  const backUp = (orgId: string, deviceId: string, status: string, finishedAt: number) =>
    inSystem((tx) =>
      tx('work').insert({
        id: newId(),
        kind: 'backup',
        partner_id: tenant.partnerId,
        org_id: orgId,
        device_id: deviceId,
        input: '{}',
        status,
        stage: 'ended',
        step: 'run',
        created_at: new Date(finishedAt - HOUR),
        finished_at: new Date(finishedAt),
        deadline_at: new Date(finishedAt + HOUR),
      }),
    );

  it('show what stands, the most that were connected, and what has happened on each day', async () => {
    const { orgId } = tenant;
    const first = await buildConnected(orgId);
    await buildConnected(orgId);
    const pending = await buildDevice(app, orgId);
    await inSystem((tx) => tx('devices').where({ id: pending.deviceId }).update({ condition: 'pending' }));
    await raise(orgId, today - DAY);
    await raise(orgId, today);
    await raise(orgId, today, { status: 'resolved', resolved_at: new Date(today + 1) });
    for (const status of ['completed', 'partial', 'failed', 'cancelled']) {
      await backUp(orgId, first, status, today);
    }
    await backUp(orgId, first, 'failed', today - 1);
    await count();
    await setPresence(first, 'disconnected');
    await inSystem((tx) => tx('devices').where({ id: first }).update({ condition: 'decommissioned' }));
    await count();
    const { status, body } = await read();
    expect(status).to.equal(200);
    expect(body.data).to.deep.equal([
      {
        day: dayOf(today),
        devices: 1,
        devicesConnected: 2,
        alertsOpen: 2,
        alertsRaised: 2,
        backupsCompleted: 2,
        backupsFailed: 1,
      },
    ]);
    expect(Date.parse(body.countedAt)).to.be.greaterThan(today);
  });

  it('add to a day what came between its last count and its end, and leave what stood', async () => {
    const { orgId } = tenant;
    const yesterday = today - DAY;
    const device = await buildConnected(orgId);
    await raise(orgId, yesterday + HOUR);
    await count(yesterday + 23 * HOUR);
    await raise(orgId, yesterday + 23.5 * HOUR);
    await backUp(orgId, device, 'completed', today - 1);
    await buildConnected(orgId);
    await count(today + 4 * 60_000);
    const { body } = await read({ days: '2' });
    expect(body.data[0]).to.deep.include({
      day: dayOf(yesterday),
      devices: 1,
      devicesConnected: 1,
      alertsOpen: 1,
      alertsRaised: 2,
      backupsCompleted: 1,
    });
    expect(body.data[1]).to.deep.include({ day: dayOf(today), devices: 2, alertsRaised: 0 });
  });

  it('do not invent a day on which no server counted', async () => {
    await buildConnected(tenant.orgId);
    await count(today - 3 * DAY);
    await count(today);
    const { body } = await read();
    expect(body.data.map(({ day }: { day: string }) => day)).to.deep.equal([
      dayOf(today - 3 * DAY),
      dayOf(today),
    ]);
  });

  it('show that nothing is left of an organization that was counted before on the day', async () => {
    const device = await buildConnected(tenant.orgId);
    await count();
    await inSystem((tx) => tx('devices').where({ id: device }).update({ condition: 'decommissioned' }));
    await count();
    const { body } = await read();
    expect(body.data[0]).to.deep.include({ devices: 0, devicesConnected: 1 });
  });

  it('show that nothing is left of an organization since the day before', async () => {
    const device = await buildConnected(tenant.orgId);
    await raise(tenant.orgId, today - 2 * DAY);
    await count(today - HOUR);
    await inSystem((tx) => tx('devices').where({ id: device }).update({ condition: 'decommissioned' }));
    await inSystem((tx) =>
      tx('alerts')
        .where({ org_id: tenant.orgId })
        .update({ status: 'resolved', resolved_at: new Date(today) }),
    );
    await count();
    const { body } = await read({ orgId: tenant.orgId });
    expect(body.data.at(-1)).to.deep.include({
      day: dayOf(today),
      devices: 0,
      devicesConnected: 0,
      alertsOpen: 0,
    });
    await count(today + 36 * HOUR);
    const { body: later } = await read({ orgId: tenant.orgId });
    expect(later.data.at(-1)).to.deep.include({ day: dayOf(today + DAY), devices: 0 });
  });

  it('are the sums of the organizations that the caller may see, or of one', async () => {
    const other = await buildOrganization(app, tenant.partnerId);
    await buildConnected(tenant.orgId);
    await buildConnected(other);
    await count();
    const devices = async (...asked: Parameters<typeof read>) => (await read(...asked)).body.data[0]?.devices;
    expect(await devices()).to.equal(2);
    expect(await devices({ orgId: other })).to.equal(1);
    const selected = { scope: 'partner', partnerId: tenant.partnerId, orgAccess: 'selected' } as const;
    expect(await devices({}, await buildPerson(app, { ...selected, orgIds: [other] }))).to.equal(1);
    const stranger = await buildTenant(app);
    expect((await read({}, stranger.admin)).body).to.deep.equal({ data: [], countedAt: null });
    expect((await read({ orgId: other }, stranger.admin)).status).to.equal(403);
  });

  it('leave out figures that the caller may not read', async () => {
    await buildConnected(tenant.orgId);
    await count();
    const { body: role } = await app.call('POST', '/roles', {
      token: tenant.admin.token,
      body: { name: 'Devices only', scope: 'partner', permissions: ['devices:read'] },
    });
    const { partnerId } = tenant;
    const person = await buildPerson(app, { scope: 'partner', partnerId, role: role.id });
    expect((await read({}, person)).body.data[0]).to.deep.include({
      devices: 1,
      alertsOpen: null,
      alertsRaised: null,
      backupsCompleted: null,
      backupsFailed: null,
    });
  });

  it('say which numbers of days can be read', async () => {
    for (const days of ['1', '401', '-3', '1e3', 'x'.repeat(1000)]) {
      const { status, body } = await read({ days });
      expect(status, days).to.equal(400);
      expect(JSON.stringify(body)).to.include('days');
    }
  });
});
