import { expect } from 'chai';
import { alertGround } from '../../../support/alert-rule-ground.ts';
import {
  buildDevice,
  buildOrganization,
  buildSite,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('alert rules about services', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let ground: ReturnType<typeof alertGround>;
  let device: EnrolledDevice;
  let agent: FakeDevice;

  before(async () => {
    app = await createTestApp();
    ground = alertGround(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    agent = await connectDevice(app, device.token);
  });
  afterEach(() => agent.close());

  const MINUTE = 60_000;
  const report = async (message: object, by = agent) => {
    const answer = by.send('services:report', { manager: 'windows', isComplete: false, ...message });
    await by.heartbeat();
    await app.settle();
    expect(await answer).to.deep.equal({ ok: true });
  };
  /** The spooler entered a state so many minutes ago. */
  const spooler = (state: string, minutes = 0, by = agent) =>
    report(
      {
        services: [
          {
            name: 'Spooler',
            displayName: 'Print Spooler',
            state,
            since: new Date(Date.now() - minutes * MINUTE).toISOString(),
          },
        ],
      },
      by,
    );
  const watch = (condition: object = {}, more: object = {}) =>
    ground.rule(tenant.admin.token, {
      orgId: tenant.orgId,
      condition: { kind: 'service', name: 'spooler', state: 'stopped', ...condition },
      ...more,
    });
  interface Alert {
    kind: string;
    status: string;
    title: string;
    message: string;
    resolved_why: string | null;
    details: Record<string, unknown>;
  }
  const alerts = (deviceId = device.deviceId) =>
    ground.sql<Alert>(
      `select * from alerts where device_id = ? and kind like 'service_state_%' order by id`,
      [deviceId],
    );
  /** The device has been connected for longer than it has to report. */
  const connectedFor = (minutes: number) => ground.back(device, minutes);
  const nameOf = async () =>
    (await app.call('GET', `/devices/${device.deviceId}`, { token: tenant.admin.token })).body.hostname;

  it('raise an alert when a service is stopped, and resolve it when it runs again', async () => {
    const rule = await watch();
    await spooler('running', 60);
    await ground.short();
    expect(await alerts()).to.deep.equal([]);
    await spooler('stopped');
    await ground.short();
    const [raised, ...more] = await alerts();
    expect(more).to.deep.equal([]);
    const device1 = await nameOf();
    expect(raised).to.deep.include({
      status: 'active',
      title: `Print Spooler is stopped on ${device1}`,
      kind: `service_state_${rule.replaceAll('-', '').slice(-12)}`,
    });
    expect(raised?.message).to.match(
      /^Print Spooler has been stopped on .+, since .+ UTC\. The rule .+ watches for it\.$/,
    );
    await spooler('running');
    await ground.short();
    const [resolved] = await alerts();
    expect(resolved?.status).to.equal('resolved');
    expect(JSON.stringify(resolved)).to.contain('Print Spooler is running.');
    expect(
      await ground.sql('select * from alert_rule_matches where device_id = ?', [device.deviceId]),
    ).to.deep.equal([]);
  });

  it('name a service by either of its names, and one of systemd with or without its ending', async () => {
    await watch({ name: 'PRINT SPOOLER' });
    await watch({ name: 'nginx.service' });
    await watch({ name: 'NGINX' });
    await watch({ name: 'ngin' });
    await spooler('stopped');
    await report({ services: [{ name: 'nginx', state: 'stopped' }] });
    await ground.short();
    expect((await alerts()).map(({ title }) => title.replace(/ on .*/, '')).toSorted()).to.deep.equal([
      'Print Spooler is stopped',
      'nginx is stopped',
      'nginx is stopped',
    ]);
  });

  it('tell a failure apart, and count it as stopped too', async () => {
    await watch({ state: 'failed' });
    await watch({ state: 'stopped' });
    await watch({ state: 'running' });
    await spooler('failed');
    await ground.short();
    expect((await alerts()).map(({ title }) => title.replace(/ on .*/, ''))).to.deep.equal([
      'Print Spooler has failed',
      'Print Spooler has failed',
    ]);
    await spooler('stopped');
    await ground.short();
    expect((await alerts()).map(({ status }) => status).toSorted()).to.deep.equal(['active', 'resolved']);
  });

  it('say nothing about a service that is restarted within the time', async () => {
    await watch({ forMinutes: 5 });
    await spooler('stopped', 4);
    await connectedFor(60);
    await ground.short();
    await spooler('starting');
    await spooler('running');
    await connectedFor(60);
    await ground.short();
    await spooler('stopped', 1);
    await connectedFor(60);
    await ground.whole();
    expect(await alerts()).to.deep.equal([]);
  });

  it('raise an alert when the time is over, without a further report', async () => {
    await watch({ forMinutes: 5 });
    await spooler('stopped', 4);
    await connectedFor(60);
    await ground.short();
    expect(await alerts()).to.deep.equal([]);
    await ground.sql(
      `update alert_rule_matches set since = since - interval '1 minute' where device_id = ?`,
      [device.deviceId],
    );
    await ground.short();
    expect(await alerts()).to.have.length(1);
  });

  it('count a state anew that began anew, although the restart was not seen', async () => {
    await watch({ forMinutes: 5 });
    await spooler('stopped', 4);
    await spooler('stopped', 1);
    await connectedFor(60);
    await ground.sql(
      `update alert_rule_matches set since = since - interval '2 minutes' where device_id = ?`,
      [device.deviceId],
    );
    await ground.short();
    expect(await alerts()).to.deep.equal([]);
  });

  it('do not take for granted what happens on a device that is away', async () => {
    await watch({ forMinutes: 5 });
    await spooler('stopped', 3);
    agent.close();
    await ground.gone(device, 2);
    await ground.sql(
      `update alert_rule_matches set since = since - interval '10 minutes' where device_id = ?`,
      [device.deviceId],
    );
    await ground.sql(
      `update device_presence set last_seen_at = now() - interval '9 minutes' where device_id = ?`,
      [device.deviceId],
    );
    await ground.short();
    expect(await alerts()).to.deep.equal([]);
    // It has just come back, and may still say that the service runs.
    await connectedFor(1);
    await ground.short();
    expect(await alerts()).to.deep.equal([]);
    await connectedFor(3);
    await ground.short();
    expect(await alerts()).to.have.length(1);
  });

  it('meet what was so before them, also after a change', async () => {
    await spooler('stopped', 60);
    const rule = await watch({ name: 'other' });
    await ground.short();
    expect(await alerts()).to.deep.equal([]);
    const changed = await app.call('PATCH', `/alert-rules/${rule}`, {
      token: tenant.admin.token,
      body: { condition: { kind: 'service', name: 'Spooler', state: 'stopped' } },
    });
    expect(changed.status).to.equal(200);
    await ground.short();
    expect(await alerts()).to.have.length(1);
  });

  it('are put right by a whole round, whatever was missed', async () => {
    const rule = await watch();
    await spooler('stopped', 60);
    await ground.sql('delete from alert_rule_matches where rule_id = ?', [rule]);
    await ground.sql(`update alert_rules set updated_at = now() - interval '1 hour' where id = ?`, [rule]);
    await ground.short();
    expect(await alerts()).to.deep.equal([]);
    await ground.whole();
    expect(await alerts()).to.have.length(1);
    const owner = (sql: string) => asOwner(app.database.ownerUrl, sql);
    await owner('alter table device_services disable trigger device_services_changed');
    try {
      await spooler('running');
    } finally {
      await owner('alter table device_services enable trigger device_services_changed');
    }
    await ground.short();
    expect((await alerts())[0]?.status).to.equal('active');
    await ground.whole();
    expect((await alerts())[0]?.status).to.equal('resolved');
  });

  it('end with the service, or with its absence from a complete report', async () => {
    await watch();
    await spooler('stopped');
    await ground.short();
    await report({ isComplete: true, services: [{ name: 'BITS', state: 'running' }] });
    await ground.short();
    const [alert] = await alerts();
    expect(alert?.status).to.equal('resolved');
    expect(JSON.stringify(alert)).to.contain('The device does not have Print Spooler any more.');
  });

  it('raise nothing outside of their target, in other tenants, or while they are off', async () => {
    const other = await buildTenant(app);
    const theirs = await buildDevice(app, other.orgId);
    const their = await connectDevice(app, theirs.token);
    const covered = await buildDevice(app, tenant.orgId);
    await watch({}, { target: { deviceIds: [covered.deviceId] } });
    await watch({}, { enabled: false });
    await spooler('stopped');
    await spooler('stopped', 0, their);
    their.close();
    await ground.whole();
    expect(await alerts()).to.deep.equal([]);
    expect(await alerts(theirs.deviceId)).to.deep.equal([]);
  });

  it('of the partner cover all of its organizations, and a device that moves meets those of its new one', async () => {
    await watch();
    await spooler('stopped', 10);
    await ground.short();
    expect(await alerts()).to.have.length(1);
    const orgId = await buildOrganization(app, tenant.partnerId);
    const siteId = await buildSite(app, orgId);
    await ground.rule(tenant.admin.token, {
      orgId,
      condition: { kind: 'service', name: 'Print Spooler', state: 'stopped' },
    });
    const moved = await app.call('POST', `/devices/${device.deviceId}/move`, {
      token: tenant.admin.token,
      body: { orgId, siteId },
    });
    expect(moved.status, JSON.stringify(moved.body)).to.equal(200);
    expect(
      await ground.sql(`select org_id from alert_rule_matches where device_id = ?`, [device.deviceId]),
    ).to.deep.equal([{ org_id: orgId }]);
    // The alert of the rule that it has left ends in the next whole round.
    await ground.whole();
    expect((await alerts()).map(({ status }) => status).toSorted()).to.deep.equal(['active', 'resolved']);
  });

  it('are previewed by what is so now, which is not all that has been', async () => {
    const before = Date.now();
    await spooler('stopped', 30);
    await report({ services: [{ name: 'BITS', state: 'stopped' }] });
    const { status, body } = await app.call('POST', '/alert-rules/preview', {
      token: tenant.admin.token,
      body: {
        orgId: tenant.orgId,
        target: { all: true },
        condition: { kind: 'service', name: 'Print Spooler', state: 'stopped', forMinutes: 10 },
      },
    });
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body).to.deep.include({ count: 1, affected: 1, devices: 1, examined: 1, complete: false });
    expect(body.alerts[0]).to.deep.include({ what: 'Print Spooler is stopped', resolvedAt: null });
    expect(Date.parse(body.alerts[0].raisedAt)).to.be.closeTo(before - 20 * MINUTE, MINUTE);
  });

  it('are refused with a field that is not theirs, and listed by their kind', async () => {
    const wrong = await app.call('POST', '/alert-rules', {
      token: tenant.admin.token,
      body: {
        orgId: tenant.orgId,
        name: 'Wrong',
        severity: 'high',
        target: { all: true },
        condition: { kind: 'service', name: 'x', state: 'asleep', forMinutes: 1441 },
      },
    });
    expect(wrong.status).to.equal(400);
    const rule = await watch();
    const listed = await app.call('GET', `/alert-rules?kind=service&orgId=${tenant.orgId}`, {
      token: tenant.admin.token,
    });
    expect(listed.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([rule]);
  });
});
