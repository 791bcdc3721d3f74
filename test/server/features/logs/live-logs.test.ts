import { expect } from 'chai';
import type { LogEntry } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, PASSWORD, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

const entry = (recordId: number): LogEntry => ({
  recordId,
  timeCreated: '2026-11-20T10:00:00.000Z',
  level: 'error',
  source: 'disk',
  eventId: 7,
  message: `Bad block ${recordId}`,
  category: 'System',
  user: null,
  computer: 'DESK-1',
});

const SYSTEM_LOG = {
  name: 'System',
  displayName: 'System',
  recordCount: 12,
  maxSize: 1024,
  retentionDays: 0,
  lastWriteTime: '2026-11-20T10:00:00.000Z',
};
/** A device that does not answer is waited for 30 s. */
const AT_ONCE_MS = 15_000;
const SUMMARY = { scanned: 10, truncated: false };

describe('live event logs', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agent: FakeDevice;
  let token: string;

  before(async () => {
    app = await createTestApp({ env: { DATABASE_POOL_SIZE: '5' } });
    tenant = await buildTenant(app);
    token = tenant.technician.token;
    device = await buildDevice(app, tenant.orgId);
  });
  after(async () => app.close());
  beforeEach(async () => {
    agent = await connectDevice(app, device.token);
    await agent.heartbeat();
  });
  afterEach(() => agent.close());

  const ask = (path: string, signal?: AbortSignal) =>
    app.call('GET', `/system-tools/devices/${device.deviceId}/eventlogs${path}`, {
      token,
      ...(signal === undefined ? {} : { signal }),
    });

  it('lists the logs that the device names', async () => {
    const answering = ask('');
    const frame = await agent.nextCommand();
    expect(frame.type).to.equal('eventlogs.list');
    await agent.succeed(frame, { logs: [SYSTEM_LOG] });
    const answer = await answering;
    expect(answer.status).to.equal(200);
    expect(answer.body).to.deep.equal({ data: [SYSTEM_LOG] });
  });

  it('answers the same under /devices, the list at its own path', async () => {
    for (const path of ['live', 'System']) {
      const answering = app.call('GET', `/devices/${device.deviceId}/eventlogs/${path}`, { token });
      const frame = await agent.nextCommand();
      await agent.succeed(frame, path === 'live' ? { logs: [SYSTEM_LOG] } : { log: SYSTEM_LOG });
      expect((await answering).status).to.equal(200);
    }
  });

  it('has every condition applied by the device', async () => {
    const query =
      'level=error,critical&source=disk&eventId=7&text=block&startTime=2026-11-20T00:00:00%2B01:00&endTime=2026-11-21T00:00:00Z&page=2&limit=3';
    const answering = ask(`/System/events?${query}`);
    const frame = await agent.nextCommand();
    expect(frame.payload).to.deep.equal({
      name: 'System',
      level: ['error', 'critical'],
      source: 'disk',
      eventId: 7,
      text: 'block',
      startTime: '2026-11-19T23:00:00.000Z',
      endTime: '2026-11-21T00:00:00.000Z',
      page: 2,
      limit: 3,
    });
    await agent.rows(frame, [entry(9), entry(8)], 0);
    await agent.rows(frame, [entry(7)], 1);
    await agent.succeed(frame, { ...SUMMARY, total: 40 });
    const { status, body } = await answering;
    expect(status).to.equal(200);
    expect(body.data.map((row: LogEntry) => row.recordId)).to.deep.equal([9, 8, 7]);
    expect(body.pagination).to.deep.equal({ page: 2, limit: 3, total: 40 });
    expect(body.meta).to.include(SUMMARY);
    expect(body.meta.tookMs).to.be.a('number');
  });

  it('clamps the page and its size to what the device takes', async () => {
    for (const [query, expected] of [
      ['page=0&limit=0', { page: 1, limit: 1 }],
      ['page=-1&limit=', { page: 1, limit: 50 }],
      ['page=999999999&limit=9999', { page: 100_000, limit: 500 }],
    ] as const) {
      const answering = ask(`/System/events?${query}`);
      const frame = await agent.nextCommand();
      expect(frame.payload, query).to.deep.equal({ name: 'System', ...expected });
      await agent.succeed(frame, SUMMARY);
      expect((await answering).body.pagination, query).to.deep.equal(expected);
    }
  });

  it('reads one entry, and says 404 if the device knows no such log or record', async () => {
    const reading = ask('/System/events/9');
    const frame = await agent.nextCommand();
    expect(frame.payload).to.deep.equal({ name: 'System', recordId: 9 });
    await agent.succeed(frame, { entry: entry(9) });
    expect((await reading).body).to.deep.equal({ data: entry(9) });

    for (const [path, code] of [
      ['/Nope', 'LOG_NOT_FOUND'],
      ['/System/events/404', 'RECORD_NOT_FOUND'],
    ] as const) {
      const missing = ask(path);
      await agent.fail(await agent.nextCommand(), code);
      const answer = await missing;
      expect([answer.status, answer.body.code]).to.deep.equal([404, 'NOT_FOUND']);
    }
  });

  it('passes a trick in the name to the device as a name, nothing more', async () => {
    const answering = ask('/..%2F..%2Fetc%2Fpasswd');
    const frame = await agent.nextCommand();
    expect(frame.payload).to.deep.equal({ name: '../../etc/passwd' });
    await agent.fail(frame, 'LOG_NOT_FOUND');
    expect((await answering).status).to.equal(404);
  });

  it('does not mix two queries to one device', async () => {
    const first = ask('/System/events?text=a');
    const second = ask('/System/events?text=b');
    const frames = [await agent.nextCommand(), await agent.nextCommand()];
    const byText = (text: string) =>
      frames.find((frame) => (frame.payload as { text: string }).text === text)!;
    await agent.rows(byText('b'), [entry(2)]);
    await agent.rows(byText('a'), [entry(1)]);
    await agent.succeed(byText('b'), SUMMARY);
    await agent.succeed(byText('a'), SUMMARY);
    expect((await first).body.data[0].recordId).to.equal(1);
    expect((await second).body.data[0].recordId).to.equal(2);
  });

  it('refuses at once when the device is not connected', async () => {
    agent.close();
    const answer = await eventually(
      () => ask(''),
      ({ status }) => status !== 502,
    );
    expect([answer.status, answer.body.code]).to.deep.equal([409, 'DEVICE_OFFLINE']);
    const startedAt = Date.now();
    await ask('');
    expect(Date.now() - startedAt).to.be.below(AT_ONCE_MS);
  });

  it('answers at once, with what came, when the device goes away in the middle', async () => {
    const answering = ask('/System/events');
    const frame = await agent.nextCommand();
    await agent.rows(frame, [entry(1)]);
    const startedAt = Date.now();
    agent.socket.disconnect();
    const answer = await answering;
    expect([answer.status, answer.body.code]).to.deep.equal([409, 'DEVICE_OFFLINE']);
    expect(answer.body.details.partial).to.deep.equal([entry(1)]);
    expect(Date.now() - startedAt).to.be.below(AT_ONCE_MS);
  });

  it('cancels on the device when the client has gone', async () => {
    const client = new AbortController();
    const answering = ask('/System/events', client.signal).catch(() => 'gone');
    const frame = await agent.nextCommand();
    client.abort();
    expect(await answering).to.equal('gone');
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(frame.id),
    );
  });

  it('refuses more questions than one device may have open, and takes them again later', async () => {
    const open = Array.from({ length: 8 }, () => ask(''));
    const frames = await Promise.all(open.map(() => agent.nextCommand()));
    const ninth = await ask('');
    expect([ninth.status, ninth.body.code]).to.deep.equal([429, 'DEVICE_BUSY']);
    expect(ninth.headers.get('retry-after')).to.match(/^\d+$/);
    for (const frame of frames) await agent.succeed(frame, { logs: [] });
    for (const answering of open) expect((await answering).status).to.equal(200);
  });

  it('tells a missing capability and a fault of the device apart', async () => {
    const faulty = ask('');
    await agent.fail(await agent.nextCommand(), 'ACCESS_DENIED', 'Not allowed to read it.');
    const fault = await faulty;
    expect([fault.status, fault.body.code]).to.deep.equal([502, 'DEVICE_ERROR']);
    expect(fault.body.details).to.deep.equal({ code: 'ACCESS_DENIED', message: 'Not allowed to read it.' });

    const other = await buildDevice(app, tenant.orgId);
    const limited = await connectDevice(app, other.token, { capabilities: [] });
    const answer = await app.call('GET', `/system-tools/devices/${other.deviceId}/eventlogs`, { token });
    expect([answer.status, answer.body.code]).to.deep.equal([409, 'CAPABILITY_MISSING']);
    limited.close();
  });

  it('does not believe answers that are not of the agreed form', async () => {
    const wrongOutput = ask('');
    await agent.succeed(await agent.nextCommand(), { logs: 'none' });
    expect((await wrongOutput).body.details.code).to.equal('INVALID_OUTPUT');

    const wrongRows = ask('/System/events');
    const frame = await agent.nextCommand();
    await agent.rows(frame, [{ recordId: 'one' }]);
    expect((await wrongRows).body.details.code).to.equal('INVALID_ROWS');

    const tooMany = ask('/System/events?limit=1');
    await agent.rows(await agent.nextCommand(), [entry(1), entry(2)]);
    expect((await tooMany).body.details.code).to.equal('TOO_MANY_ROWS');
    await eventually(
      () => agent.cancelled.length,
      (cancelled) => cancelled === 2,
    );
  });

  it('names what is wrong with a query, all of it', async () => {
    const answer = await ask('/System/events?startTime=yesterday&level=loud&eventId=x');
    expect([answer.status, answer.body.code]).to.deep.equal([400, 'VALIDATION_FAILED']);
    const paths = answer.body.details.map((issue: { path: string }) =>
      issue.path.split('.').slice(0, 2).join('.'),
    );
    expect(paths).to.have.members(['query.startTime', 'query.level', 'query.eventId']);
    expect(agent.commands).to.deep.equal([]);
  });

  it('hides devices of other tenants, and ids without a device', async () => {
    const stranger = await buildTenant(app);
    for (const id of [device.deviceId, '01900000-0000-7000-8000-00000000dead', 'not-a-uuid']) {
      const answer = await app.call('GET', `/system-tools/devices/${id}/eventlogs`, {
        token: stranger.admin.token,
      });
      expect([answer.status, answer.body.code], id).to.deep.equal([404, 'NOT_FOUND']);
    }
  });

  it('holds no database connection while 50 queries wait on a pool of 5', async () => {
    const devices = await Promise.all(Array.from({ length: 10 }, () => buildDevice(app, tenant.orgId)));
    const agents = await Promise.all(devices.map(({ token: own }) => connectDevice(app, own)));
    const waiting = devices.flatMap(({ deviceId }) =>
      Array.from({ length: 5 }, () =>
        app.call('GET', `/system-tools/devices/${deviceId}/eventlogs`, { token }),
      ),
    );
    await eventually(
      () => agents.map(({ commands }) => commands.length),
      (counts) => counts.every((n) => n === 5),
    );

    const startedAt = Date.now();
    const signIn = await app.call('POST', '/auth/login', {
      body: { email: tenant.admin.email, password: PASSWORD },
    });
    expect(signIn.status).to.equal(200);
    expect(Date.now() - startedAt).to.be.below(AT_ONCE_MS);

    for (const other of agents) for (const frame of other.commands) await other.succeed(frame, { logs: [] });
    for (const answer of await Promise.all(waiting)) expect(answer.status).to.equal(200);
    for (const other of agents) other.close();
  });
});
