import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { redisOrSkip, type TestRedis } from '../../../support/redis.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';
import { createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';
import type { ServerProgram } from './support/server-program.ts';
import { setStage, type Stage } from './support/stage.ts';
import { DONE_ONCE, type Work } from './support/work.ts';

/** Not the 30 s that a question may take. */
const AT_ONCE_MS = 20_000;
const SOON_MS = 60_000;

describe('two servers whose Redis fails', function () {
  this.timeout(120_000);
  let redis: TestRedis;
  let database: TestDatabase;
  let proxy: TcpProxy;
  let stage: Stage;
  let south: ServerProgram;
  let work: Work;
  /** Of the device at each. */
  let atNorth: string;
  let atSouth: string;

  before(async function () {
    redis = await redisOrSkip(this);
    database = await createTestDatabase();
    const { hostname, port } = new URL(redis.url);
    proxy = await startTcpProxy({ host: hostname, port: Number(port) });
    stage = await setStage({ database, redisUrl: redis.url });
    // Between this one and Redis, the network can fail.
    south = await stage.startServer('south', `redis://127.0.0.1:${proxy.port}`);
    await stage.noteRest();
  });
  beforeEach(async () => {
    const { north } = stage;
    const devices = [await stage.enroll(north), await stage.enroll(north)] as const;
    [atNorth, atSouth] = [devices[0].deviceId, devices[1].deviceId];
    work = await stage.work();
    await stage.startAgent(devices[0], north);
    await stage.startAgent(devices[1], south);
    await stage.isAt(north, atNorth);
    await stage.isAt(south, atSouth);
  });
  afterEach(() => stage.clear());
  after(async () => {
    await stage?.close();
    await proxy?.cut();
    await database?.drop();
    await redis?.remove();
  });

  /** The status of a live question, which must not have taken long. */
  async function ask(server: ServerProgram, deviceId: string): Promise<number> {
    const askedAt = Date.now();
    const { token } = stage;
    const { status } = await server.call('GET', `/devices/${deviceId}/eventlogs/live`, { token });
    expect(Date.now() - askedAt, 'until the answer').to.be.below(AT_ONCE_MS);
    return status;
  }
  const becomes = (status: number, server: ServerProgram, deviceId: string) =>
    eventually(
      () => ask(server, deviceId),
      (now) => now === status,
      SOON_MS,
    );
  const lastSeen = async (server: ServerProgram, deviceId: string): Promise<string> =>
    (await server.call('GET', `/devices/${deviceId}`, { token: stage.token })).body.lastSeenAt;
  async function expectHeartbeats(server: ServerProgram, deviceId: string): Promise<void> {
    const until = await lastSeen(server, deviceId);
    await eventually(
      () => lastSeen(server, deviceId),
      (at) => at > until,
      SOON_MS,
    );
  }
  async function expectAllDone(orders: number): Promise<void> {
    const all = Array.from({ length: orders }, () => DONE_ONCE);
    expect(await work.results()).to.deep.equal(all);
    for (const [server, deviceId] of [
      [stage.north, atNorth],
      [south, atSouth],
    ] as const) {
      // The one that was cut off says again what it holds, and that is written behind.
      await eventually(
        () => stage.presence(deviceId),
        ({ state, node_id: nodeId }) => state === 'connected' && nodeId === server.nodeId,
        SOON_MS,
      );
    }
  }

  it('go on each by itself while it is gone, say at once what they cannot do, and heal by themselves', async () => {
    const { north } = stage;
    await work.order(north, atNorth, { held: true });
    await eventually(
      () => work.effects.happened(),
      (ids) => ids.length === 1,
      SOON_MS,
    );
    await redis.kill();
    await becomes(503, north, atSouth);
    expect(await ask(south, atNorth)).to.equal(503);
    expect(await ask(north, atNorth)).to.equal(200);
    expect(await ask(south, atSouth)).to.equal(200);
    await work.order(north, atNorth);
    await work.order(south, atSouth);
    await expectHeartbeats(north, atNorth);
    await work.effects.openGate();
    expect(await work.results()).to.deep.equal([DONE_ONCE, DONE_ONCE, DONE_ONCE]);
    // For a device at the other one: it waits, and is not forgotten.
    await work.order(south, atNorth);

    await redis.start();
    await becomes(200, north, atSouth);
    await becomes(200, south, atNorth);
    for (const server of [north, south]) {
      expect(server.log().filter(({ event }) => event === 'cluster.node_lost')).to.deep.equal([]);
    }
    await expectAllDone(4);
  });

  it('go on if one is cut off from it, which comes back when the network is mended', async () => {
    const { north } = stage;
    await work.order(south, atSouth, { held: true });
    await eventually(
      () => work.effects.happened(),
      (ids) => ids.length === 1,
      SOON_MS,
    );
    await proxy.cut();
    await becomes(503, south, atNorth);
    await becomes(409, north, atSouth);
    expect(await ask(north, atNorth)).to.equal(200);
    expect(await ask(south, atSouth)).to.equal(200);
    await work.order(north, atNorth);
    await work.order(south, atSouth);
    await expectHeartbeats(south, atSouth);
    await work.effects.openGate();
    expect(await work.results()).to.deep.equal([DONE_ONCE, DONE_ONCE, DONE_ONCE]);
    // Nobody can tell the cut off server of this; the device is connected there all the while.
    await work.order(north, atSouth);

    await proxy.mend();
    await becomes(200, north, atSouth);
    await becomes(200, south, atNorth);
    await expectAllDone(4);
  });

  it('leave nothing open, and no work that goes on changing', () => stage.expectNothingLeft());
});
