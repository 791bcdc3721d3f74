import { expect } from 'chai';
import { createAuditTrail } from '../../../../src/features/audit/index.ts';
import { MaintenanceEnd } from '../../../../src/features/devices/maintenance.work.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, graceOver } from '../../../support/fake-device.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { deviceGround, pathsOf, type Tenant } from './devices-support.ts';

describe('maintenance', () => {
  let app: TestApp;
  let tenant: Tenant;
  let device: EnrolledDevice;
  const { send, sql, read, auditOf } = deviceGround(
    () => app,
    () => tenant.admin,
  );
  const maintain = (body: unknown, person = tenant.admin, id = device.deviceId) =>
    send('POST', `/devices/${id}/maintenance`, body, person);
  const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();
  /** Its time is over, and nobody has looked. */
  const pass = (...ids: string[]) =>
    sql(`update devices set maintenance_until = now() - interval '1 minute' where id = any(?::uuid[])`, [
      ids,
    ]);

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
  });

  it('begins, changes its end and ends, each step noted', async () => {
    const until = inMs(3_600_000);
    expect((await maintain({ enabled: true, until })).body).to.include({
      status: 'maintenance',
      maintenanceUntil: until,
    });
    expect((await maintain({ enabled: true })).body).to.include({
      status: 'maintenance',
      maintenanceUntil: null,
    });
    expect((await maintain({ enabled: false })).body).to.include({
      status: 'offline',
      maintenanceUntil: null,
    });
    expect((await maintain({ enabled: false })).status).to.equal(200);
    const entries = (await auditOf(device.deviceId)).map(({ action, details, actor_type }) => ({
      action,
      details,
      actor_type,
    }));
    const common = { action: 'device.maintenance', actor_type: 'user' };
    expect(entries).to.deep.equal([
      {
        ...common,
        details: {
          enabled: true,
          until,
          before: { condition: 'normal', maintenanceUntil: null },
          after: { condition: 'maintenance', maintenanceUntil: until },
        },
      },
      {
        ...common,
        details: { enabled: true, before: { maintenanceUntil: until }, after: { maintenanceUntil: null } },
      },
      {
        ...common,
        details: { enabled: false, before: { condition: 'maintenance' }, after: { condition: 'normal' } },
      },
      { ...common, details: { enabled: false, before: {}, after: {} } },
    ]);
  });

  it('is refused an end that is past, too far, or of what does not begin', async () => {
    const wrong: [unknown, string][] = [
      [{}, 'body.enabled'],
      [{ enabled: true, until: inMs(-1000) }, 'body.until'],
      [{ enabled: true, until: inMs(367 * 24 * 3_600_000) }, 'body.until'],
      [{ enabled: true, until: 'tomorrow' }, 'body.until'],
      [{ enabled: false, until: inMs(1000) }, 'body.until'],
    ];
    for (const [body, path] of wrong) {
      expect(pathsOf(await maintain(body)), JSON.stringify(body)).to.deep.equal([400, path]);
    }
    const stranger = await buildTenant(app);
    expect((await maintain({ enabled: true }, stranger.admin)).status).to.equal(404);
    for (const condition of ['quarantined', 'updating', 'pending']) {
      for (const enabled of [true, false]) {
        // Each time: the server ends an update that no upgrade stands behind.
        await sql('update devices set condition = ? where id = ?', [condition, device.deviceId]);
        expect((await maintain({ enabled })).body.code, condition).to.equal('CONFLICT');
      }
    }
    expect(await read(device.deviceId)).to.include({ status: 'pending', maintenanceUntil: null });
  });

  it('outlives heartbeats, reconnects and reports, and shows the connection beside it', async () => {
    await maintain({ enabled: true, until: inMs(3_600_000) });
    const client = await connectDashboard(app, tenant.admin.token);
    expect((await client.subscribe()).devices[0]).to.include({ status: 'maintenance' });
    const agent = await connectDevice(app, device.token);
    await agent.heartbeat({ metrics: { cpuPercent: 1, ramPercent: 1, diskPercent: 1 } });
    await app.settle();
    const online = await read(device.deviceId);
    expect([online.status, online.presence.state]).to.deep.equal(['maintenance', 'connected']);
    agent.close();
    await graceOver(app, device.deviceId);
    expect((await read(device.deviceId)).presence.state).to.equal('disconnected');
    await app.call('POST', `/agents/${device.deviceId}/heartbeat`, {
      token: device.token,
      body: { at: new Date().toISOString(), agentVersion: '1.0.0' },
    });
    expect(await read(device.deviceId)).to.include({ status: 'maintenance' });
    expect(
      client.deltas.flatMap(({ changed }) => changed.filter(({ status }) => status !== undefined)),
    ).to.deep.equal([]);
    client.close();
  });

  it('ends by itself, and dashboards show the device as it is by then', async () => {
    const client = await connectDashboard(app, tenant.admin.token);
    const agent = await connectDevice(app, device.token);
    await agent.heartbeat();
    await client.subscribe();
    await maintain({ enabled: true, until: inMs(3_600_000) });
    await app.settle();
    const until = inMs(-1000);
    await sql('update devices set maintenance_until = ? where id = ?', [until, device.deviceId]);
    await app.advance(2000);
    const shown = () => client.deltas.flatMap(({ changed }) => changed.flatMap(({ status }) => status ?? []));
    await eventually(shown, (statuses) => statuses.at(-1) === 'online' && statuses.includes('maintenance'));
    expect(await read(device.deviceId)).to.include({ status: 'online', maintenanceUntil: null });
    const [, ended] = await auditOf(device.deviceId);
    expect(ended).to.deep.include({
      action: 'device.maintenance',
      org_id: tenant.orgId,
      actor_type: 'system',
      resource_name: (await read(device.deviceId)).hostname,
      details: { enabled: false, until },
    });
    agent.close();
    client.close();
  });

  it('ends once, however many nodes look, also what is long over', async () => {
    const others = await Promise.all(Array.from({ length: 4 }, () => buildDevice(app, tenant.orgId)));
    const ids = [device, ...others].map(({ deviceId }) => deviceId);
    for (const id of ids) await maintain({ enabled: true, until: inMs(3_600_000) }, tenant.admin, id);
    const [kept = '', ...over] = ids;
    const told: string[] = [];
    const { hub, chainWriter, database } = app.server;
    const nodes = Array.from({ length: 6 }, () => {
      const listening = Object.create(hub, {
        devicesChanged: { value: (some: readonly string[]) => void told.push(...some) },
      }) as typeof hub;
      return new MaintenanceEnd({
        db: database.hubPool,
        hub: listening,
        audit: createAuditTrail(chainWriter),
        log: quietLog,
      });
    });
    await pass(...over);
    const ended = await Promise.all(nodes.map((node) => node.endExpired()));
    // The server's own may have been first with some of them; no two were with the same.
    expect(ended.reduce((sum, count) => sum + count, 0)).to.equal(told.length);
    expect(new Set(told).size).to.equal(told.length);
    for (const id of over) {
      const entries = (await auditOf(id)).filter(({ actor_type: type }) => type === 'system');
      expect(entries.length, id).to.equal(1);
      expect(await read(id)).to.include({ status: 'offline', maintenanceUntil: null });
    }
    expect(await read(kept)).to.include({ status: 'maintenance' });
  });

  it('does not end what was begun anew at the same moment, and nothing of a decommissioned device', async () => {
    await maintain({ enabled: true, until: inMs(3_600_000) });
    await send('DELETE', `/devices/${device.deviceId}`);
    await pass(device.deviceId);
    await app.settle();
    const [row] = await sql<{ condition: string }>('select condition from devices where id = ?', [
      device.deviceId,
    ]);
    expect(row?.condition).to.equal('decommissioned');
    expect((await auditOf(device.deviceId)).map(({ action }) => action)).to.deep.equal([
      'device.maintenance',
      'device.delete',
    ]);
  });

  it('ends for other organizations if that of one cannot be ended', async () => {
    const stranger = await buildTenant(app);
    const theirs = await buildDevice(app, stranger.orgId);
    await maintain({ enabled: true, until: inMs(3_600_000) });
    await maintain({ enabled: true, until: inMs(3_600_000) }, stranger.admin, theirs.deviceId);
    await asOwner(
      app.database.ownerUrl,
      `create function refuse() returns trigger language plpgsql as $$ begin raise 'damaged'; end $$;
      create trigger refuse before update on devices for each row
        when (old.org_id = '${tenant.orgId}' and new.condition = 'normal') execute function refuse()`,
    );
    try {
      await pass(device.deviceId, theirs.deviceId);
      await eventually(
        () => sql<{ condition: string }>('select condition from devices where id = ?', [theirs.deviceId]),
        ([row]) => row?.condition === 'normal',
      );
      const [mine] = await sql<{ condition: string }>('select condition from devices where id = ?', [
        device.deviceId,
      ]);
      expect(mine?.condition).to.equal('maintenance');
    } finally {
      await asOwner(app.database.ownerUrl, 'drop function refuse cascade');
    }
  });
});
