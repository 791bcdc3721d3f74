import { expect } from 'chai';
import { raiseAlert, resolveAlert } from '../../../../src/features/alerts/index.ts';
import { createMetricStore } from '../../../../src/features/metrics/index.ts';
import { createMetrics } from '../../../../src/platform/metrics.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { MetricSamples } from '../../../../src/protocol/index.ts';
import { alertGround } from '../../../support/alert-rule-ground.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { testClock } from '../../../support/test-clock.ts';

const MINUTE = 60_000;
const GIB = 2 ** 30;

interface Shown {
  id: string;
  kind: string;
  status: string;
  severity: string;
  count: number;
  title: string;
  message: string;
  resolution: string | null;
  ruleId: string | null;
  details: Record<string, unknown>;
}

describe('the conditions of alert rules', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let ground: ReturnType<typeof alertGround>;

  before(async () => {
    app = await sharedTestApp();
    ground = alertGround(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    await ground.sql('update alert_rules set enabled = false where org_id = ?', [tenant.orgId]);
  });

  const alerts = async ({ deviceId } = device): Promise<Shown[]> =>
    (await app.call('GET', `/alerts?deviceId=${deviceId}`, { token: tenant.admin.token })).body.data;
  const only = async (one = device): Promise<Shown> => {
    const all = await alerts(one);
    expect(all).to.have.length(1);
    return all[0]!;
  };
  const statuses = async () => (await alerts()).map(({ status }) => status);
  const rule = (condition: object, more: object = {}) =>
    ground.rule(tenant.admin.token, { orgId: tenant.orgId, condition, ...more });

  describe('about metrics', () => {
    /** Another server takes each message, as if the one before it had died. */
    const newServer = async () => {
      const watch = await ground.newWatch();
      return createMetricStore({
        db: app.server.database.hubPool,
        log: quietLog,
        metrics: createMetrics(),
        onStored: (figures) => watch.sampled(figures),
      });
    };
    const sample = async (samples: object[], { deviceId } = device) => {
      const { record } = await newServer();
      await record([{ deviceId, ...MetricSamples.parse({ samples }) }]);
      await ground.short();
    };
    /** Of the whole test, so that a slow machine does not stretch the minutes. */
    let now: number;
    beforeEach(() => {
      now = Date.now();
    });
    const at = (minutesAgo: number, figures: object) => ({
      at: new Date(now - minutesAgo * MINUTE).toISOString(),
      ...figures,
    });
    const volume = (name: string, percent: number) => ({
      volume: name,
      usedBytes: percent * GIB,
      totalBytes: 100 * GIB,
    });
    const CPU = {
      kind: 'metric',
      metric: 'cpuPercent',
      operator: 'greaterThan',
      threshold: 90,
      clearThreshold: 70,
    };

    it('are met after minutes that several servers have seen, and until the figure has recovered', async () => {
      const id = await rule({ ...CPU, forMinutes: 5 }, { severity: 'critical' });
      for (const ago of [30, 29, 28, 27, 26]) await sample([at(ago, { cpuPercent: 95 })]);
      expect(await alerts()).to.deep.equal([]);
      await sample([at(25, { cpuPercent: 97.25 })]);
      const alert = await only();
      expect(alert).to.deep.include({
        kind: 'cpu_high',
        severity: 'critical',
        status: 'active',
        ruleId: id,
        count: 1,
      });
      expect(alert.title).to.match(/^Processor use of DESK-\d+ is high$/);
      expect(alert.message).to.match(
        /^The processor use of DESK-\d+ has been at 97.3 % for 5 minutes; the threshold is 90 %\.$/,
      );
      await sample([at(24, { cpuPercent: 80 }), at(23, { cpuPercent: 99 })]);
      await sample([at(22, { cpuPercent: 71 })]);
      expect(await only()).to.deep.include({ status: 'active', count: 1 });
      await sample([at(21, { cpuPercent: 12.5 })]);
      expect(await only()).to.deep.include({
        status: 'resolved',
        resolution: 'The processor use is at 12.5 %.',
      });
    });

    it('count anew after figures within the threshold, and after a break', async () => {
      await rule({ ...CPU, forMinutes: 2 });
      await sample([at(30, { cpuPercent: 95 }), at(29, { cpuPercent: 95 }), at(28, { cpuPercent: 89 })]);
      await sample([at(27, { cpuPercent: 95 }), at(20, { cpuPercent: 95 })]);
      await sample([at(19, { cpuPercent: 95 })]);
      expect(await alerts()).to.deep.equal([]);
      await sample([at(18, { cpuPercent: 95 })]);
      expect(await statuses()).to.deep.equal(['active']);
    });

    it('are raised and resolved though all of it came in one message', async () => {
      await rule({ ...CPU, forMinutes: 0 });
      await sample([at(10, { cpuPercent: 5 }), at(9, { cpuPercent: 95 }), at(8, { cpuPercent: 6.5 })]);
      expect(await statuses()).to.deep.equal(['active']);
      await ground.sql('update alert_rule_matches set ends_at = now() where device_id = ?', [
        device.deviceId,
      ]);
      await ground.short();
      expect(await only()).to.deep.include({
        status: 'resolved',
        resolution: 'The processor use is at 6.5 %.',
      });
      expect((await only()).message).to.include('has been at 95 %;');
    });

    it('are followed for each volume, in one alert that counts each further one', async () => {
      await rule({
        kind: 'metric',
        metric: 'diskPercent',
        operator: 'greaterThanOrEquals',
        threshold: 90,
        forMinutes: 0,
      });
      await sample([at(10, { volumes: [volume('C:', 95), volume('D:', 20)] })]);
      expect((await only()).title).to.match(/^Disk C: of DESK-\d+ is almost full$/);
      expect((await only()).message).to.match(
        /^The disk C: of DESK-\d+ is 95 % full; the threshold is 90 %\.$/,
      );
      await sample([at(9, { volumes: [volume('C:', 95), volume('D:', 92)] })]);
      expect(await only()).to.deep.include({ status: 'active', count: 2 });
      expect((await only()).title).to.match(/^Disks C: and D: of DESK-\d+ are almost full$/);
      await sample([at(8, { volumes: [volume('C:', 50), volume('D:', 92)] })]);
      expect(await only()).to.deep.include({ status: 'active', count: 2 });
      // A volume that is gone is not full any more.
      await sample([at(7, { volumes: [volume('C:', 50)] })]);
      expect((await only()).status).to.equal('resolved');
    });

    it('can be about free space, in bytes', async () => {
      await rule({
        kind: 'metric',
        metric: 'diskFreeBytes',
        operator: 'lessThan',
        threshold: 10 * GIB,
        forMinutes: 0,
      });
      await sample([at(10, { volumes: [volume('/', 85)] })]);
      expect(await alerts()).to.deep.equal([]);
      await sample([at(9, { volumes: [volume('/', 95)] })]);
      expect((await only()).message).to.match(/has been at 5 GB on \/; the threshold is 10 GB\.$/);
      expect((await only()).kind).to.equal('disk_space_low');
    });

    it('take figures that make no sense as none, and count no others for them', async () => {
      await rule({ ...CPU, forMinutes: 0 });
      await rule({
        kind: 'metric',
        metric: 'diskPercent',
        operator: 'greaterThan',
        threshold: 90,
        forMinutes: 0,
      });
      await sample([
        at(10, { cpuPercent: -5 }),
        at(9, { cpuPercent: 1e9 }),
        at(8, { cpuPercent: 'NaN', volumes: [{ volume: 'C:', usedBytes: 5, totalBytes: 0 }] }),
        at(-600, { cpuPercent: 99 }),
        at(60 * 26, { cpuPercent: 99 }),
      ]);
      expect(await alerts()).to.deep.equal([]);
      const many = Array.from({ length: 10_000 }, (_, n) => volume(`V${n}`, 99));
      await sample([at(7, { volumes: many })]);
      expect(await alerts()).to.have.length(1);
      const [{ count } = { count: 0 }] = await ground.sql<{ count: number }>(
        'select count(*)::int as count from alert_rule_matches where device_id = ?',
        [device.deviceId],
      );
      expect(count).to.be.at.most(64);
      expect((await only()).title.length).to.be.below(200);
    });

    it('are raised and resolved though they came in two messages between two rounds', async () => {
      await rule({ ...CPU, forMinutes: 0 });
      await ground.short();
      for (const figure of [at(9, { cpuPercent: 95 }), at(8, { cpuPercent: 6.5 })]) {
        const { record } = await newServer();
        await record([{ deviceId: device.deviceId, ...MetricSamples.parse({ samples: [figure] }) }]);
      }
      await ground.short();
      expect(await statuses()).to.deep.equal(['active']);
      await ground.sql('update alert_rule_matches set ends_at = now() where device_id = ?', [
        device.deviceId,
      ]);
      await ground.short();
      expect(await only()).to.deep.include({
        status: 'resolved',
        resolution: 'The processor use is at 6.5 %.',
      });
    });

    it('of heartbeats count for agents that have sent no samples for long enough', async () => {
      await rule({ ...CPU, forMinutes: 0 });
      const watch = await ground.newWatch(1000);
      const heard = async (cpuPercent: number) => {
        const metrics = { cpuPercent, ramPercent: 2, diskPercent: 3 };
        watch.heard([{ deviceId: device.deviceId, metrics }]);
        await watch.settle();
        await ground.short();
      };
      await heard(95);
      expect(await statuses()).to.deep.equal([]);
      await testClock.advance(1000);
      await heard(95);
      expect(await statuses()).to.deep.equal(['active']);
      await heard(10);
      expect(await statuses()).to.deep.equal(['resolved']);
    });

    it('of a device are not changed by another, and end when it moves', async () => {
      const other = await buildDevice(app, tenant.orgId);
      await rule({ ...CPU, forMinutes: 0 });
      await sample([at(5, { cpuPercent: 95 })]);
      await sample([at(4, { cpuPercent: 5 })], other);
      expect(await statuses()).to.deep.equal(['active']);
      const second = await buildTenant(app);
      await ground.sql('update organizations set partner_id = partner_id where id = ?', [second.orgId]);
      await ground.sql('delete from alerts where device_id = ?', [device.deviceId]);
      await ground.sql('update devices set org_id = ?, site_id = ? where id = ?', [
        second.orgId,
        second.siteId,
        device.deviceId,
      ]);
      expect(
        await ground.sql('select * from alert_rule_matches where device_id = ?', [device.deviceId]),
      ).to.deep.equal([]);
    });

    it('are judged anew when a device is back in service, and not by what it reported before', async () => {
      await rule({ ...CPU, forMinutes: 0 });
      await sample([at(5, { cpuPercent: 95 })]);
      expect(await statuses()).to.deep.equal(['active']);
      const { token } = tenant.admin;
      await app.call('DELETE', `/devices/${device.deviceId}`, { token });
      await ground.whole();
      expect(await statuses()).to.deep.equal(['resolved']);
      await app.call('POST', `/devices/${device.deviceId}/restore`, { token });
      await ground.whole();
      expect(await statuses()).to.deep.equal(['resolved']);
      await sample([at(1, { cpuPercent: 95 })]);
      expect(await statuses()).to.deep.equal(['active']);
    });

    it('are previewed as they are raised', async () => {
      const condition = { ...CPU, forMinutes: 3 };
      await rule(condition);
      // Half a load, with a peak every quarter of an hour, of which some are too short, and figures that are not round.
      const figures = Array.from({ length: 36 }, (_, n) => {
        const isPeak = n % 15 < (n % 30 < 15 ? 5 : 2);
        return at(38 - n, { cpuPercent: isPeak ? 90.06 + (n % 3) : 40.123 });
      });
      const server = await newServer();
      for (const [n, figure] of figures.entries()) {
        await server.record([{ deviceId: device.deviceId, ...MetricSamples.parse({ samples: [figure] }) }]);
        // Peaks end with the sixth figure of a quarter, or earlier.
        if (n % 5 === 4 || n === figures.length - 1) await ground.short();
      }
      const real = await alerts();
      const raised = real.reduce((sum, { count }) => sum + count, 0);
      expect(raised).to.equal(2);
      const { status, body } = await app.call('POST', '/alert-rules/preview', {
        token: tenant.technician.token,
        body: { target: { all: true }, condition },
      });
      expect(status).to.equal(200);
      expect(body).to.deep.include({ count: raised, affected: 1, devices: 1, examined: 1, complete: true });
      expect(body.alerts[0]).to.deep.include({ deviceId: device.deviceId, orgId: tenant.orgId });
      expect(body.byDay.reduce((sum: number, { count }: { count: number }) => sum + count, 0)).to.equal(
        raised,
      );
      expect(
        body.alerts.every(({ resolvedAt }: { resolvedAt: string | null }) => resolvedAt !== null),
      ).to.equal(true);
    });
  });

  it('are previewed incompletely where figures are kept for less than a week, which is said', async () => {
    await app.call('PUT', `/orgs/organizations/${tenant.orgId}/metric-retention`, {
      token: tenant.admin.token,
      body: { minuteDays: 3, quarterDays: 90, hourDays: 365 },
    });
    const body = {
      orgId: tenant.orgId,
      target: { all: true },
      condition: { kind: 'metric', metric: 'load', operator: 'greaterThan', threshold: 9, forMinutes: 0 },
    };
    const preview = await app.call('POST', '/alert-rules/preview', { token: tenant.admin.token, body });
    expect(preview.body).to.deep.include({ devices: 1, examined: 1, complete: false, count: 0 });
  });

  describe('about events', () => {
    let events = 0;
    const event = (more: object = {}) => ({
      timestamp: new Date().toISOString(),
      level: 'error',
      category: 'system',
      source: 'Disk',
      eventId: `System:${++events}`,
      message: 'The device has a bad block.',
      details: { log: 'System', eventId: 7 },
      ...more,
    });
    const tell = async (sent: object[], { deviceId, token } = device) => {
      const { status } = await app.call('PUT', `/agents/${deviceId}/eventlogs`, {
        token,
        body: { events: sent },
      });
      expect(status).to.equal(200);
      await ground.short();
    };

    it('are met by so many events that fit within the time', async () => {
      const id = await rule(
        {
          kind: 'event',
          log: 'System',
          level: 'warning',
          source: 'Disk',
          eventId: 7,
          text: 'BAD BLOCK',
          count: 3,
          withinMinutes: 10,
        },
        { name: 'Bad disk' },
      );
      await tell([
        event(),
        event(),
        event({ level: 'info' }),
        event({ source: 'disk' }),
        event({ details: { log: 'System', eventId: 8 } }),
        event({ details: { log: 'Application', eventId: 7 } }),
        event({ message: 'Fine.' }),
        event({ timestamp: new Date(Date.now() - 11 * MINUTE).toISOString() }),
      ]);
      expect(await alerts()).to.deep.equal([]);
      await tell([event({ level: 'critical', message: 'A bad block, <b>again</b>' })]);
      const alert = await only();
      expect(alert).to.deep.include({ ruleId: id, status: 'active', count: 1 });
      expect(alert.kind).to.match(/^log_event_[0-9a-f]{12}$/);
      expect(alert.title).to.match(/^Bad disk: DESK-\d+$/);
      expect(alert.message).to.match(
        /^3 events in 10 minutes on DESK-\d+ fit the rule\. The newest is from Disk: /,
      );
      // Known events are no further ones.
      await ground.short();
      expect(await only()).to.deep.include({ status: 'active', count: 1 });
    });

    it('are not met any more when no event has come for that time', async () => {
      await rule({ kind: 'event', source: 'Disk', count: 1, withinMinutes: 10 });
      await tell([event()]);
      await ground.sql(`update alert_rule_matches set ends_at = now() where device_id = ?`, [
        device.deviceId,
      ]);
      await ground.short();
      expect(await only()).to.deep.include({
        status: 'resolved',
        resolution: 'No further events fit the rule.',
      });
      await tell([event()]);
      expect(await only()).to.deep.include({ status: 'active', count: 2 });
    });

    it('can be many, and are counted once a round', async () => {
      await rule({ kind: 'event', level: 'error', count: 1000, withinMinutes: 60 });
      await tell(Array.from({ length: 2500 }, () => event()));
      // The newest are counted, so that a flood costs no more than that.
      expect((await only()).details).to.deep.include({ count: 2000 });
    });

    it('of an organization with a flood for many rules leave others their turn', async () => {
      const flooded = await buildTenant(app);
      const [theirs] = [await buildDevice(app, flooded.orgId)];
      for (let n = 0; n < 30; n++) {
        await ground.rule(flooded.admin.token, {
          orgId: flooded.orgId,
          condition: { kind: 'event', source: 'Disk', count: 1, withinMinutes: 10 },
        });
      }
      await rule({ kind: 'event', source: 'Disk', count: 1, withinMinutes: 10 });
      const path = `/agents/${theirs.deviceId}/eventlogs`;
      await app.call('PUT', path, { token: theirs.token, body: { events: [event()] } });
      await tell([event()]);
      expect(await statuses()).to.deep.equal(['active']);
      const raised = async () =>
        (await ground.sql('select from alerts where org_id = ?', [flooded.orgId])).length;
      expect(await raised()).to.equal(20);
      await ground.short();
      expect(await raised()).to.equal(30);
    });

    it('are those of the organization of the device only', async () => {
      const stranger = await buildTenant(app);
      const theirs = await buildDevice(app, stranger.orgId);
      await rule({ kind: 'event', source: 'Disk', count: 1, withinMinutes: 10 });
      await tell([event()], theirs);
      expect(await ground.sql('select * from alerts where org_id = ?', [stranger.orgId])).to.deep.equal([]);
    });

    it('are previewed from what is stored', async () => {
      const condition = { kind: 'event', source: 'Disk', count: 2, withinMinutes: 10 };
      const ago = (minutes: number) =>
        event({ timestamp: new Date(Date.now() - minutes * MINUTE).toISOString() });
      await tell([ago(300), ago(295), ago(200), ago(100), ago(99), ago(98)]);
      const { body } = await app.call('POST', '/alert-rules/preview', {
        token: tenant.admin.token,
        body: { orgId: tenant.orgId, target: { deviceIds: [device.deviceId] }, condition },
      });
      expect(body).to.deep.include({ count: 2, affected: 1, devices: 1, examined: 1, complete: true });
      expect(body.alerts[0].what).to.equal('Disk: The device has a bad block.');
    });
  });

  describe('about software', () => {
    const tell = async (...names: string[]) => {
      const { status } = await app.call('POST', `/agents/${device.deviceId}/inventory`, {
        token: device.token,
        body: {
          collectedAt: new Date().toISOString(),
          software: names.map((name) => ({ name, version: '1.0' })),
        },
      });
      expect(status).to.equal(200);
      await ground.short();
    };

    it('are met by a change, until it is undone', async () => {
      await rule({ kind: 'software', name: 'teamviewer', change: 'installed' });
      // What is there at first was not installed just now.
      await tell('Editor', 'TeamViewer 14');
      expect(await alerts()).to.deep.equal([]);
      await tell('Editor', 'TeamViewer 14', 'TeamViewer 15 Host');
      const alert = await only();
      expect(alert.kind).to.match(/^software_change_[0-9a-f]{12}$/);
      expect(alert.title).to.match(/^TeamViewer 15 Host 1\.0 was installed on DESK-\d+$/);
      await tell('Editor', 'TeamViewer 14');
      expect(await only()).to.deep.include({ status: 'resolved', resolution: 'The software was removed.' });
    });

    it('are met by the removal of what has to be there', async () => {
      await rule({ kind: 'software', name: 'Antivirus', change: 'removed' });
      await tell('Antivirus 9');
      await tell();
      expect((await only()).title).to.match(/^Antivirus 9 1\.0 was removed on DESK-\d+$/);
      await tell('Antivirus 9');
      expect(await only()).to.deep.include({
        status: 'resolved',
        resolution: 'The software is installed again.',
      });
    });
  });

  describe('about what the server reports', () => {
    const report = (one: EnrolledDevice | undefined = device) =>
      withSystem(app.server.database.pool, 'test', (tx) =>
        raiseAlert(tx, {
          orgId: tenant.orgId,
          ...(one === undefined ? {} : { deviceId: one.deviceId }),
          kind: 'upgrade_failed',
          severity: 'medium',
          title: 'An upgrade failed',
          message: 'It failed.',
        }),
      );
    const REPORTED = { kind: 'reported', alertKind: 'upgrade_failed' };

    it('are raised without a rule, and as the worst rule says if there is one', async () => {
      await report();
      expect(await only()).to.deep.include({ severity: 'medium', ruleId: null, status: 'active' });
      const other = await buildDevice(app, tenant.orgId);
      await rule(REPORTED, { severity: 'low' });
      const id = await rule(REPORTED, { severity: 'critical', target: { deviceIds: [other.deviceId] } });
      await report(other);
      expect(await only(other)).to.deep.include({ severity: 'critical', ruleId: id });
    });

    it('are not raised for devices that no enabled rule covers', async () => {
      const other = await buildDevice(app, tenant.orgId);
      const id = await rule(REPORTED, { target: { deviceIds: [other.deviceId] } });
      expect(await report()).to.equal(undefined);
      expect(await report(other)).to.be.a('string');
      await app.call('PATCH', `/alert-rules/${id}`, { token: tenant.admin.token, body: { enabled: false } });
      const third = await buildDevice(app, tenant.orgId);
      expect(await report(third)).to.equal(undefined);
      expect(await alerts()).to.deep.equal([]);
    });

    it('stay open if the rule says so, and are not raised again during its cooldown', async () => {
      await rule(REPORTED, { autoResolve: false, cooldownMinutes: 60 });
      const id = await report();
      await withSystem(app.server.database.pool, 'test', (tx) =>
        resolveAlert(tx, {
          orgId: tenant.orgId,
          deviceId: device.deviceId,
          kind: 'upgrade_failed',
          why: 'It worked.',
        }),
      );
      expect(await statuses()).to.deep.equal(['active']);
      await app.call('POST', `/alerts/${id}/resolve`, { token: tenant.admin.token, body: {} });
      expect(await report()).to.equal(undefined);
      expect(await statuses()).to.deep.equal(['resolved']);
    });

    it('are not resolved by what happens to their rule: what was reported has not ended', async () => {
      const id = await rule(REPORTED, { severity: 'critical' });
      const changed = await rule({ kind: 'reported', alertKind: 'backup_failed' });
      await report();
      await app.call('PATCH', `/alert-rules/${changed}`, {
        token: tenant.admin.token,
        body: { condition: REPORTED },
      });
      await app.call('PATCH', `/alert-rules/${id}`, {
        token: tenant.admin.token,
        body: { condition: { kind: 'reported', alertKind: 'backup_failed' } },
      });
      expect(await only()).to.deep.include({ status: 'active', ruleId: id });
      await app.call('DELETE', `/alert-rules/${id}`, { token: tenant.admin.token });
      await ground.whole();
      expect(await only()).to.deep.include({ status: 'active', severity: 'critical', ruleId: null });
    });

    it('follow the rules of the partner, though the organization does not see them', async () => {
      await ground.rule(tenant.admin.token, { condition: REPORTED, severity: 'info' });
      await report();
      expect((await only()).severity).to.equal('info');
    });
  });
});
