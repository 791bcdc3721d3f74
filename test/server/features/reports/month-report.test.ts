import { expect } from 'chai';
import { clock } from '../../../../src/clock.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { type Tx, withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { eventually } from '../../../support/eventually.ts';
import { type Answer, sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('the report on a month', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  const HOUR = 3_600_000;
  const LONG_AGO = new Date('2020-01-01T00:00:00Z');
  /** The month before the present one, in UTC. */
  let month: string;
  let begin: number;
  let end: number;

  before(async () => {
    app = await sharedTestApp();
    const now = clock.date();
    begin = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1);
    end = Date.UTC(now.getUTCFullYear(), now.getUTCMonth());
    month = new Date(begin).toISOString().slice(0, 7);
    tenant = await buildTenant(app);
    await longAgo(tenant.orgId);
  });
  after(async () => app.close());

  const inSystem = <T>(work: Parameters<typeof withSystem<T>>[2]) =>
    withSystem(app.server.database.pool, 'test', work);
  const hour = (hours: number) => new Date(begin + hours * HOUR);
  const longAgo = (orgId: string) =>
    inSystem((tx) => tx('organizations').where({ id: orgId }).update({ created_at: LONG_AGO }));
  const read = (
    orgId: string,
    { token }: { token: string } = tenant.admin,
    query: Record<string, string> = {},
  ) =>
    app.call('GET', `/reports/month?${new URLSearchParams({ orgId, month, ...query }).toString()}`, {
      token,
    });

  /** Enrolled again just now, which makes it no new device. */
  async function deviceOf(orgId: string, row: Record<string, unknown> = {}): Promise<EnrolledDevice> {
    const device = await buildDevice(app, orgId);
    await inSystem((tx) =>
      tx('devices')
        .where({ id: device.deviceId })
        .update({ created_at: hour(-1000), ...row }),
    );
    return device;
  }

  describe('of an organization where much has happened', () => {
    let first: EnrolledDevice;
    let second: EnrolledDevice;
    let report: Answer['body'];

    before(async () => {
      const { orgId } = tenant;
      first = await deviceOf(orgId, { display_name: 'Front desk' });
      second = await deviceOf(orgId, { created_at: hour(100), os_type: 'windows' });
      const gone = await deviceOf(orgId);
      await deviceOf(orgId, { created_at: new Date(end + HOUR) });
      const removed = await app.call('DELETE', `/devices/${gone.deviceId}`, { token: tenant.admin.token });
      expect(removed.status).to.equal(200);
      const [about, other] = [first, second].map(({ deviceId }) => ({ org_id: orgId, device_id: deviceId }));
      await inSystem(async (tx) => {
        await tx('devices')
          .where({ id: gone.deviceId })
          .update({ decommissioned_at: hour(50) });
        await tx('device_presence')
          .where({ org_id: orgId })
          .update({ since: new Date(end + HOUR) });
        const change = (device: typeof about, at: Date, state: string) => ({
          ...device,
          at,
          state,
          reason: state === 'connected' ? 'connected' : 'socket_closed',
        });
        await tx.raw(`select add_partitions('presence_changes', ?, ?)`, [hour(-100), new Date(end)]);
        await tx('presence_changes').insert([
          // Connected before the month, and for all of it but ten hours.
          change(about, hour(-50), 'connected'),
          change(about, hour(10), 'disconnected'),
          change(about, hour(20), 'connected'),
          change(about, new Date(end + 5), 'disconnected'),
          // Nothing is known of the other one for the first hundred hours that it is there.
          change(other, hour(200), 'connected'),
          change(other, new Date(end - 44 * HOUR), 'disconnected'),
        ]);
        const alert = (raised: number, more: Record<string, unknown>) => ({
          id: newId(),
          ...about,
          kind: 'disk_full',
          severity: 'high',
          title: 'T',
          message: 'M',
          raised_at: hour(raised),
          ...more,
        });
        await tx('alerts').insert([
          alert(-5, { status: 'resolved', resolved_at: hour(5) }),
          alert(1, { status: 'resolved', acknowledged_at: hour(2), resolved_at: hour(4) }),
          alert(2, { status: 'resolved', acknowledged_at: hour(5), resolved_at: hour(11) }),
          alert(3, { kind: 'device_offline', severity: 'critical', ...other }),
        ]);
        const command = (type: string, more: Record<string, unknown> = {}) => ({
          ...about,
          id: newId(),
          type,
          payload: '{}',
          timeout_seconds: 60,
          status: 'succeeded',
          created_at: hour(5),
          expires_at: hour(29),
          finished_at: hour(6),
          ...more,
        });
        await tx('commands').insert([
          command('inventory.refresh'),
          command('backup.run', { work_id: newId() }),
          command('script.run', { output: JSON.stringify({ exitCode: 0 }) }),
          command('script.run', { output: JSON.stringify({ exitCode: 3 }) }),
          command('script.run', { finished_at: new Date(end) }),
        ]);
        const work = (status: string) => ({
          id: newId(),
          kind: 'backup',
          partner_id: tenant.partnerId,
          ...about,
          input: '{}',
          status,
          stage: 'ended',
          step: 'run',
          created_at: hour(7),
          finished_at: hour(8),
          deadline_at: hour(20),
        });
        await tx('work').insert(['completed', 'completed', 'partial', 'failed'].map(work));
        await insertCloudRuns(tx, { orgId, partnerId: tenant.partnerId }, [
          { type: 'backup', status: 'completed', created_at: hour(7), items_new: 40, items_failed: 2 },
          { type: 'backup', status: 'failed', created_at: hour(8) },
          { type: 'restore', status: 'partial', created_at: hour(9) },
          { type: 'backup', status: 'completed', created_at: new Date(end), items_new: 1000 },
        ]);
        await tx('backup_usage_days').insert({
          org_id: orgId,
          day: new Date(end - 1).toISOString().slice(0, 10),
          provider: 's3',
          bytes: 5_000_000_000,
          snapshots: 3,
        });
        await tx('device_upgrades').insert(
          ['completed', 'rolled_back'].map((state) => ({
            id: newId(),
            ...about,
            component: 'agent',
            attempt_id: newId(),
            target_version: '1.1.0',
            state,
            started_at: hour(9),
            finished_at: hour(10),
          })),
        );
        await tx('software_changes').insert([
          { ...about, at: hour(11), change: 'installed', name: 'Firefox' },
          { ...about, at: hour(12), change: 'updated', name: 'Firefox' },
          { ...other, at: hour(12), change: 'removed', name: 'Zoom' },
          { ...other, at: new Date(end), change: 'removed', name: 'Later' },
        ]);
      });
      report = (await read(orgId)).body;
    });

    it('is about exactly the month, and names organization and provider', () => {
      expect(report).to.deep.include({
        month,
        timezone: 'UTC',
        from: new Date(begin).toISOString(),
        to: new Date(end).toISOString(),
        isRunning: false,
        hidden: [],
        incomplete: [],
      });
      expect(report.organization.id).to.equal(tenant.orgId);
      expect(report.provider.name).to.match(/^Partner/);
    });

    it('counts devices at the end, new ones and those that left', () => {
      expect(report.devices).to.deep.equal({
        total: 2,
        added: 1,
        removed: 1,
        bySystem: [
          { osType: 'windows', count: 1 },
          { osType: 'linux', count: 1 },
        ],
      });
    });

    it('measures the availability of what is known, and says how much that is', () => {
      const hours = (end - begin) / HOUR;
      const [known, connected] = [hours + (hours - 200), hours - 10 + (hours - 244)];
      const { availability } = report;
      expect(availability.connectedShare).to.be.closeTo(connected / known, 1e-6);
      expect(availability.knownShare).to.be.closeTo(known / (hours + hours - 100 + 50), 1e-6);
      expect(availability).to.deep.include({ devices: 3, unknownDevices: 1, disconnections: 2 });
      expect(availability.leastAvailable.map(({ id }: { id: string }) => id)).to.deep.equal([
        second.deviceId,
        first.deviceId,
      ]);
      expect(availability.leastAvailable[1]).to.include({
        name: 'Front desk',
        disconnectedMinutes: 600,
        disconnections: 1,
      });
    });

    it('counts alerts, and takes the medians of those that were raised', () => {
      expect(report.alerts).to.deep.include({
        opened: 3,
        resolved: 3,
        standing: 1,
        medianAcknowledgeSeconds: 2 * 3600,
        medianResolveSeconds: 6 * 3600,
        bySeverity: [
          { severity: 'critical', opened: 1 },
          { severity: 'high', opened: 2 },
        ],
        kindCount: 2,
        deviceCount: 2,
      });
      expect(report.alerts.devices[0]).to.deep.equal({
        id: first.deviceId,
        name: 'Front desk',
        opened: 2,
      });
    });

    it('counts backups, upgrades, scripts, commands and software', () => {
      expect(report.backups).to.deep.include({
        jobs: { completed: 2, partial: 1, failed: 1, cancelled: 0, open: 0 },
        storedBytes: 5_000_000_000,
        storedBytesBefore: null,
      });
      expect(report.cloudBackups).to.deep.equal({
        configurations: 1,
        backedUp: 1,
        runs: { completed: 1, partial: 0, failed: 1, cancelled: 0, open: 0 },
        restores: { completed: 0, partial: 1, failed: 0, cancelled: 0, open: 0 },
        itemsNew: 40,
        itemsFailed: 2,
      });
      expect(report.upgrades).to.deep.equal({
        completed: 1,
        failed: 0,
        rolledBack: 1,
        open: 0,
        devices: 1,
        versions: [{ component: 'agent', version: '1.1.0', completed: 1 }],
        versionCount: 1,
      });
      expect(report.commands).to.deep.include({
        scripts: { runs: 2, succeeded: 1 },
        commands: { runs: 1, succeeded: 1 },
        topCommands: [{ type: 'inventory.refresh', runs: 1, succeeded: 1 }],
      });
      expect(report.software).to.deep.include({
        installed: 1,
        updated: 1,
        removed: 1,
        devices: 2,
        titleCount: 2,
        cutDevices: 0,
      });
      expect(report.software.titles[0]).to.include({ name: 'Firefox', installed: 1, updated: 1 });
    });
  });

  it('of the running month has what there is so far, who did it, and says that the month goes on', async () => {
    const own = await buildTenant(app);
    const { deviceId } = await buildDevice(app, own.orgId);
    await app.call('PATCH', `/devices/${deviceId}`, {
      token: own.admin.token,
      body: { displayName: '<b>Desk</b>' },
    });
    const current = clock.date().toISOString().slice(0, 7);
    const { status, body } = await eventually(
      () => read(own.orgId, own.admin, { month: current }),
      (answer) => answer.body.people?.changes > 0,
    );
    expect(status).to.equal(200);
    expect(body).to.include({ isRunning: true });
    expect(Date.parse(body.madeAt)).to.be.below(Date.parse(body.to));
    expect(body.devices).to.include({ total: 1, added: 1 });
    expect(body.people.peopleCount).to.equal(1);
    expect(body.people.people[0]).to.deep.include({
      isApiKey: false,
      actions: [{ action: 'device.update', changes: 1 }],
    });
  });

  it('hides what the caller may not read, and names it', async () => {
    const { body: role } = await app.call('POST', '/roles', {
      token: tenant.admin.token,
      body: { name: 'Devices only', scope: 'partner', permissions: ['devices:read'] },
    });
    const { partnerId } = tenant;
    const { body } = await read(
      tenant.orgId,
      await buildPerson(app, { scope: 'partner', partnerId, role: role.id }),
    );
    expect(body.hidden).to.deep.equal(['alerts', 'backups', 'cloudBackups', 'people']);
    expect(body).to.include({ alerts: null, backups: null, cloudBackups: null, people: null });
    expect(body.devices.total).to.be.a('number');
  });

  it('is read by a viewer of the organization, who sees the name of the provider', async () => {
    const { orgId } = tenant;
    const viewer = await buildPerson(app, {
      scope: 'organization',
      orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const { status, body } = await read(orgId, viewer);
    expect(status).to.equal(200);
    expect(body.provider.name).to.match(/^Partner/);
  });

  it('is not read by strangers, nor by colleagues who are kept to other organizations', async () => {
    const stranger = await buildTenant(app);
    expect((await read(tenant.orgId, stranger.admin)).status).to.equal(403);
    expect((await read(tenant.orgId, stranger.technician)).status).to.equal(403);
    expect((await read(newId(), tenant.admin)).status).to.equal(403);
    const { partnerId } = tenant;
    const elsewhere = await buildOrganization(app, partnerId, { created_at: hour(-10) });
    const restricted = await buildPerson(app, {
      scope: 'partner',
      partnerId,
      orgAccess: 'selected',
      orgIds: [elsewhere],
    });
    expect((await read(tenant.orgId, restricted)).status).to.equal(403);
    expect((await read(elsewhere, restricted)).status).to.equal(200);
    const system = await buildPerson(app, { scope: 'system' });
    expect((await read(newId(), system)).status).to.equal(404);
    expect((await read(tenant.orgId, system)).body.provider.name).to.match(/^Partner/);
    expect((await app.call('GET', `/reports/month?orgId=${tenant.orgId}&month=${month}`)).status).to.equal(
      401,
    );
  });

  it('refuses months that are none, to come, or before the organization', async () => {
    for (const wrong of ['2026-13', '2026-00', '0000-01', '1969-12', 'October', '', '2026-1', '99999-01']) {
      const { status, body } = await read(tenant.orgId, tenant.admin, { month: wrong });
      expect(status, wrong).to.equal(400);
      expect(JSON.stringify(body), wrong).to.contain('month');
    }
    const future = await read(tenant.orgId, tenant.admin, { month: '9999-12' });
    expect(future.status).to.equal(400);
    expect(JSON.stringify(future.body)).to.contain('must not lie in the future');
    const young = await buildOrganization(app, tenant.partnerId);
    const before = await read(young);
    expect(before.status).to.equal(400);
    expect(JSON.stringify(before.body)).to.contain('before the organization');
    expect((await read(young, tenant.admin, { orgId: 'x' })).status).to.equal(400);
  });

  it('reads a device that never stays connected in one statement, and does not carry its changes about', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId, { created_at: LONG_AGO });
    const { deviceId } = await deviceOf(orgId);
    await inSystem(async (tx) => {
      await tx.raw(`select add_partitions('presence_changes', ?, ?)`, [hour(-1), new Date(end)]);
      await tx.raw(
        `insert into presence_changes (device_id, org_id, at, state, reason)
        select ?, ?, ?::timestamptz + i * interval '40 seconds',
          case when i % 2 = 0 then 'connected' else 'disconnected' end, 'socket_closed' from generate_series(0, 49999) i`,
        [deviceId, orgId, hour(0)],
      );
    });
    const { body } = await read(orgId);
    expect(body.availability).to.deep.include({ devices: 1, disconnections: 25_000 });
    expect(body.availability.leastAvailable).to.have.length(1);
    expect(JSON.stringify(body).length).to.be.below(5000);
  });

  it('knows all of the time and no more, although the lengths of its pieces add up to a little more', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId, { created_at: LONG_AGO });
    const { deviceId } = await deviceOf(orgId, { created_at: LONG_AGO });
    const october = Date.UTC(2026, 9);
    // In seconds. As binary fractions, the lengths between them come to more than the month has.
    const seconds = [0, 180.614, 683_252.735, 1_807_474.933, 2_153_588.454];
    await inSystem(async (tx) => {
      await tx.raw(`select add_partitions('presence_changes', ?, ?)`, [
        new Date(october),
        new Date(october + 744 * HOUR),
      ]);
      await tx('presence_changes').insert(
        seconds.map((second, at) => ({
          device_id: deviceId,
          org_id: orgId,
          at: new Date(october + second * 1000),
          state: at % 2 === 0 ? 'connected' : 'disconnected',
          reason: 'socket_closed',
        })),
      );
    });
    const { status, body } = await read(orgId, tenant.admin, { month: '2026-10' });
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body.availability).to.include({ devices: 1, knownShare: 1, disconnections: 2 });
  });

  it('knows when a device was taken out of service, and forgets it when that is put back', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId, { created_at: LONG_AGO });
    const { deviceId } = await deviceOf(orgId);
    const current = clock.date().toISOString().slice(0, 7);
    const devices = async () => (await read(orgId, tenant.admin, { month: current })).body.devices;
    const { token } = tenant.admin;
    expect((await app.call('DELETE', `/devices/${deviceId}`, { token })).status).to.equal(200);
    expect(await devices()).to.include({ total: 0, removed: 1 });
    expect((await read(orgId)).body.devices).to.include({ total: 1, removed: 0 });
    expect((await app.call('POST', `/devices/${deviceId}/restore`, { token })).status).to.equal(200);
    expect(await devices()).to.include({ total: 1, removed: 0 });
  });

  it('of an organization without anything has zeros, and no share of nothing', async () => {
    const empty = await buildOrganization(app, tenant.partnerId, { created_at: hour(-10) });
    const { status, body } = await read(empty);
    expect(status).to.equal(200);
    expect(body.devices).to.deep.equal({ total: 0, added: 0, removed: 0, bySystem: [] });
    expect(body.availability).to.deep.equal({
      connectedShare: null,
      knownShare: null,
      devices: 0,
      unknownDevices: 0,
      disconnections: 0,
      plannedMaintenance: { minutes: 0, devices: 0, deviceMinutes: 0, disconnectedMinutes: 0 },
      plannedMaintenanceSince: body.availability.plannedMaintenanceSince,
      leastAvailable: [],
    });
    // Of an organization that was added just now.
    expect(Date.parse(body.availability.plannedMaintenanceSince)).to.be.greaterThan(end);
    expect(body.alerts).to.include({ opened: 0, medianResolveSeconds: null });
    expect(body.backups.storedBytes).to.equal(null);
    expect(body.people).to.deep.equal({ changes: 0, people: [], peopleCount: 0, isCut: false });
  });

  it('begins and ends on the clocks of the organization, and takes what is no time zone for UTC', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId, {
      created_at: LONG_AGO,
      settings: JSON.stringify({ timezone: 'America/New_York' }),
    });
    const { body } = await read(orgId, tenant.admin, { month: '2026-03' });
    expect(body).to.include({
      timezone: 'America/New_York',
      from: '2026-03-01T05:00:00.000Z',
      to: '2026-04-01T04:00:00.000Z',
    });
    await inSystem((tx) =>
      tx('organizations')
        .where({ id: orgId })
        .update({ settings: JSON.stringify({ timezone: { zone: '<x>' } }) }),
    );
    expect((await read(orgId)).body.timezone).to.equal('UTC');
  });

  it('says from when on rows may be missing because of their age', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId, { created_at: LONG_AGO });
    const old = new Date(begin - 200 * 24 * HOUR).toISOString().slice(0, 7);
    const { body } = await read(orgId, tenant.admin, { month: old });
    const parts = body.incomplete.map(({ part }: { part: string }) => part);
    expect(parts).to.include('commands');
    expect(parts).not.to.include('alerts');
  });

  it('names things as they are called, whatever that is', async () => {
    const name = '<img src=x onerror=alert(1)>\r\nBcc: x@example.com\u202e';
    const orgId = await buildOrganization(app, tenant.partnerId, { name, created_at: hour(-10) });
    expect((await read(orgId)).body.organization.name).to.equal(name);
  });
});

