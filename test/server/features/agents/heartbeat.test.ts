import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { sentStatements } from '../../../support/sent-statements.ts';
import { type Answer, createTestApp, type TestApp } from '../../../support/test-app.ts';

const HEARTBEAT_SECONDS = 10;
const HEARTBEAT_MS = HEARTBEAT_SECONDS * 1000;
/** See `FLUSH_MS` of the presence writer. */
const PRESENCE_FLUSH_MS = 500;
/** Silent connections and expired reports are looked for this often. */
const SWEEP_MS = 1000;
/** Long enough for a request on a busy machine. */
const GRACE_MS = 5000;
const SILENT_AFTER_MS = 2.5 * HEARTBEAT_MS;
const METRICS = { cpuPercent: 12.5, ramPercent: 40, diskPercent: 71.5 };

describe('heartbeats over HTTP', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;

  const env = { AGENT_HEARTBEAT_SECONDS: String(HEARTBEAT_SECONDS) };

  before(async () => {
    app = await createTestApp({
      graceMs: GRACE_MS,
      env: {
        ...env,
        TRUST_PROXY_HEADERS: 'true',
        TRUSTED_PROXY_CIDRS: '127.0.0.1/32',
      },
    });
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
  });

  const beat = (more: object = {}, { token, deviceId } = device, through = app) =>
    through.call('POST', `/agents/${deviceId}/heartbeat`, {
      token,
      body: { at: new Date().toISOString(), agentVersion: '1.0.0', ...more },
      headers: { 'x-forwarded-for': '203.0.113.9' },
    });
  const read = async (through = app) =>
    (await through.call('GET', `/devices/${device.deviceId}`, { token: tenant.admin.token })).body;
  const inDatabase = (sql: string, values: readonly string[]) =>
    withSystem(app.server.database.pool, 'test', (tx) => tx.raw(sql, values));
  /** Time passes for the server. What it has stored is as much older, because nothing moves the clock of the database. */
  const pass = async (ms: number, through = app) => {
    await through.settle();
    await inDatabase(
      `update device_presence set reports_until = reports_until - ? * interval '1 millisecond'`,
      [String(ms)],
    );
    await through.advance(ms);
  };
  /** The connection has ended, and with it the time in which it may come back. */
  const graceOver = async () => {
    await eventually(
      () => app.server.hub.live(device.deviceId)?.isConnected,
      (isConnected) => isConnected !== true,
    );
    await pass(GRACE_MS);
  };

  it('are refused, as all that an agent sends over HTTP, if one device sends too many', async () => {
    const other = await buildDevice(app, tenant.orgId);
    const ship = () =>
      app.call('POST', `/agents/${device.deviceId}/logs`, { token: device.token, body: { logs: [] } });
    const refused = { heartbeats: [] as Answer[], logs: [] as Answer[] };
    const isRefused = ({ status }: Answer) => status === 429;
    // Of three times as many as a window holds, some are refused, also where that window ends meanwhile.
    for (let round = 0; round < 12; round++) {
      const pairs = await Promise.all(Array.from({ length: 25 }, () => Promise.all([beat(), ship()])));
      refused.heartbeats.push(...pairs.map(([heartbeat]) => heartbeat).filter(isRefused));
      refused.logs.push(...pairs.map(([, logs]) => logs).filter(isRefused));
    }
    for (const [first] of [refused.heartbeats, refused.logs]) {
      expect(first?.body.code).to.equal('RATE_LIMITED');
      expect(Number(first?.headers.get('retry-after'))).to.be.within(1, 10);
    }
    expect((await beat({}, other)).status).to.equal(200);
  });

  it('are answered as on the socket, and show the device online although it cannot be queried', async () => {
    const { status, body } = await beat({ metrics: METRICS, osVersion: 'Debian 13', agentVersion: '1.2.3' });
    expect(status).to.equal(200);
    expect(body).to.deep.include({ ok: true, nextInMs: HEARTBEAT_MS, upgrade: [] });
    expect(Math.abs(Date.parse(body.at) - Date.now())).to.be.below(5000);

    await app.settle();
    const shown = await read();
    expect(shown).to.include({ osVersion: 'Debian 13', status: 'online' });
    expect(shown).to.include({ lastIp: '203.0.113.9', agentVersion: '1.2.3' });
    expect(shown.metrics).to.include(METRICS);
    expect(shown.presence).to.include({ state: 'disconnected', reason: 'never_seen' });
    expect(shown.lastSeenAt).to.equal(body.at);
    const logs = await app.call('GET', `/system-tools/devices/${device.deviceId}/eventlogs`, {
      token: tenant.admin.token,
    });
    expect([logs.status, logs.body.code]).to.deep.equal([409, 'DEVICE_OFFLINE']);
  });

  it('keep it online while they come, and let it go offline when two and a half are missing', async () => {
    for (let seen = 0; seen < 3; seen += 1) {
      await beat();
      await pass(HEARTBEAT_MS);
      expect((await read()).status).to.equal('online');
    }
    await beat();
    await pass(2 * HEARTBEAT_MS);
    expect((await read()).status).to.equal('online');
    await pass(HEARTBEAT_MS / 2 + SWEEP_MS);
    expect((await read()).status).to.equal('offline');
    const listed = await app.call('GET', '/devices?status=offline', { token: tenant.admin.token });
    expect(listed.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([device.deviceId]);
  });

  it('tell the dashboards that watch the device, of its coming and of its going', async () => {
    const client = await connectDashboard(app, tenant.admin.token);
    await client.subscribe();
    const statuses = () => client.deltas.flatMap(({ changed }) => changed.map(({ status }) => status ?? '-'));
    await beat({ metrics: METRICS });
    await eventually(statuses, (seen) => seen.includes('online'));
    const [{ changed }] = client.deltas as [(typeof client.deltas)[0]];
    expect(changed[0]).to.have.keys('id', 'status', 'lastSeenAt', 'metrics');
    // Before the database knows it.
    const late = await connectDashboard(app, tenant.admin.token);
    expect((await late.subscribe()).devices[0]).to.include({ status: 'online' });
    await pass(SILENT_AFTER_MS + SWEEP_MS);
    await eventually(statuses, (seen) => seen.at(-1) === 'offline');
    expect(client.deltas.at(-1)!.counts.byStatus).to.deep.equal({ offline: 1 });
    expect((await read()).status).to.equal('offline');
    client.close();
    late.close();
  });

  it('leave maintenance and quarantine as they are, for readers and for dashboards', async () => {
    const decided = ['maintenance', 'quarantined'];
    const devices = [device, await buildDevice(app, tenant.orgId)];
    for (const [i, condition] of decided.entries()) {
      await inDatabase('update devices set condition = ? where id = ?', [condition, devices[i]!.deviceId]);
    }
    const client = await connectDashboard(app, tenant.admin.token);
    await client.subscribe();
    for (const one of devices) await beat({ metrics: METRICS }, one);
    const list = async () => {
      const { body } = await app.call('GET', '/devices?sort=enrolledAt', { token: tenant.admin.token });
      return body.data as { status: string; metrics: object | null }[];
    };
    await app.settle();
    const shown = await list();
    expect(shown.map(({ metrics }) => metrics)).not.to.include(null);
    expect(shown.map(({ status }) => status)).to.deep.equal(decided);
    await pass(SILENT_AFTER_MS + SWEEP_MS);
    // The frames before its answer have arrived.
    await client.subscribe();
    expect((await list()).map(({ status }) => status)).to.deep.equal(decided);
    expect(client.deltas.length).to.be.greaterThan(0);
    for (const { changed, counts } of client.deltas) {
      for (const change of changed) expect(change).not.to.have.property('status');
      expect(counts.byStatus).to.deep.equal({ maintenance: 1, quarantined: 1 });
    }
    client.close();
  });

  it('are those of the socket if there is one', async () => {
    const agent = await connectDevice(app, device.token, { capabilities: ['eventlogs.list'] });
    const { status, body } = await beat({ metrics: METRICS });
    expect([status, body.ok]).to.deep.equal([200, true]);
    await app.settle();
    const shown = await read();
    expect(shown.metrics).to.include(METRICS);
    expect(shown.presence).to.include({ state: 'connected', reason: 'connected' });
    expect(shown.capabilities).to.deep.equal(['eventlogs.list']);
    // The device reported by its connection: with that it goes.
    agent.close();
    await graceOver();
    const gone = await read();
    expect([gone.presence.state, gone.status]).to.deep.equal(['disconnected', 'offline']);
  });

  it('give way to a connection that follows them, and take over from one that has ended', async () => {
    await beat();
    await app.settle();
    expect((await read()).status).to.equal('online');
    const client = await connectDashboard(app, tenant.admin.token);
    await client.subscribe();
    const agent = await connectDevice(app, device.token);
    await app.settle();
    expect((await read()).presence.state).to.equal('connected');
    const { rows } = await inDatabase('select reports_until from device_presence where device_id = ?', [
      device.deviceId,
    ]);
    expect(rows).to.deep.equal([{ reports_until: null }]);
    agent.close();
    await graceOver();
    const gone = await read();
    expect(gone.status).to.equal('offline');
    expect(gone.presence.reason).to.equal('socket_closed');
    expect(gone.capabilities).not.to.deep.equal([]);

    await beat();
    await app.settle();
    const back = await read();
    expect(back.status).to.equal('online');
    expect(back.presence).to.deep.equal(gone.presence);
    expect(back.capabilities).to.deep.equal(gone.capabilities);
    const statuses = () => client.deltas.flatMap(({ changed }) => changed.map(({ status }) => status));
    await eventually(statuses, (seen) => seen.at(-1) === 'online');
    client.close();
  });

  it('count through the grace of a connection that breaks: the device does not blink', async () => {
    const client = await connectDashboard(app, tenant.admin.token);
    await client.subscribe();
    const agent = await connectDevice(app, device.token);
    await app.settle();
    // What was asked fails in the moment in which the hub sees the connection go.
    const asked = app.call('GET', `/system-tools/devices/${device.deviceId}/eventlogs`, {
      token: tenant.admin.token,
    });
    await agent.nextCommand();
    agent.close();
    await asked;
    await beat();
    await graceOver();
    const shown = await read();
    expect([shown.presence.state, shown.status]).to.deep.equal(['disconnected', 'online']);
    // The frames before its answer have arrived.
    await client.subscribe();
    const statuses = client.deltas.flatMap(({ changed }) => changed.map(({ status }) => status));
    expect(statuses).not.to.include('offline');
    client.close();
  });

  it('are written in batches, however many come: no statement within the request', async () => {
    const devices = await Promise.all(Array.from({ length: 20 }, () => buildDevice(app, tenant.orgId)));
    const online = async () =>
      (await app.call('GET', '/devices?status=online&limit=50', { token: tenant.admin.token })).body;
    await Promise.all(devices.map((one) => beat({}, one)));
    await app.settle();
    expect((await online()).pagination.total).to.equal(20);
    const startedAt = performance.now();
    const sent = await sentStatements(['muster', 'muster-hub'], async () => {
      for (let i = 0; i < 5; i++) {
        await Promise.all(devices.map((one) => beat({ metrics: METRICS }, one)));
      }
      await app.settle();
    });
    // Other parts, such as a round of alerts, may write at the same time.
    const writes = sent.filter((sql) => /(insert into|update) device_presence/i.test(sql));
    // One for each flush, however long a busy machine takes for the hundred requests.
    const flushes = (performance.now() - startedAt) / PRESENCE_FLUSH_MS;
    expect(writes.length, writes.join('\n')).to.be.within(1, Math.ceil(flushes) + 2);
    const { data } = await online();
    expect(data.map(({ metrics }: { metrics: object }) => metrics !== null)).not.to.include(false);
  });

  it('outlive a restart of the server, whose dashboards hear when they have ended', async () => {
    await beat();
    await app.settle();
    const next = await createTestApp({ database: app.database, env });
    try {
      const client = await connectDashboard(next, tenant.admin.token);
      expect((await client.subscribe()).devices[0]).to.include({ status: 'online' });
      await pass(SILENT_AFTER_MS + SWEEP_MS, next);
      await eventually(
        () => client.deltas.flatMap(({ changed }) => changed.map(({ status }) => status)),
        (seen) => seen.includes('offline'),
      );
      client.close();
    } finally {
      await next.close();
    }
  });

  it('that another process has taken in count here too: the device is not reported as gone', async () => {
    const other = await createTestApp({ database: app.database, env });
    try {
      const client = await connectDashboard(app, tenant.admin.token);
      await client.subscribe();
      await beat();
      for (let passedMs = 0; passedMs < 2 * SILENT_AFTER_MS; passedMs += HEARTBEAT_MS) {
        await other.settle();
        await pass(HEARTBEAT_MS);
        await beat({}, device, other);
      }
      await client.subscribe();
      const statuses = client.deltas.flatMap(({ changed }) => changed.map(({ status }) => status));
      expect(statuses).to.include('online').and.not.to.include('offline');
      client.close();
    } finally {
      await other.close();
    }
  });

  it('of a partner that is not active are taken; of one that is gone they are not', async () => {
    await inDatabase(`update partners set status = 'suspended' where id = ?`, [tenant.partnerId]);
    await inDatabase(`update organizations set status = 'suspended' where id = ?`, [tenant.orgId]);
    expect((await beat()).status).to.equal(200);
    const gone = await buildTenant(app);
    const left = await buildDevice(app, gone.orgId);
    await inDatabase('update organizations set deleted_at = now() where id = ?', [gone.orgId]);
    const refused = await beat({}, left);
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'TENANT_INACTIVE']);
  });

  it('come from anywhere, whatever addresses the partner lets people come from', async () => {
    await inDatabase(
      `update partners set settings = '{"security":{"ipAllowlist":["198.51.100.0/24"]}}' where id = ?`,
      [tenant.partnerId],
    );
    const person = await app.call('GET', '/devices', {
      token: tenant.admin.token,
      headers: { 'x-forwarded-for': '203.0.113.9' },
    });
    expect(person.body.code).to.equal('IP_NOT_ALLOWED');
    expect((await beat()).status).to.equal(200);
  });

  it('are refused by name if they are not of the agreed form', async () => {
    const { status, body } = await beat({ at: 'yesterday', metrics: { cpuPercent: 101 } });
    expect([status, body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
    expect(body.details.map(({ path }: { path: string }) => path)).to.include.members([
      'body.at',
      'body.metrics.cpuPercent',
    ]);
  });

  it('of numbers that no column holds do not keep those of others from being written', async () => {
    const other = await buildDevice(app, tenant.orgId);
    const { status, body } = await beat({ uptimeSeconds: 1e300 });
    expect([status, body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
    expect((await beat({ metrics: { ...METRICS, cpuPercent: 1e-50 } })).status).to.equal(200);
    const agent = await connectDevice(app, other.token);
    expect((await agent.heartbeat({ metrics: { ...METRICS, ramPercent: 5e-324 } })).ok).to.equal(true);
    await app.settle();
    const online = await app.call('GET', '/devices?status=online', { token: tenant.admin.token });
    expect(online.body.data).to.have.length(2);
    agent.close();
  });

  it('are sent elsewhere by a server that stops', async () => {
    const stopping = await createTestApp({ database: app.database });
    await stopping.server.hub.drain();
    const { status, headers } = await beat({}, device, stopping);
    expect([status, headers.get('retry-after')]).to.deep.equal([503, '5']);
    await stopping.close();
  });
});
