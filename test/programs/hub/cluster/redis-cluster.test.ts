import { expect } from 'chai';
import { Redis } from 'ioredis';
import type { CommandFrame, DevicesDelta, JobUpdate } from '../../../../src/protocol/index.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildSite, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { redisOrSkip, type TestRedis } from '../../../support/redis.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';
import { type Answer, createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

/** Redis, leases of three seconds and a slow machine: what is waited for may take so long. */
const SOON_MS = 15_000;
const LOGS = { logs: [] };
/** Where a stock adapter listens: one malformed publish there ends its process. */
const ADAPTER_CHANNELS = ['', '-request', '-response'].map((kind) => `muster:dashboards${kind}#/dashboard#`);

describe('three servers on one Redis', function () {
  let redis: TestRedis;
  let database: TestDatabase;
  let proxy: TcpProxy;
  let north: TestApp;
  let east: TestApp;
  let west: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agents: FakeDevice[];
  let watchers: DashboardClient[];

  const start = (nodeId: string, redisUrl = redis.url) =>
    createTestApp({ database, env: { REDIS_URL: redisUrl, NODE_ID: nodeId } });

  before(async function () {
    redis = await redisOrSkip(this);
    database = await createTestDatabase();
    const { hostname, port } = new URL(redis.url);
    proxy = await startTcpProxy({ host: hostname, port: Number(port) });
    [north, east, west] = await Promise.all([
      start('north'),
      start('east'),
      // Between this one and Redis, the network can fail.
      start('west', `redis://127.0.0.1:${proxy.port}`),
    ]);
    tenant = await buildTenant(north);
  });
  after(async () => {
    await Promise.all([north, east, west].map((app) => app?.close()));
    await proxy?.cut();
    await database?.drop();
    await redis?.remove();
  });
  beforeEach(async () => {
    agents = [];
    watchers = [];
    device = await buildDevice(north, tenant.orgId);
  });
  afterEach(() => {
    for (const agent of agents) agent.close();
    for (const watcher of watchers) watcher.close();
  });

  async function connect(app: TestApp): Promise<FakeDevice> {
    const agent = await connectDevice(app, device.token);
    agents.push(agent);
    await agent.heartbeat();
    return agent;
  }
  async function watch(app: TestApp): Promise<DashboardClient> {
    const watcher = await connectDashboard(app, tenant.admin.token);
    watchers.push(watcher);
    return watcher;
  }
  const ask = (app: TestApp): Promise<Answer> =>
    app.call('GET', `/devices/${device.deviceId}/eventlogs/live`, { token: tenant.admin.token });
  /** From now on, without being told. */
  function answerAll(agent: FakeDevice): void {
    agent.socket.on('command', (frame: CommandFrame) => void agent.succeed(frame, LOGS).catch(() => {}));
  }
  async function answered(app: TestApp, agent: FakeDevice): Promise<number> {
    const answer = ask(app);
    await agent.succeed(await agent.nextCommand(), LOGS);
    return (await answer).status;
  }
  const lastPresence = (watcher: DashboardClient) =>
    watcher.deltas
      .flatMap(({ entered, changed }) => [...entered, ...changed])
      .filter(({ id, presence }) => id === device.deviceId && presence !== undefined)
      .at(-1)?.presence;
  const readPresence = async (app: TestApp) =>
    (await app.call('GET', `/devices/${device.deviceId}`, { token: tenant.admin.token })).body.presence;
  const alive = async () =>
    [...(await redis.ask('ZRANGE', 'muster:nodes', '0', '-1')).matchAll(/north|east|west/g)].map(String);

  it('answer for any device on any server', async () => {
    const agent = await connect(north);
    for (const app of [north, east, west]) expect(await answered(app, agent)).to.equal(200);
    agent.close();
    const elsewhere = await eventually(
      () => ask(east),
      ({ status }) => status === 409,
      SOON_MS,
    );
    expect(elsewhere.body.code).to.equal('DEVICE_OFFLINE');
  });

  it('evaluate filters over devices of all servers, and show what one missed while it was disconnected', async () => {
    const headers = { token: tenant.admin.token };
    const hasTag = (tag: string) => ({
      operator: 'AND',
      conditions: [{ field: 'tags', operator: 'hasAny', value: [tag] }],
    });
    const saved = await north.call('POST', '/filters', {
      ...headers,
      body: { orgId: tenant.orgId, name: `Tills ${device.deviceId}`, conditions: hasTag('till') },
    });
    const filterId: string = saved.body.id;
    const watcher = await watch(west);
    const shown = new Set<string>();
    watcher.socket.on('devices:delta', ({ entered, left }: DevicesDelta) => {
      for (const { id } of entered) shown.add(id);
      for (const id of left) shown.delete(id);
    });
    const ended: { code: string }[] = [];
    watcher.socket.on('devices:ended', (end: { code: string }) => ended.push(end));
    expect(await watcher.subscribe({ filterId })).to.deep.include({ ok: true, devices: [] });
    const becomes = (ids: string[]) =>
      eventually(
        () => [...shown],
        (now) => now.join() === ids.join(),
        SOON_MS,
      );
    const tag = (...tags: string[]) =>
      north.call('PATCH', `/devices/${device.deviceId}`, { ...headers, body: { tags } });
    const change = (conditions: object) =>
      east.call('PATCH', `/filters/${filterId}`, { ...headers, body: { conditions } });
    await tag('till');
    await becomes([device.deviceId]);
    await change(hasTag('desk'));
    await becomes([]);
    await proxy.cut();
    await tag('desk');
    // Nobody could tell this one.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect([...shown]).to.deep.equal([]);
    await proxy.mend();
    await becomes([device.deviceId]);
    await east.call('DELETE', `/filters/${filterId}`, headers);
    await eventually(
      () => ended.map(({ code }) => code),
      (codes) => codes.join() === 'NOT_FOUND',
      SOON_MS,
    );
  });

  it('send commands to a device of another server and cancel them there', async () => {
    await asOwner(database.ownerUrl, `update devices set capabilities = '{agent.reboot}' where id = $1`, [
      device.deviceId,
    ]);
    const agent = await connect(east);
    const { token } = tenant.admin;
    const made = await north.call('POST', `/devices/${device.deviceId}/commands`, {
      token,
      body: { type: 'agent.reboot' },
    });
    expect((await agent.nextCommand()).id).to.equal(made.body.id);
    await eventually(
      () => west.call('POST', `/commands/${made.body.id}/cancel`, { token }),
      ({ body }) => body.status === 'accepted',
      SOON_MS,
    );
    await eventually(
      () => agent.cancelled,
      (ids) => ids.includes(made.body.id),
      SOON_MS,
    );
  });

  it('show a change of a job once on every server, also after an outage of Redis', async () => {
    await asOwner(database.ownerUrl, `update devices set capabilities = '{agent.reboot}' where id = $1`, [
      device.deviceId,
    ]);
    const { token } = tenant.admin;
    const told = await Promise.all(
      [north, west].map(async (app) => {
        const watcher = await watch(app);
        const updates: JobUpdate[] = [];
        watcher.socket.on('job:update', (update: JobUpdate) => updates.push(update));
        await watcher.send('jobs:subscribe', { orgId: tenant.orgId });
        await watcher.send('jobs:subscribe', { deviceId: device.deviceId });
        return updates;
      }),
    );
    const order = async (): Promise<string> => {
      const path = `/devices/${device.deviceId}/commands`;
      const { body } = await east.call('POST', path, { token, body: { type: 'agent.reboot' } });
      return body.id;
    };
    const queuedAt = (updates: JobUpdate[], id: string) =>
      updates.filter((update) => update.id === id && update.state === 'queued').length;
    const first = await order();
    await eventually(
      () => told.map((updates) => queuedAt(updates, first)),
      (counts) => counts.every((count) => count > 0),
      SOON_MS,
    );
    expect(told.map((updates) => queuedAt(updates, first))).to.deep.equal([1, 1]);

    await redis.kill();
    // Nobody elsewhere hears of it, and nobody is harmed.
    await order();
    await redis.start();
    await eventually(alive, (nodes) => nodes.length === 3, SOON_MS);
    await eventually(
      async () => {
        const id = await order();
        await new Promise((resolve) => setTimeout(resolve, 200));
        return told.map((updates) => queuedAt(updates, id));
      },
      (counts) => counts.every((count) => count === 1),
      SOON_MS,
    );
  });

  it('show on each server what happens on the others', async () => {
    const watcher = await watch(west);
    await watcher.subscribe();
    const agent = await connect(north);
    await eventually(
      () => lastPresence(watcher),
      (presence) => presence?.state === 'connected',
      SOON_MS,
    );
    agent.close();
    await eventually(
      () => lastPresence(watcher),
      (presence) => presence?.state === 'disconnected',
      SOON_MS,
    );
    const newcomer = await buildDevice(east, tenant.orgId);
    await eventually(
      () => watcher.deltas.flatMap(({ entered }) => entered).map(({ id }) => id),
      (ids) => ids.includes(newcomer.deviceId),
      SOON_MS,
    );
    await north.call('DELETE', `/devices/${newcomer.deviceId}`, { token: tenant.admin.token });
    await eventually(
      () => watcher.deltas.flatMap(({ left }) => left),
      (ids) => ids.includes(newcomer.deviceId),
      SOON_MS,
    );
  });

  describe('send changes only to servers that show them', () => {
    let listener: Redis;
    let frames: { channel: string; kinds: string[] }[];
    const feedChannels = () =>
      frames.filter(({ kinds }) => kinds.includes('feed')).map(({ channel }) => channel);
    const jobChannels = () =>
      frames.filter(({ kinds }) => kinds.includes('jobs')).map(({ channel }) => channel);

    beforeEach(async () => {
      frames = [];
      listener = new Redis(redis.url);
      await listener.psubscribe('muster:to*');
      listener.on('pmessage', (_pattern: string, channel: string, text: string) => {
        const { messages } = JSON.parse(text) as { messages: { kind: string }[] };
        frames.push({ channel, kinds: messages.map(({ kind }) => kind) });
      });
    });
    afterEach(() => listener.disconnect());

    /** Sends heartbeats until the other servers have stopped to be sent what dashboards of earlier tests showed. */
    async function untilQuiet(agent: FakeDevice) {
      await eventually(
        async () => {
          frames = [];
          for (let count = 0; count < 3; count++) await agent.heartbeat();
          await new Promise((resolve) => setTimeout(resolve, 200));
          return feedChannels();
        },
        (channels) => channels.length === 0,
        2 * SOON_MS,
      );
    }

    it('send nothing of a device that no server shows', async () => {
      const agent = await connect(north);
      await untilQuiet(agent);
      frames = [];
      for (let count = 0; count < 50; count++) await agent.heartbeat();
      agent.close();
      await eventually(
        () => readPresence(east),
        ({ state }) => state === 'disconnected',
        SOON_MS,
      );
      expect(feedChannels()).to.deep.equal([]);
    });

    it('send nothing to a server that shows devices of another tenant', async () => {
      const agent = await connect(north);
      await untilQuiet(agent);
      const stranger = await buildTenant(north);
      const other = await connectDashboard(west, stranger.admin.token);
      watchers.push(other);
      await other.subscribe();
      const watcher = await watch(east);
      await watcher.subscribe();
      frames = [];
      for (let count = 0; count < 3; count++) await agent.heartbeat();
      await eventually(
        () => lastPresence(watcher)?.state,
        (state) => state === 'connected',
        SOON_MS,
      );
      agent.close();
      await eventually(
        () => lastPresence(watcher)?.state,
        (state) => state === 'disconnected',
        SOON_MS,
      );
      // With more than half of the others a change goes to all.
      expect([...new Set(feedChannels())]).to.not.include('muster:to:west');
      expect(other.deltas).to.deep.equal([]);
    });

    it('send jobs to the servers on which a client follows them', async () => {
      const { token } = tenant.admin;
      await asOwner(database.ownerUrl, `update devices set capabilities = '{agent.reboot}' where id = $1`, [
        device.deviceId,
      ]);
      await untilQuiet(await connect(north));
      const order = () =>
        north.call('POST', `/devices/${device.deviceId}/commands`, { token, body: { type: 'agent.reboot' } });
      await eventually(
        async () => {
          frames = [];
          const { body } = await order();
          await north.call('POST', `/commands/${body.id}/cancel`, { token });
          await new Promise((resolve) => setTimeout(resolve, 500));
          return jobChannels();
        },
        (channels) => channels.length === 0,
        2 * SOON_MS,
      );
      const watcher = await watch(east);
      const updates: JobUpdate[] = [];
      watcher.socket.on('job:update', (update: JobUpdate) => updates.push(update));
      await watcher.send('jobs:subscribe', { orgId: tenant.orgId });
      const { body } = await order();
      await eventually(
        () => updates.map(({ id }) => id),
        (ids) => ids.includes(body.id),
        SOON_MS,
      );
    });

    it('show a device rightly on a server that begins to show it while it comes and goes', async () => {
      const watched = await Promise.all(
        Array.from({ length: 12 }, async (_none, at) => {
          const { token, deviceId } = await buildDevice(north, tenant.orgId);
          const agent = await connectDevice(at % 2 === 0 ? north : west, token);
          agents.push(agent);
          return { agent, deviceId, leaves: at % 3 !== 0 };
        }),
      );
      for (const { agent } of watched) await agent.heartbeat();
      await untilQuiet(watched[0]!.agent);
      const state = new Map<string, string>();
      const views = [north, east, west].map(async (app, at) => {
        const watcher = await watch(app);
        await new Promise((resolve) => setTimeout(resolve, at * 120));
        const first = await watcher.subscribe({ orgId: tenant.orgId });
        return { watcher, first };
      });
      for (const { agent, leaves } of watched) {
        if (leaves) agent.close();
        await new Promise((resolve) => setTimeout(resolve, 30));
      }
      for (const view of views) {
        const { watcher, first } = await view;
        await eventually(
          () => {
            for (const { id, presence } of first.devices) state.set(id, presence.state);
            for (const { entered, changed } of watcher.deltas) {
              for (const { id, presence } of [...entered, ...changed]) {
                if (presence !== undefined) state.set(id, presence.state);
              }
            }
            return watched.map(({ deviceId }) => state.get(deviceId));
          },
          (states) =>
            states.every(
              (shown, at) => shown === (watched[at]?.leaves === true ? 'disconnected' : 'connected'),
            ),
          SOON_MS,
        );
        state.clear();
      }
    });
  });

  it('end the connection of a device that was decommissioned on another server', async () => {
    const agent = await connect(east);
    await north.call('DELETE', `/devices/${device.deviceId}`, { token: tenant.admin.token });
    await eventually(
      () => agent.notices.map(({ reason }) => reason),
      (reasons) => reasons.includes('decommissioned'),
      SOON_MS,
    );
  });

  it('show changes of a device record on each server, also after a move', async () => {
    const { token } = tenant.admin;
    const siteId = await buildSite(north, tenant.orgId);
    const agent = await connect(west);
    const clients = await Promise.all([north, east, west].map(watch));
    const there = await watch(east);
    await there.subscribe({ siteId });
    for (const client of clients) await client.subscribe({ siteId: device.siteId });
    const path = `/devices/${device.deviceId}`;
    await east.call('PATCH', path, { token, body: { displayName: 'Till' } });
    await eventually(
      () => clients.map(({ deltas }) => deltas.some(({ changed }) => changed[0]?.displayName === 'Till')),
      (told) => !told.includes(false),
      SOON_MS,
    );
    await north.call('POST', `${path}/move`, { token, body: { siteId } });
    await eventually(
      () => [
        agent.socket.connected,
        ...clients.map(({ deltas }) => !deltas.some(({ left }) => left.includes(device.deviceId))),
        !there.deltas.some(({ entered }) => entered[0]?.displayName === 'Till'),
      ],
      (missing) => !missing.includes(true),
      SOON_MS,
    );
    await connect(east);
  });

  it('give the device to the newest connection', async () => {
    const first = await connect(north);
    const second = await connect(east);
    await eventually(
      () => first.notices.map(({ reason }) => reason),
      (reasons) => reasons.includes('superseded'),
      SOON_MS,
    );
    expect(await answered(west, second)).to.equal(200);
    await eventually(
      () => readPresence(north),
      (presence) => presence.state === 'connected',
      SOON_MS,
    );
  });

  it('work alone while Redis is unavailable, and together when it is back', async () => {
    const agent = await connect(north);
    // Earlier tests may have lost a server for good reason.
    for (const app of [north, east, west]) app.log.length = 0;
    await redis.kill();
    // Gone, with all that it had.
    const remote = await eventually(
      () => ask(east),
      ({ status }) => status === 503,
      SOON_MS,
    );
    expect(remote.body.code).to.equal('UNAVAILABLE');
    expect(agent.socket.connected).to.equal(true);
    expect((await agent.heartbeat()).ok).to.equal(true);
    expect(await answered(north, agent)).to.equal(200);
    // A newcomer is let in, and found by the others once they can be asked.
    const first = device;
    device = await buildDeviceBefore();
    const newcomer = await connect(west);
    expect(await answered(west, newcomer)).to.equal(200);
    answerAll(newcomer);
    await redis.start();
    await eventually(alive, (nodes) => nodes.length === 3, SOON_MS);
    await eventually(
      async () => (await ask(east)).status,
      (status) => status === 200,
      SOON_MS,
    );
    device = first;
    expect(await answered(west, agent)).to.equal(200);
    for (const app of [north, east, west]) {
      expect(app.log.filter(({ event }) => event === 'cluster.node_lost')).to.deep.equal([]);
    }
  });

  /** Enrollment is closed while nobody can count the tries, so the device was made before. */
  let spare: EnrolledDevice;
  before(async () => {
    spare = await buildDevice(north, tenant.orgId);
  });
  const buildDeviceBefore = async () => spare;

  it('agree on the owner of a device that moved during an outage of Redis, in any order of announcements', async () => {
    const first = await connect(north);
    await redis.kill();
    await eventually(
      () => ask(east),
      ({ status }) => status === 503,
      SOON_MS,
    );
    const second = await connect(east);
    expect(first.socket.connected).to.equal(true);
    await redis.start();
    await eventually(
      () => first.notices.map(({ reason }) => reason),
      (reasons) => reasons.includes('superseded'),
      SOON_MS,
    );
    answerAll(second);
    await eventually(
      async () => [(await ask(north)).status, (await ask(west)).status],
      (statuses) => statuses.every((status) => status === 200),
      SOON_MS,
    );
  });

  it('find a device if it is, although Redis returns with an old snapshot that has it elsewhere', async () => {
    const before = await connect(north);
    await redis.takeSnapshot();
    before.socket.disconnect();
    const agent = await connect(east);
    answerAll(agent);
    await eventually(
      async () => (await ask(west)).status,
      (status) => status === 200,
      SOON_MS,
    );
    await redis.kill();
    await redis.start('snapshot');
    await eventually(alive, (nodes) => nodes.length === 3, SOON_MS);
    for (const app of [west, north, east]) {
      await eventually(
        async () => (await ask(app)).status,
        (status) => status === 200,
        SOON_MS,
      );
    }
    expect(agent.socket.connected).to.equal(true);
    expect(agent.notices).to.deep.equal([]);
    await eventually(
      () => readPresence(west),
      ({ state }) => state === 'connected',
      SOON_MS,
    );
    expect((await agent.heartbeat()).ok).to.equal(true);
  });

  it('mark no devices as lost when a server starts that cannot see the live nodes', async () => {
    const agent = await connect(north);
    await eventually(
      () => readPresence(north),
      (presence) => presence.state === 'connected',
      SOON_MS,
    );
    const alone = await start('alone', 'redis://127.0.0.1:1');
    expect(await readPresence(alone)).to.include({ state: 'connected' });
    await alone.close();
    agent.close();
  });

  it('find devices of a server that was lost while no other was running', async () => {
    const stray = await buildDevice(north, tenant.orgId);
    await asOwner(
      database.ownerUrl,
      `insert into device_presence (device_id, org_id, epoch, node_id, state, since, reason)
      values ($1, $2, 1, 'long-gone', 'connected', now() - interval '1 hour', 'connected')`,
      [stray.deviceId, tenant.orgId],
    );
    const late = await start('late');
    await eventually(
      async () =>
        (await north.call('GET', `/devices/${stray.deviceId}`, { token: tenant.admin.token })).body.presence,
      (presence) => presence.reason === 'node_lost',
      SOON_MS,
    );
    await late.close();
  });

  it('find a device that connected during a short network failure', async () => {
    await proxy.cut();
    const agent = await connect(west);
    answerAll(agent);
    await proxy.mend();
    await eventually(
      async () => (await ask(north)).status,
      (status) => status === 200,
      SOON_MS,
    );
  });

  it('continue when one of them is cut off, and include it again when it is back', async () => {
    const agent = await connect(north);
    const cutOff = await buildDevice(north, tenant.orgId);
    const far = await connectDevice(west, cutOff.token);
    agents.push(far);
    for (const app of [north, east]) app.log.length = 0;
    await proxy.cut();
    expect(await answered(east, agent)).to.equal(200);
    await eventually(
      () => [north, east].map((app) => app.log.some(({ lostNodeId }) => lostNodeId === 'west')),
      (told) => told.every(Boolean),
      SOON_MS,
    );
    expect((await far.heartbeat()).ok).to.equal(true);
    answerAll(far);
    await proxy.mend();
    await eventually(alive, (nodes) => nodes.includes('west'), SOON_MS);
    const asked = device;
    device = cutOff;
    await eventually(
      async () => (await ask(north)).status,
      (status) => status === 200,
      SOON_MS,
    );
    // What the others had said of it in the meantime is put right, before it says anything itself.
    await eventually(
      () => readPresence(north),
      (presence) => presence.state === 'connected',
      SOON_MS,
    );
    device = asked;
  });

  it('report the devices of a lost server as lost', async () => {
    const leaving = await start('south');
    const watcher = await watch(north);
    await watcher.subscribe();
    const agent = await connect(leaving);
    await eventually(
      () => readPresence(north),
      (presence) => presence.state === 'connected',
      SOON_MS,
    );
    // As after a kill -9: its lease ends by itself, and its socket is gone.
    const pending = ask(north);
    await agent.nextCommand();
    await redis.ask('ZREM', 'muster:nodes', 'south');
    await redis.ask('SET', 'marker', '1');
    await leaving.close();
    expect((await pending).status).to.equal(409);
    await eventually(
      () => readPresence(north),
      (presence) => presence.state === 'disconnected',
      SOON_MS,
    );
  });

  it('survive anything that is published on their channels', async () => {
    const agent = await connect(north);
    for (const junk of [
      '{',
      '[]',
      '{"from":1}',
      '{"from":"east","messages":[{"kind":"nonsense"}]}',
      'x'.repeat(9000),
    ]) {
      for (const channel of ['muster:to-all', 'muster:to:north', ...ADAPTER_CHANNELS]) {
        await redis.ask('PUBLISH', channel, junk);
      }
    }
    const watcher = await watch(north);
    const heard: unknown[] = [];
    watcher.socket.onAny((event: string) => heard.push(event));
    const forged = { type: 2, nsp: '/dashboard', data: ['eventlogs:end', {}] };
    for (const channel of ADAPTER_CHANNELS) {
      await redis.ask(
        'PUBLISH',
        channel,
        JSON.stringify(['zz', forged, { rooms: [watcher.socket.id], except: [] }]),
      );
      await redis.ask('PUBLISH', channel, JSON.stringify({ type: 7, uid: 'zz', nsp: '/dashboard' }));
    }
    expect(await answered(east, agent)).to.equal(200);
    expect(await answered(north, agent)).to.equal(200);
    expect(heard).to.deep.equal([]);
  });

  it('refuse to share a node id', async () => {
    const refused = await start('north').then(
      async (app) => app.close().then(() => 'started'),
      (error: Error) => error.message,
    );
    expect(refused).to.equal(
      'NODE_ID north belongs to another server that is running. Give each server one of its own.',
    );
  });
});
