import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { redisOrSkip, type TestRedis } from '../../../support/redis.ts';
import { createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';
import { levelsOf } from './support/levels.ts';
import type { ServerProgram } from './support/server-program.ts';
import { setStage, type Stage } from './support/stage.ts';
import { DONE_ONCE } from './support/work.ts';

const AT_ONCE_MS = 20_000;
const SOON_MS = 60_000;

describe('a server that stands still for a while', function () {
  this.timeout(120_000);
  let redis: TestRedis;
  let database: TestDatabase;
  let stage: Stage;
  let south: ServerProgram;
  let mute: FakeDevice | undefined;

  before(async function () {
    redis = await redisOrSkip(this);
    database = await createTestDatabase();
    // Long enough that the server does not let go of its agents by itself, for their silence while it stood still.
    stage = await setStage({ database, redisUrl: redis.url, heartbeatSeconds: 60 });
    south = await stage.startServer('south');
    await stage.noteRest();
  });
  afterEach(async () => {
    mute?.close();
    stage.north.thaw();
    await stage.clear();
  });
  after(async () => {
    await stage?.close();
    await database?.drop();
    await redis?.remove();
  });

  const losses = () => south.log().filter(({ event }) => event === 'cluster.node_lost').length;
  const isBack = () =>
    eventually(
      () => south.metrics(),
      (metrics) => metrics.includes('muster_cluster_nodes 2'),
      SOON_MS,
    );

  it('loses its agents to the other one, and lets go of them when it goes on', async () => {
    const { north, door, token } = stage;
    const [device, silent] = [await stage.enroll(north), await stage.enroll(north)];
    const work = await stage.work();

    const agent = await stage.startAgent(device);
    mute = await connectDevice(north, silent.token);
    await Promise.all([device, silent].map(({ deviceId }) => stage.isAt(north, deviceId)));
    for (let count = 0; count < 4; count++) await work.order(south, device.deviceId, { held: count < 2 });
    await eventually(
      () => work.effects.happened(),
      (ids) => ids.length === 2,
      SOON_MS,
    );
    const asked = south.call('GET', `/devices/${silent.deviceId}/eventlogs/live`, { token });
    await eventually(
      () => levelsOf(south),
      ({ questions }) => questions === 1,
      SOON_MS,
    );

    // What it has just heard is not in the database yet.
    await mute.heartbeat();
    const frozenAt = Date.now();
    north.freeze();
    door.to(south);
    const stranded = door.strand();
    const answer = await asked;
    expect(Date.now() - frozenAt, 'until the question failed').to.be.below(AT_ONCE_MS);
    expect([answer.status, answer.body.code]).to.deep.equal([409, 'DEVICE_OFFLINE']);
    mute.close();
    mute = await connectDevice(south, silent.token);
    await Promise.all([device, silent].map(({ deviceId }) => stage.isAt(south, deviceId)));
    await work.effects.openGate();
    expect(await work.results()).to.deep.equal(Array.from({ length: 4 }, () => DONE_ONCE));

    north.thaw();
    await eventually(
      () => stranded.said(),
      (text) => text.includes('"superseded"'),
      SOON_MS,
    );
    stranded.gone();
    await eventually(
      () => levelsOf(north),
      ({ agents, sockets, unwritten }) => agents === 0 && sockets === 0 && unwritten === 0,
      SOON_MS,
    );
    await isBack();
    // What it wrote when it went on was out of date, and changed nothing.
    for (const { deviceId } of [device, silent]) {
      expect(await stage.presence(deviceId)).to.deep.equal({
        state: 'connected',
        reason: 'connected',
        node_id: 'south',
      });
    }
    await work.order(north, device.deviceId);
    const all = Array.from({ length: 5 }, () => DONE_ONCE);
    expect(await work.results()).to.deep.equal(all);

    await agent.kill();
  });

  it('is not missed by the agents and the work of the other one', async () => {
    const { north, door, token } = stage;
    door.to(south);
    const device = await stage.enroll(south);
    const work = await stage.work();
    const agent = await stage.startAgent(device);
    await stage.isAt(south, device.deviceId);
    await work.order(north, device.deviceId, { held: true });
    await eventually(
      () => work.effects.happened(),
      (ids) => ids.length === 1,
      SOON_MS,
    );
    const connectedSince = (await south.call('GET', `/devices/${device.deviceId}`, { token })).body.presence;

    const before = losses();
    north.freeze();
    await work.order(south, device.deviceId);
    const asked = await south.call('GET', `/devices/${device.deviceId}/eventlogs/live`, { token });
    expect(asked.status).to.equal(200);
    await eventually(losses, (count) => count > before, SOON_MS);
    await work.order(south, device.deviceId);
    await work.effects.openGate();
    const all = Array.from({ length: 3 }, () => DONE_ONCE);
    expect(await work.results()).to.deep.equal(all);

    north.thaw();
    await isBack();
    const fromNorth = await eventually(
      () => north.call('GET', `/devices/${device.deviceId}/eventlogs/live`, { token }),
      ({ status }) => status === 200,
      SOON_MS,
    );
    expect(fromNorth.body.data).to.be.an('array');
    // One connection all the while.
    const shown = (await south.call('GET', `/devices/${device.deviceId}`, { token })).body.presence;
    expect(shown).to.deep.equal(connectedSince);
    expect(agent.output()).not.to.contain('"waiting"');

    await agent.kill();
  });

  it('leaves nothing open, and no work that goes on changing', () => stage.expectNothingLeft());
});
