import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { FRAME_MS } from '../../../../src/hub/subscriptions/subscription.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildOrganization, buildTenant } from '../../../support/factories.ts';
import { testClock } from '../../../support/test-clock.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import type { DevicesDelta } from '../../../../src/protocol/index.ts';

const MINUTE_MS = 60_000;
const SWEEP_MS = 200;
const DEVICES_MAX = 3;
const all = (field: string, operator: string, value: unknown) => ({
  operator: 'AND',
  conditions: [{ field, operator, value }],
});

describe('live filters at their limits', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let watchers: DashboardClient[];

  before(async () => {
    app = await createTestApp({ liveFilters: { devicesMax: DEVICES_MAX, sweepMs: SWEEP_MS } });
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    watchers = [];
  });
  afterEach(() => {
    testClock.reset();
    for (const one of watchers) one.close();
  });

  const dashboard = async () => {
    const watcher = await connectDashboard(app, tenant.admin.token);
    watchers.push(watcher);
    return watcher;
  };
  const named = all('hostname', 'notEquals', 'nobody');

  it('are refused above the limit of devices in memory, and accepted when there is room again', async () => {
    const orgs = [tenant.orgId, await buildOrganization(app, tenant.partnerId)];
    for (const orgId of [...orgs, ...orgs]) await buildDevice(app, orgId);
    const [one, other] = [await dashboard(), await dashboard()];
    const refused = await one.send('devices:subscribe', { conditions: named });
    expect(refused).to.deep.equal({
      ok: false,
      error: {
        code: 'UNAVAILABLE',
        message:
          'Live filters on this server may cover 3 devices. Limit the filter to one organization, or try again later.',
      },
    });
    // What was refused is not kept.
    const first = await one.subscribe({ orgId: orgs[0], conditions: named });
    expect(first.devices).to.have.lengthOf(2);
    expect(
      (await other.send('devices:subscribe', { orgId: orgs[1], conditions: named })).error.code,
    ).to.equal('UNAVAILABLE');
    // The same devices are kept once, however many look at them; without conditions there is no limit.
    expect((await other.subscribe({ orgId: orgs[0], conditions: named })).devices).to.have.lengthOf(2);
    expect((await other.subscribe({})).devices).to.have.lengthOf(4);
    one.close();
    other.close();
    const late = await dashboard();
    await eventually(
      () => late.send('devices:subscribe', { orgId: orgs[1], conditions: named }),
      (answer) => answer.ok === true,
    );
  });

  it('end when a newly visible organization exceeds the limit', async () => {
    for (let n = 0; n < DEVICES_MAX; n++) await buildDevice(app, tenant.orgId);
    const watcher = await dashboard();
    const ended: { code: string }[] = [];
    watcher.socket.on('devices:ended', (end) => ended.push(end));
    expect((await watcher.subscribe({ conditions: named })).devices).to.have.lengthOf(DEVICES_MAX);
    // One more of an organization that is held already is no reason to end.
    const { deviceId } = await buildDevice(app, tenant.orgId);
    await eventually(
      () => watcher.deltas.flatMap(({ entered }) => entered.map(({ id }) => id)),
      (ids) => ids.includes(deviceId),
    );
    expect(ended).to.deep.equal([]);
    await buildDevice(app, await buildOrganization(app, tenant.partnerId));
    await eventually(
      () => ended,
      (ends) => ends.length === 1,
    );
    expect(ended[0]?.code).to.equal('UNAVAILABLE');
  });

  it('see devices enter and leave by time alone, without a change of the device', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const timeOf = (minutesAgo: number) =>
      withSystem(app.server.database.pool, 'test', (tx) =>
        tx.raw(`update devices set enrolled_at = now() - interval '1 minute' * ?::float8 where id = ?`, [
          minutesAgo,
          deviceId,
        ]),
      );
    await timeOf(59);
    const watcher = await dashboard();
    const recent = await watcher.subscribe({
      conditions: all('enrolledAt', 'withinLast', { amount: 60, unit: 'minutes' }),
    });
    const old = await watcher.subscribe({
      conditions: all('daysSinceEnrolled', 'greaterThanOrEquals', 1 / 24),
    });
    expect([recent.devices.length, old.devices.length]).to.deep.equal([1, 0]);
    // Now it is an hour ago.
    testClock.jump(MINUTE_MS);
    await testClock.advance(SWEEP_MS);
    await testClock.advance(FRAME_MS);
    const told = (subscriptionId: string, of: (delta: DevicesDelta) => string[]) =>
      watcher.deltas.filter((delta) => delta.subscriptionId === subscriptionId).flatMap(of);
    await eventually(
      () => [
        told(recent.subscriptionId, ({ left }) => left),
        told(old.subscriptionId, ({ entered }) => entered.map(({ id }) => id)),
      ],
      ([left, entered]) => left?.join() === deviceId && entered?.join() === deviceId,
    );
    // Nothing else was said, and the sweeps that follow say it no second time.
    await testClock.advance(3 * SWEEP_MS + FRAME_MS);
    await watcher.send('devices:unsubscribe', { subscriptionId: newId() });
    expect(watcher.deltas).to.have.lengthOf(2);
  });
});
