import { expect } from 'chai';
import type { CommandFrame } from '../../../../src/protocol/index.ts';
import { bucketOf } from '../../../../src/platform/cluster/redis-claims.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice, PASSWORD } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { REDIS_GROUPS, type RedisGroup } from '../../../support/redis-groups.ts';
import { call, createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

/** What servers owe each other on any Redis; the rest is in redis-cluster.test.ts, on one Redis. */

const SOON_MS = 40_000;
const LOGS = { logs: [] };

for (const { kind, startOrSkip } of REDIS_GROUPS) {
  describe(`two servers on ${kind}`, function () {
    this.timeout(120_000);
    let redis: RedisGroup;
    let database: TestDatabase;
    let north: TestApp;
    let south: TestApp;
    let tenant: Awaited<ReturnType<typeof buildTenant>>;
    let device: EnrolledDevice;
    let agents: FakeDevice[];
    let watchers: DashboardClient[];

    const start = (nodeId: string) =>
      createTestApp({ database, env: { REDIS_URL: redis.url, NODE_ID: nodeId } });

    before(async function () {
      redis = await startOrSkip(this);
      database = await createTestDatabase();
      [north, south] = await Promise.all([start('north'), start('south')]);
      tenant = await buildTenant(north);
    });
    after(async () => {
      await Promise.all([north, south].map((app) => app?.close()));
      await database?.drop();
      await redis?.remove();
    });
    beforeEach(async () => {
      [agents, watchers] = [[], []];
      device = await buildDevice(north, tenant.orgId);
    });
    afterEach(() => {
      for (const agent of agents) agent.close();
      for (const watcher of watchers) watcher.close();
    });

    async function connect(app: TestApp, { token } = device): Promise<FakeDevice> {
      const agent = await connectDevice(app, token);
      agents.push(agent);
      agent.socket.on('command', (frame: CommandFrame) => void agent.succeed(frame, LOGS).catch(() => {}));
      await agent.heartbeat();
      return agent;
    }
    async function watch(app: TestApp): Promise<DashboardClient> {
      const watcher = await connectDashboard(app, tenant.admin.token);
      watchers.push(watcher);
      await watcher.subscribe();
      return watcher;
    }
    const ask = async (app: TestApp, { deviceId } = device) =>
      (await app.call('GET', `/devices/${deviceId}/eventlogs/live`, { token: tenant.admin.token })).status;
    const asked = (app: TestApp, of = device) =>
      eventually(
        () => ask(app, of),
        (status) => status === 200,
        SOON_MS,
      );
    const shows = (watcher: DashboardClient, state: string) =>
      eventually(
        () =>
          watcher.deltas
            .flatMap(({ entered, changed }) => [...entered, ...changed])
            .filter(({ id, presence }) => id === device.deviceId && presence !== undefined)
            .at(-1)?.presence?.state,
        (now) => now === state,
        SOON_MS,
      );
    const ready = async (app: TestApp) => {
      const { status, body } = await call(`${app.url}/health/ready`, 'GET');
      return [status, body.checks.redis].join(' ');
    };
    const crossSlots = () =>
      [north, south].flatMap(({ log }) => log).filter((line) => JSON.stringify(line).includes('CROSSSLOT'));

    it('show, ask and command devices of each other', async () => {
      await asOwner(database.ownerUrl, `update devices set capabilities = '{agent.reboot}' where id = $1`, [
        device.deviceId,
      ]);
      const watcher = await watch(south);
      const agent = await connect(north);
      await shows(watcher, 'connected');
      expect(await ask(south)).to.equal(200);
      expect(await ask(north)).to.equal(200);
      const commands: string[] = [];
      agent.socket.on('command', ({ id, type }: CommandFrame) => {
        if (type === 'agent.reboot') commands.push(id);
      });
      const { body } = await south.call('POST', `/devices/${device.deviceId}/commands`, {
        token: tenant.admin.token,
        body: { type: 'agent.reboot' },
      });
      await eventually(
        () => commands,
        (ids) => ids.includes(body.id),
        SOON_MS,
      );
      agent.close();
      await shows(watcher, 'disconnected');
      await eventually(
        () => ask(south),
        (status) => status === 409,
        SOON_MS,
      );
    });

    it('end the connection of a device that was decommissioned at the other', async () => {
      const agent = await connect(north);
      await south.call('DELETE', `/devices/${device.deviceId}`, { token: tenant.admin.token });
      await eventually(
        () => agent.notices.map(({ reason }) => reason),
        (reasons) => reasons.includes('decommissioned'),
        SOON_MS,
      );
    });

    it('give the device to the newest connection', async () => {
      const first = await connect(north);
      await connect(south);
      await eventually(
        () => first.notices.map(({ reason }) => reason),
        (reasons) => reasons.includes('superseded'),
        SOON_MS,
      );
      expect(await ask(north)).to.equal(200);
    });

    it('answer for many devices at once, whichever servers of Redis have their claims', async () => {
      const many = await Promise.all(Array.from({ length: 30 }, () => buildDevice(north, tenant.orgId)));
      for (const one of many) await connect(south, one);
      const statuses = await Promise.all(many.map((one) => ask(north, one)));
      expect(statuses).to.deep.equal(many.map(() => 200));
    });

    it('count sign-ins together', async () => {
      const statuses = [];
      for (let n = 0; n < 12; n++) {
        const { status } = await (n % 2 === 0 ? north : south).call('POST', '/auth/login', {
          body: { email: tenant.technician.email, password: `not ${PASSWORD}` },
        });
        statuses.push(status);
      }
      expect(statuses).to.deep.equal([...Array(10).fill(401), 429, 429]);
    });

    it('show the devices of a server as lost that has ended', async () => {
      const leaving = await start('leaving');
      const watcher = await watch(north);
      await connect(leaving);
      await shows(watcher, 'connected');
      // As after a kill -9: its lease ends by itself, and its socket is gone.
      await redis.ask(await redis.masterOf('muster:nodes'), 'ZREM', 'muster:nodes', 'leaving');
      await leaving.close();
      await shows(watcher, 'disconnected');
    });

    it('survive anything that is published on their channels', async () => {
      await connect(north);
      for (const junk of [
        '{',
        '[]',
        '{"from":1}',
        '{"from":"south","messages":[{"kind":"nonsense"}]}',
        'x'.repeat(9000),
      ]) {
        for (const channel of ['muster:to-all', 'muster:to:north']) {
          const port = await redis.masterOf(channel);
          for (const publish of ['PUBLISH', 'SPUBLISH']) await redis.ask(port, publish, channel, junk);
        }
      }
      expect(await ask(south)).to.equal(200);
    });

    it('keep their devices while a master of Redis is lost, and find all of them again by themselves', async () => {
      const others = await Promise.all(Array.from({ length: 20 }, () => buildDevice(north, tenant.orgId)));
      const held = [await connect(north)];
      for (const one of others) held.push(await connect(north, one));
      const newcomer = await buildDevice(north, tenant.orgId);
      const watcher = await watch(south);
      await asked(south);
      for (const app of [north, south]) app.log.length = 0;
      const key = `muster:{devices:${bucketOf(device.deviceId)}}:claims`;
      const port = await redis.masterOf(key);
      await redis.kill(port);
      await eventually(
        () => Promise.all([north, south].map(ready)),
        (states) => states.every((state) => state === '200 unavailable'),
        SOON_MS,
      );
      // It is let in, whether the server that has its claim is there or not.
      held.push(await connect(north, newcomer));
      await eventually(
        () => Promise.all([north, south].map(ready)),
        (states) => states.every((state) => state === '200 ok'),
        SOON_MS,
      );
      for (const one of [device, ...others, newcomer]) await asked(south, one);
      expect(held.map(({ socket }) => socket.connected)).to.deep.equal(held.map(() => true));
      watcher.deltas.length = 0;
      held[0]?.close();
      await shows(watcher, 'disconnected');
      await eventually(
        async () =>
          (
            await north.call('POST', '/auth/login', {
              body: { email: tenant.admin.email, password: PASSWORD },
            })
          ).status,
        (status) => status === 200,
        SOON_MS,
      );
      for (const app of [north, south]) {
        const events = app.log.map(({ event }) => event);
        expect(events.filter((event) => event === 'redis.lost')).to.deep.equal(['redis.lost']);
        expect(events).to.include('redis.regained');
        expect(events).not.to.include('cluster.node_lost');
        expect(app.log.filter(({ level }) => level === 'error')).to.deep.equal([]);
      }
      expect(crossSlots()).to.deep.equal([]);
      await redis.start(port);
      await asked(south, newcomer);
    });

    it('find a device that connected while no server of Redis answered', async () => {
      const ports = await redis.masters();
      await Promise.all(ports.map((port) => redis.kill(port)));
      await eventually(
        () => Promise.all([north, south].map(ready)),
        (states) => states.every((state) => state === '200 unavailable'),
        SOON_MS,
      );
      await connect(north);
      expect(await ask(north)).to.equal(200);
      expect(await ask(south)).to.equal(503);
      await Promise.all(ports.map((port) => redis.start(port)));
      await asked(south);
      expect(crossSlots()).to.deep.equal([]);
    });
  });
}
