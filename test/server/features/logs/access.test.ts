import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
  type Person,
} from '../../../support/factories.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { entriesOf } from '../audit/reading-support.ts';

/** Who reads what machines and their agents have logged is in the audit trail; what they found there is not. */
describe('reading logs', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let system: Person;
  let device: EnrolledDevice;
  let agent: FakeDevice;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    system = await buildPerson(app, { scope: 'system' });
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId);
    agent = await connectDevice(app, device.token);
    await agent.heartbeat();
  });
  afterEach(() => agent.close());

  const reads = async (of = device.deviceId) =>
    (await entriesOf(app, 'data.access')).filter(({ resource_id: id }) => id === of);
  const get = (path: string, { token } = tenant.technician) => app.call('GET', path, { token });
  const SECRET = 'a line that only the device has';
  const ROW = {
    recordId: 7,
    timeCreated: '2026-11-20T10:00:00.000Z',
    level: 'error',
    source: 'disk',
    eventId: 7,
    message: SECRET,
    category: 'System',
    user: null,
    computer: 'DESK-1',
  };

  it('live leaves one entry for each question, with the log and the conditions, and no content', async () => {
    const answering = get(`/devices/${device.deviceId}/eventlogs/System/events?level=error&text=disk`);
    const frame = await agent.nextCommand();
    // It does not wait for the answer of the device.
    const [entry] = await eventually(reads, ({ length }) => length > 0);
    expect(entry).to.deep.include({
      org_id: tenant.orgId,
      actor_id: tenant.technician.id,
      resource_type: 'device',
      details: {
        how: 'live',
        conditions: { name: 'System', page: 1, limit: 50, level: ['error'], text: 'disk' },
      },
    });
    await agent.succeed(frame, { scanned: 1, truncated: false });
    expect((await answering).status).to.equal(200);

    const one = get(`/system-tools/devices/${device.deviceId}/eventlogs/System/events/7`);
    await agent.succeed(await agent.nextCommand(), { entry: ROW });
    expect((await one).status).to.equal(200);
    const entries = await eventually(reads, ({ length }) => length > 1);
    expect(entries.map(({ details }) => details)).to.deep.include({
      how: 'live',
      conditions: { name: 'System', recordId: 7 },
    });
    expect(entries).to.have.length(2);
    expect(JSON.stringify(entries)).not.to.include(SECRET);
  });

  it('live leaves one if only the names of logs are listed, however often within ten minutes', async () => {
    for (let n = 0; n < 2; n++) {
      const answering = get(`/devices/${device.deviceId}/eventlogs/live`);
      await agent.succeed(await agent.nextCommand(), { logs: [] });
      expect((await answering).status).to.equal(200);
    }
    const [entry, ...others] = await reads();
    expect(entry?.['details']).to.deep.equal({ how: 'live', conditions: {} });
    expect(others).to.deep.equal([]);
  });

  it('by a system administrator is in the chain of the organization', async () => {
    const answering = get(`/devices/${device.deviceId}/eventlogs/System/events`, system);
    await agent.succeed(await agent.nextCommand(), { scanned: 0, truncated: false });
    await answering;
    const [entry] = await eventually(reads, ({ length }) => length > 0);
    expect(entry).to.include({ actor_id: system.id, org_id: tenant.orgId });
    const seen = await get('/audit-logs?action=data.access', tenant.admin);
    expect(seen.body.entries.map(({ id }: { id: string }) => id)).to.include(entry!['id']);
  });

  it('over the dashboard connection leaves an entry for a question and for a tail', async () => {
    const dashboard = await connectDashboard(app, tenant.technician.token);
    try {
      const query = { deviceIds: [device.deviceId], name: 'System', text: 'disk' };
      expect((await dashboard.send('eventlogs:query', query)).ok).to.equal(true);
      expect(
        (await dashboard.send('eventlogs:tail', { deviceId: device.deviceId, name: 'App' })).ok,
      ).to.equal(true);
      const entries = await eventually(reads, ({ length }) => length === 2);
      expect(entries.map(({ details }) => details)).to.have.deep.members([
        { how: 'live', conditions: { name: 'System', text: 'disk', limit: 50 } },
        { how: 'tail', conditions: { name: 'App' } },
      ]);
      for (const entry of entries) {
        expect(entry).to.include({ actor_id: tenant.technician.id, org_id: tenant.orgId });
        expect(entry['ip_address']).to.be.a('string');
      }
    } finally {
      dashboard.close();
    }
  });

  it('of many devices at once leaves one entry for each organization, and none for devices one cannot see', async () => {
    const other = await buildDevice(app, tenant.orgId);
    const stranger = await buildTenant(app);
    const foreign = await buildDevice(app, stranger.orgId);
    const before = (await entriesOf(app, 'data.access')).length;
    const dashboard = await connectDashboard(app, tenant.technician.token);
    try {
      const deviceIds = [device.deviceId, other.deviceId, foreign.deviceId];
      await dashboard.send('eventlogs:query', { deviceIds, name: 'Fleet' });
      const entries = (
        await eventually(
          () => entriesOf(app, 'data.access'),
          ({ length }) => length > before,
        )
      ).filter(({ details }) => (details as { conditions: { name?: string } }).conditions.name === 'Fleet');
      expect(entries).to.have.length(1);
      expect(entries[0]).to.deep.include({
        org_id: tenant.orgId,
        details: {
          how: 'live',
          conditions: { name: 'Fleet', limit: 50 },
          devices: 2,
          deviceIds: [device.deviceId, other.deviceId].sort(),
        },
      });
    } finally {
      dashboard.close();
    }
  });

  it('that are stored leaves one entry, however many pages are turned, and another for other conditions', async () => {
    const path = `/devices/${device.deviceId}/eventlogs`;
    for (const page of [1, 2, 3, 1]) {
      expect((await get(`${path}?page=${page}&level=error`)).status).to.equal(200);
    }
    expect((await reads()).map(({ details }) => details)).to.deep.equal([
      { how: 'stored events', conditions: { level: ['error'] } },
    ]);
    await get(`${path}?level=critical`);
    await get(`${path}?level=error`, tenant.admin);
    expect(await reads()).to.have.length(3);
    for (const page of [1, 2]) {
      await get(`/devices/${device.deviceId}/diagnostic-logs?page=${page}&search=boot`);
    }
    expect((await reads()).map(({ details }) => details)).to.deep.include({
      how: 'diagnostic log',
      conditions: { search: 'boot' },
    });
    expect(await reads()).to.have.length(4);
  });

  it('is counted in the compliance report, and so are exports', async () => {
    const person = await buildTenant(app);
    const other = await buildDevice(app, person.orgId);
    await get(`/devices/${other.deviceId}/eventlogs`, person.admin);
    const exported = await app.call('POST', '/audit-logs/export', {
      token: person.admin.token,
      body: { format: 'json' },
    });
    expect(exported.status).to.equal(200);
    await app.server.chainWriter.flush();
    const { body } = await get('/audit-logs/reports/compliance', person.admin);
    expect([body.dataAccess, body.exports], JSON.stringify(body)).to.deep.equal([1, 1]);
  });
});
