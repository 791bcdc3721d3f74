import { expect } from 'chai';
import { createMetricStore } from '../../../../src/features/metrics/index.ts';
import { createMetrics } from '../../../../src/platform/metrics.ts';
import { MetricSamples } from '../../../../src/protocol/index.ts';
import { alertGround } from '../../../support/alert-rule-ground.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

const MINUTE = 60_000;

describe('a figure that is beyond the threshold again just after it was not', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let ground: ReturnType<typeof alertGround>;
  let now: number;

  before(async () => {
    app = await sharedTestApp();
    ground = alertGround(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    await ground.sql('update alert_rules set enabled = false where org_id = ?', [tenant.orgId]);
    await ground.rule(tenant.admin.token, {
      orgId: tenant.orgId,
      condition: {
        kind: 'metric',
        metric: 'cpuPercent',
        operator: 'greaterThan',
        threshold: 90,
        forMinutes: 2,
      },
    });
    await ground.short();
    now = Date.now();
  });

  /** A message with the figures of the minutes from `first` to the last. Each comes to a server that has just started. */
  const send = async (first: number, figures: readonly number[]) => {
    const watch = await ground.newWatch();
    const { record } = createMetricStore({
      db: app.server.database.hubPool,
      log: quietLog,
      metrics: createMetrics(),
      onStored: (stored) => watch.sampled(stored),
    });
    const samples = figures.map((cpuPercent, place) => ({
      at: new Date(now + (first + place - 60) * MINUTE).toISOString(),
      cpuPercent,
    }));
    await record([{ deviceId: device.deviceId, ...MetricSamples.parse({ samples }) }]);
  };
  const alerts = async () => {
    const { body } = await app.call('GET', `/alerts?deviceId=${device.deviceId}`, {
      token: tenant.admin.token,
    });
    return body.data.map(({ status, count, resolution }: Record<string, unknown>) => ({
      status,
      count,
      resolution,
    }));
  };
  const active = (count: number) => [{ status: 'active', count, resolution: null }];
  const resolved = (count: number) => [
    { status: 'resolved', count, resolution: 'The processor use is at 40 %.' },
  ];
  /** What was met and over before a round is kept for the next one, and is over then. */
  const endNow = () =>
    ground.sql('update alert_rule_matches set ends_at = now() where device_id = ? and ends_at is not null', [
      device.deviceId,
    ]);

  it('resolves the alert in the next round, and its minutes count from where it began again', async () => {
    await send(0, [95, 95, 95]);
    await ground.short();
    expect(await alerts()).to.deep.equal(active(1));
    await send(3, [95, 40, 95]);
    await ground.short();
    expect(await alerts()).to.deep.equal(resolved(1));
    await send(6, [95]);
    await ground.short();
    expect(await alerts()).to.deep.equal(resolved(1));
    await send(7, [95]);
    await ground.short();
    expect(await alerts()).to.deep.equal(active(2));
  });

  it('is raised although it was met, over, and began again in one message', async () => {
    await send(0, [95, 95, 95, 40, 95]);
    await ground.short();
    expect(await alerts()).to.deep.equal(active(1));
    await endNow();
    await ground.short();
    expect(await alerts()).to.deep.equal(resolved(1));
    await send(5, [95, 95]);
    await ground.short();
    expect(await alerts()).to.deep.equal(active(2));
  });

  it('is raised although all of it came in messages between two rounds', async () => {
    await send(0, [95, 95, 95]);
    await send(3, [40, 95]);
    await ground.short();
    expect(await alerts()).to.deep.equal(active(1));
    await endNow();
    await ground.short();
    expect(await alerts()).to.deep.equal(resolved(1));
  });

  it('is raised although a message after the one in which it was met and over began it again', async () => {
    await send(0, [95, 95, 95, 40]);
    await send(4, [95]);
    await ground.short();
    expect(await alerts()).to.deep.equal(active(1));
    await endNow();
    await ground.short();
    expect(await alerts()).to.deep.equal(resolved(1));
    await send(5, [95, 95]);
    await ground.short();
    expect(await alerts()).to.deep.equal(active(2));
  });

  it('leaves nothing behind when it is within the threshold after all', async () => {
    await send(0, [95, 95, 95, 40, 95]);
    await send(5, [30]);
    await ground.short();
    expect(await alerts()).to.deep.equal(active(1));
    await endNow();
    await ground.short();
    expect(await alerts()).to.deep.equal(resolved(1));
    expect(
      await ground.sql('select * from alert_rule_matches where device_id = ?', [device.deviceId]),
    ).to.deep.equal([]);
  });
});
