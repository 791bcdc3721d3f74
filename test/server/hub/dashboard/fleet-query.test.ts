import { expect } from 'chai';
import type { EventLogsEnd, EventLogsRows } from '../../../../src/protocol/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const entry = (recordId: number) => ({
  recordId,
  timeCreated: '2026-11-20T10:00:00.000Z',
  level: 'error',
  source: 'disk',
  eventId: 7,
  message: 'A bad block.',
  category: 'System',
  user: null,
  computer: 'DESK-1',
});

describe('a live query to many devices', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let watcher: DashboardClient;
  let rows: EventLogsRows[];
  let ends: EventLogsEnd[];
  let agents: FakeDevice[];

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    agents = [];
    watcher = await watch(tenant.admin.token);
  });
  afterEach(() => {
    watcher.close();
    for (const agent of agents) agent.close();
  });

  async function watch(token: string): Promise<DashboardClient> {
    const client = await connectDashboard(app, token);
    rows = [];
    ends = [];
    client.socket.on('eventlogs:rows', (message: EventLogsRows) => rows.push(message));
    client.socket.on('eventlogs:end', (message: EventLogsEnd) => ends.push(message));
    return client;
  }
  async function connected(orgId = tenant.orgId): Promise<{ device: EnrolledDevice; agent: FakeDevice }> {
    const device = await buildDevice(app, orgId);
    const agent = await connectDevice(app, device.token);
    agents.push(agent);
    return { device, agent };
  }
  const ended = (queryId: string) =>
    eventually(
      () => ends.find((end) => end.queryId === queryId),
      (end) => end !== undefined,
    ).then((end) => end?.outcomes ?? []);
  const rowsOf = ({ deviceId }: EnrolledDevice) =>
    rows.filter((message) => message.deviceId === deviceId).flatMap((message) => message.rows);

  it('streams the rows of each device and reports how each ended', async () => {
    const full = await connected();
    const empty = await connected();
    const failing = await connected();
    const away = await buildDevice(app, tenant.orgId);
    const foreign = await buildDevice(app, (await buildTenant(app)).orgId);
    const deviceIds = [full.device, empty.device, failing.device, away, foreign, full.device].map(
      ({ deviceId }) => deviceId,
    );
    const started = await watcher.send('eventlogs:query', {
      deviceIds,
      name: 'System',
      level: ['error'],
      limit: 3,
    });
    expect(started).to.include({ ok: true });
    const frame = await full.agent.nextCommand();
    expect(frame.payload).to.deep.equal({ name: 'System', level: ['error'], page: 1, limit: 3 });
    await full.agent.rows(frame, [entry(3), entry(2)]);
    // Before the device has ended: they are shown as it reads them.
    await eventually(
      () => rowsOf(full.device).length,
      (count) => count === 2,
    );
    expect(ends).to.deep.equal([]);
    await full.agent.rows(frame, [entry(1)], 1);
    await full.agent.succeed(frame, { scanned: 9, truncated: false });
    const lookedBackTo = '2026-01-31T07:00:00.000Z';
    await empty.agent.succeed(await empty.agent.nextCommand(), {
      scanned: 40,
      truncated: true,
      lookedBackTo,
    });
    await failing.agent.fail(await failing.agent.nextCommand(), 'LOG_NOT_FOUND', 'There is no such log.');
    expect(await ended(started.queryId)).to.deep.equal([
      { deviceId: full.device.deviceId, outcome: 'answered', rows: 3, scanned: 9, truncated: false },
      {
        deviceId: empty.device.deviceId,
        outcome: 'no_match',
        rows: 0,
        scanned: 40,
        truncated: true,
        lookedBackTo,
      },
      {
        deviceId: failing.device.deviceId,
        outcome: 'error',
        rows: 0,
        message: 'There is no such log.',
      },
      { deviceId: away.deviceId, outcome: 'offline', rows: 0 },
      { deviceId: foreign.deviceId, outcome: 'error', rows: 0, message: 'Device not found' },
    ]);
    expect(rowsOf(full.device).map(({ recordId }) => recordId)).to.deep.equal([3, 2, 1]);
  });

  it('queries the devices that a saved filter matches, and reports when there are none or too many', async () => {
    const found = await connected();
    const other = await connected();
    await asOwner(app.database.ownerUrl, `update devices set tags = '{till}' where id = any($1)`, [
      [found.device.deviceId],
    ]);
    const save = async (conditions: object) =>
      (
        await app.call('POST', '/filters', {
          token: tenant.admin.token,
          body: { orgId: tenant.orgId, name: 'x', conditions: { operator: 'AND', conditions: [conditions] } },
        })
      ).body.id;
    const filterId = await save({ field: 'tags', operator: 'hasAny', value: ['till'] });
    const started = await watcher.send('eventlogs:query', { filterId, name: 'System' });
    expect(started).to.include({ ok: true });
    const frame = await found.agent.nextCommand();
    expect(frame.payload).to.deep.equal({ name: 'System', page: 1, limit: 50 });
    await found.agent.rows(frame, [entry(1)], 1);
    await found.agent.succeed(frame, { scanned: 1, truncated: false });
    expect(await ended(started.queryId)).to.deep.equal([
      { deviceId: found.device.deviceId, outcome: 'answered', rows: 1, scanned: 1, truncated: false },
    ]);
    expect(other.device.deviceId).not.to.equal(found.device.deviceId);

    const nothing = await save({ field: 'hostname', operator: 'equals', value: 'none' });
    const empty = await watcher.send('eventlogs:query', { filterId: nothing, name: 'System' });
    expect(await ended(empty.queryId)).to.deep.equal([]);
    const unknown = await watcher.send('eventlogs:query', { filterId: newId(), name: 'System' });
    expect(unknown.error.code).to.equal('NOT_FOUND');
    await asOwner(
      app.database.ownerUrl,
      `insert into devices (id, org_id, site_id, hostname, tags, os_type, os_version, architecture, agent_version, enrolled_at)
      select gen_random_uuid(), $1, $2, 'h' || n, '{many}', 'linux', '1', 'x64', '1', now() from generate_series(1, 501) n`,
      [tenant.orgId, tenant.siteId],
    );
    const many = await save({ field: 'tags', operator: 'contains', value: 'MANY' });
    const tooMany = await watcher.send('eventlogs:query', { filterId: many, name: 'System' });
    expect(tooMany.error).to.deep.equal({
      code: 'VALIDATION_FAILED',
      message: 'filterId: finds more than 500 devices',
      details: [{ path: 'filterId', message: 'finds more than 500 devices' }],
    });
    await asOwner(app.database.ownerUrl, `delete from devices where tags = '{many}'`);
  });

  it('keeps rows that came before a device disconnected or exceeded the limit', async () => {
    const leaving = await connected();
    const flooding = await connected();
    const { queryId } = await watcher.send('eventlogs:query', {
      deviceIds: [leaving.device.deviceId, flooding.device.deviceId],
      name: 'System',
      limit: 1,
    });
    await leaving.agent.rows(await leaving.agent.nextCommand(), [entry(1)]);
    await eventually(
      () => rowsOf(leaving.device).length,
      (count) => count === 1,
    );
    leaving.agent.close();
    const frame = await flooding.agent.nextCommand();
    await flooding.agent.rows(frame, [entry(1), entry(2)]);
    const outcomes = await ended(queryId);
    expect(outcomes.map(({ outcome, rows: count }) => [outcome, count])).to.deep.equal([
      ['error', 1],
      ['error', 0],
    ]);
    expect(flooding.agent.cancelled).to.deep.equal([frame.id]);
  });

  it('is cancelled on every device at once, by its id, or with the connection', async () => {
    for (const how of ['cancel', 'disconnect'] as const) {
      const some = [await connected(), await connected()];
      const { queryId } = await watcher.send('eventlogs:query', {
        deviceIds: some.map(({ device }) => device.deviceId),
        name: 'System',
      });
      const frames = await Promise.all(some.map(({ agent }) => agent.nextCommand()));
      if (how === 'disconnect') watcher.close();
      else expect(await watcher.send('eventlogs:cancel', { queryId })).to.deep.equal({ ok: true });
      for (const [n, { agent }] of some.entries()) {
        await eventually(
          () => agent.cancelled,
          (ids) => ids.includes(frames[n]?.id ?? ''),
        );
      }
      if (how === 'cancel') {
        expect((await ended(queryId)).map(({ outcome }) => outcome)).to.deep.equal([
          'cancelled',
          'cancelled',
        ]);
      }
    }
  });

  it('follows the log of one device until it is cancelled', async () => {
    const { device, agent } = await connected();
    const { queryId } = await watcher.send('eventlogs:tail', { deviceId: device.deviceId, name: 'System' });
    const frame = await agent.nextCommand();
    expect(frame.type).to.equal('eventlogs.tail');
    expect(Date.parse(frame.deadline) - Date.now()).to.be.greaterThan(60_000);
    for (const n of [1, 2, 3]) await agent.rows(frame, [entry(n)], n);
    await eventually(
      () => rowsOf(device).length,
      (count) => count === 3,
    );
    await watcher.send('eventlogs:cancel', { queryId });
    expect((await ended(queryId))[0]).to.include({ outcome: 'cancelled', rows: 3 });
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(frame.id),
    );
  });

  it('queries a limited number of devices at a time', async () => {
    const fleet = await Promise.all(Array.from({ length: 80 }, () => connected()));
    const { queryId } = await watcher.send('eventlogs:query', {
      deviceIds: fleet.map(({ device }) => device.deviceId),
      name: 'System',
    });
    const asked = () => fleet.filter(({ agent }) => agent.commands.length > 0);
    await eventually(
      () => asked().length,
      (count) => count === 64,
    );
    const answered = new Set<FakeDevice>();
    while (answered.size < fleet.length) {
      for (const { agent } of asked()) {
        answered.add(agent);
        await agent.succeed(await agent.nextCommand(), { scanned: 0, truncated: false });
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await ended(queryId)).every(({ outcome }) => outcome === 'no_match')).to.equal(true);
  });

  it('is refused when it is invalid, or for organizations that accept no actions', async () => {
    for (const message of [
      {},
      { deviceIds: [], name: 'System' },
      { deviceIds: ['x'], name: 'System' },
      { deviceIds: [newId()], name: 'System', limit: 501 },
      { deviceIds: [newId()], name: 'System', levels: ['error'] },
      { deviceIds: Array.from({ length: 501 }, newId), name: 'System' },
      { name: 'System' },
      { deviceIds: [newId()], filterId: newId(), name: 'System' },
    ]) {
      expect((await watcher.send('eventlogs:query', message)).error.code).to.equal('VALIDATION_FAILED');
    }
    const { device } = await connected();
    await asOwner(app.database.ownerUrl, `update organizations set status = 'suspended' where id = $1`, [
      tenant.orgId,
    ]);
    const { queryId } = await watcher.send('eventlogs:query', {
      deviceIds: [device.deviceId],
      name: 'System',
    });
    expect((await ended(queryId))[0]).to.deep.include({
      outcome: 'error',
      message: 'The organization of this device is suspended.',
    });
    await asOwner(app.database.ownerUrl, `update organizations set status = 'active' where id = $1`, [
      tenant.orgId,
    ]);
    const many = await Promise.all(
      Array.from({ length: 9 }, async () => {
        const one = await connected();
        return watcher.send('eventlogs:query', { deviceIds: [one.device.deviceId], name: 'System' });
      }),
    );
    expect(many.filter(({ ok }) => ok === false).map(({ error }) => error.code)).to.deep.equal([
      'RATE_LIMITED',
    ]);
    const nobody = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'none',
    });
    watcher.close();
    watcher = await watch(nobody.token);
    const foreign = await watcher.send('eventlogs:query', { deviceIds: [device.deviceId], name: 'System' });
    expect((await ended(foreign.queryId))[0]?.message).to.equal('Device not found');
  });
});