interface CloudRun {
  type: 'backup' | 'restore';
  status: string;
  created_at: Date;
  items_new?: number;
  items_failed?: number;
}

/** Adds a configuration of Microsoft 365 with jobs that have ended. */
async function insertCloudRuns(
  tx: Tx,
  { orgId, partnerId }: { orgId: string; partnerId: string },
  runs: readonly CloudRun[],
): Promise<void> {
  const [keyId, connectionId, configId] = [newId(), newId(), newId()];
  const begun = runs[0]?.created_at;
  await tx('backup_encryption_keys').insert({ id: keyId, org_id: orgId, name: 'Key' });
  await tx('c2c_connections').insert({
    id: connectionId,
    org_id: orgId,
    provider: 'microsoft_365',
    auth_method: 'platform_app',
    display_name: 'Cloud',
    tenant_id: newId(),
  });
  await tx('c2c_configs').insert({
    id: configId,
    org_id: orgId,
    connection_id: connectionId,
    name: 'Mail',
    encryption_key_id: keyId,
    backup_scope: ['mail'],
    all_users: true,
    target_users: [],
    created_at: begun,
  });
  const jobs = runs.map((run) => ({ ...run, id: newId() }));
  await tx('work').insert(
    jobs.map(({ id, status, created_at }) => ({
      id,
      kind: 'cloud_backup',
      partner_id: partnerId,
      org_id: orgId,
      input: '{}',
      status,
      stage: 'ended',
      step: 'run',
      created_at,
      finished_at: created_at,
      deadline_at: created_at,
    })),
  );
  await tx('c2c_job_facts').insert(
    jobs.map(({ id, type, items_new = 0, items_failed = 0 }) => ({
      id,
      org_id: orgId,
      config_id: configId,
      type,
      trigger: 'manual',
      items_new,
      items_failed,
    })),
  );
}
