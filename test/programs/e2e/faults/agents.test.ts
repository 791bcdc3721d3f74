import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { redisOrSkip, type TestRedis } from '../../../support/redis.ts';
import { createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';
import { type Levels, levelsOf } from './support/levels.ts';
import type { ServerProgram } from './support/server-program.ts';
import { setStage, type Stage } from './support/stage.ts';
import { DONE_ONCE } from './support/work.ts';

const SOON_MS = 60_000;

describe('agents that are killed, and agents that are two', function () {
  this.timeout(120_000);
  let redis: TestRedis;
  let database: TestDatabase;
  let stage: Stage;
  let south: ServerProgram;
  let fakes: FakeDevice[];

  before(async function () {
    redis = await redisOrSkip(this);
    database = await createTestDatabase();
    // Long enough that no server lets go of an agent by itself, for its silence.
    stage = await setStage({ database, redisUrl: redis.url, heartbeatSeconds: 60 });
    south = await stage.startServer('south');
    await stage.noteRest();
  });
  beforeEach(async () => {
    fakes = [];
  });
  afterEach(async () => {
    for (const fake of fakes) fake.close();
    await stage.clear();
  });
  after(async () => {
    await stage?.close();
    await database?.drop();
    await redis?.remove();
  });

  it('end a command once that had its effect and no result, and do not begin it again', async () => {
    const device = await stage.enroll(stage.north);
    const work = await stage.work();
    const agent = await stage.startAgent(device);
    await stage.isAt(stage.north, device.deviceId);
    // Two have had their effect and have not ended; the third has not begun.
    const [first] = [
      await work.order(south, device.deviceId, { held: true }),
      await work.order(south, device.deviceId, { held: true }),
      await work.order(south, device.deviceId),
    ];
    await eventually(
      () => work.effects.happened(),
      (ids) => ids.length === 2,
      SOON_MS,
    );
    await agent.kill();
    agent.startAgain();

    const interrupted = { ends: ['failed'], effects: 1 };
    const all = [interrupted, interrupted, DONE_ONCE];
    expect(await work.results()).to.deep.equal(all);
    const told = await south.call('GET', `/commands/${first}`, { token: stage.token });
    expect(told.body.error.code).to.equal('INTERRUPTED');
    // The scripts that outlived their agent end now; what they did is not told twice.
    await work.effects.openGate();
    await agent.kill();
  });

  it('do not do again what they have, if their receipt was lost on its way', async () => {
    const { north, door, token } = stage;
    door.to(north);
    const device = await stage.enroll(north);
    const work = await stage.work();
    await stage.startAgent(device);
    await stage.isAt(north, device.deviceId);
    door.lose('of clients');
    // They still run when they are sent again: a result that came first would be instead of that.
    const ids = [
      await work.order(south, device.deviceId, { held: true }),
      await work.order(south, device.deviceId, { held: true }),
    ];
    await eventually(
      () => work.effects.happened(),
      (effects) => effects.length === 2,
      SOON_MS,
    );
    // Nobody but the agent knows that it has them.
    expect(await work.states()).to.deep.equal(['dispatched', 'dispatched']);
    // An agent that connects again reports what it runs. A server that has heard this does not send it again.
    door.to(south, { delayMs: 2000 });
    door.strand().gone();
    for (const id of ids) {
      await eventually(
        async () => (await south.call('GET', `/commands/${id}`, { token })).body.attempt as number,
        (attempt) => attempt === 2,
        SOON_MS,
      );
    }
    await work.effects.openGate();
    expect(await work.results()).to.deep.equal([DONE_ONCE, DONE_ONCE]);
  });

  it('tell a result again of which they do not know that it was kept, and it counts once', async () => {
    const { north, door, token } = stage;
    door.to(north);
    const device = await stage.enroll(north);
    const work = await stage.work();
    await stage.startAgent(device);
    await stage.isAt(north, device.deviceId);
    const id = await work.order(south, device.deviceId, { held: true });
    const read = async () => (await south.call('GET', `/commands/${id}`, { token })).body;
    await eventually(read, ({ status }) => status === 'running', SOON_MS);
    door.lose('of servers');
    await work.effects.openGate();
    const kept = await eventually(read, ({ status }) => status === 'succeeded', SOON_MS);
    door.to(south);
    door.strand().gone();
    await stage.isAt(south, device.deviceId);
    // Behind the result, which is the first that it says there.
    await work.order(south, device.deviceId);
    expect(await work.results()).to.deep.equal([DONE_ONCE, DONE_ONCE]);
    expect(await read()).to.deep.equal(kept);
  });

  it('do what they have accepted once, however often they are killed meanwhile', async () => {
    const device = await stage.enroll(stage.north);
    const work = await stage.work();
    const agent = await stage.startAgent(device);
    const { length } = await Promise.all(
      Array.from({ length: 12 }, () => work.order(stage.north, device.deviceId)),
    );
    for (let kills = 1; kills <= 3; kills++) {
      await eventually(
        () => work.effects.happened(),
        (ids) => ids.length >= 2 * kills,
        SOON_MS,
      );
      await agent.kill();
      agent.startAgain();
    }
    const results = await work.results();
    expect(results).to.have.length(length);
    // Which of them a kill has met is chance: such a one has failed, and its effect has happened or never will.
    for (const { ends, effects } of results) {
      expect(ends).to.have.length(1);
      expect([ends[0], effects]).to.be.deep.oneOf([
        ['succeeded', 1],
        ['failed', 1],
        ['failed', 0],
      ]);
    }
    await agent.kill();
  });

  it('of one device that come to two servers at once leave one connection, the newest', async () => {
    const { north } = stage;
    const device = await stage.enroll(north);
    const isOne = (levels: Levels[]) => levels.reduce((sum, { agents }) => sum + agents, 0) === 1;
    for (let round = 0; round < 10; round++) {
      const both = await Promise.all([north, south].map((server) => connectDevice(server, device.token)));
      fakes.push(...both);
      await eventually(() => Promise.all([levelsOf(north), levelsOf(south)]), isOne, SOON_MS);
      const [left] = await eventually(
        () => both.filter(({ socket }) => socket.connected),
        ({ length }) => length === 1,
        SOON_MS,
      );
      expect((await left?.heartbeat())?.ok).to.equal(true);
      for (const fake of fakes.splice(0)) fake.close();
    }
  });

  it('of one device that are two programs: one stays, and it does the work once', async () => {
    const { north } = stage;
    const device = await stage.enroll(north);
    const work = await stage.work();
    const two = await Promise.all([north, south].map((server) => stage.startAgent(device, server)));
    const isSentAway = ({ output }: { output(): string }) =>
      output().includes('The server refused the connection: IDENTITY_CONFLICT');
    await eventually(
      () => two.filter(isSentAway).length,
      (count) => count === 1,
      SOON_MS,
    );
    await Promise.all([north, south, north, south].map((server) => work.order(server, device.deviceId)));
    const all = Array.from({ length: 4 }, () => DONE_ONCE);
    expect(await work.results()).to.deep.equal(all);
    expect(two.filter(isSentAway), 'the other one stays away').to.have.length(1);
    await Promise.all(two.map((agent) => agent.kill()));
  });

  it('leave nothing open, and no work that goes on changing', () => stage.expectNothingLeft());
});
