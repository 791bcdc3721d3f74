import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { redisOrSkip, type TestRedis } from '../../../support/redis.ts';
import { type OwnPostgres, startOwnPostgres } from './support/own-postgres.ts';
import type { ServerProgram } from './support/server-program.ts';
import { setStage, type Stage } from './support/stage.ts';
import { DONE_ONCE } from './support/work.ts';

const SOON_MS = 60_000;

describe('two servers whose Postgres is stopped and started', function () {
  this.timeout(120_000);
  let redis: TestRedis;
  let postgres: OwnPostgres;
  let stage: Stage;
  let south: ServerProgram;
  let fake: FakeDevice | undefined;

  before(async function () {
    redis = await redisOrSkip(this);
    postgres = await startOwnPostgres();
    // A busy machine must not make servers let go of agents for their silence.
    stage = await setStage({ database: postgres, redisUrl: redis.url, heartbeatSeconds: 10 });
    south = await stage.startServer('south');
    await stage.noteRest();
  });
  afterEach(async () => {
    fake?.close();
    await stage.clear();
  });
  after(async () => {
    await stage?.close();
    await postgres?.remove();
    await redis?.remove();
  });

  it('answer heartbeats meanwhile, and get the results of what ended meanwhile', async () => {
    const { north } = stage;
    const [device, other] = [await stage.enroll(north), await stage.enroll(north)];
    const work = await stage.work();
    const agent = await stage.startAgent(device);
    await stage.isAt(north, device.deviceId);
    fake = await connectDevice(south, other.token);
    await stage.isAt(south, other.deviceId);
    const since = await stage.presence(device.deviceId);
    // Two run when the database goes; two wait for them.
    for (let count = 0; count < 4; count++) await work.order(south, device.deviceId, { held: count < 2 });
    await eventually(
      () => work.states(),
      (states) => states.filter((state) => state === 'running').length === 2,
      SOON_MS,
    );

    await postgres.stop();
    await work.effects.openGate();
    // The results come, and are refused: nobody can keep them.
    await eventually(
      () => north.log(),
      (lines) => lines.some(({ event }) => event === 'commands.not_recorded'),
      SOON_MS,
    );
    for (let count = 0; count < 3; count++) {
      const answer = await fake.heartbeat();
      expect(answer.ok).to.equal(true);
    }
    await eventually(
      () => [north, south].map((server) => server.log()),
      (logs) => logs.every((lines) => lines.some(({ event }) => event === 'hub.presence_not_written')),
      SOON_MS,
    );
    const questions = await north.call('GET', `/devices/${device.deviceId}/eventlogs/live`, {
      token: stage.token,
    });
    expect(questions.status, 'people are told').to.be.within(500, 503);
    expect(agent.output(), 'the agent has stayed').not.to.contain('"waiting"');

    await postgres.start();
    const all = Array.from({ length: 4 }, () => DONE_ONCE);
    expect(await work.results()).to.deep.equal(all);
    expect(agent.output(), 'the agent has stayed').not.to.contain('"waiting"');
    expect(await stage.presence(device.deviceId)).to.deep.equal(since);
    await work.order(south, device.deviceId);
    expect(await work.results()).to.deep.equal([...all, DONE_ONCE]);
  });

  it('let agents in again that came while it was away', async () => {
    const { north, door } = stage;
    const device = await stage.enroll(north);
    const work = await stage.work();
    await work.order(north, device.deviceId);
    await postgres.stop();
    door.to(south);
    const agent = await stage.startAgent(device);
    await eventually(
      () => agent.output(),
      (text) => text.includes('BUSY'),
      SOON_MS,
    );
    await postgres.start();
    await stage.isAt(south, device.deviceId);
    expect(await work.results()).to.deep.equal([DONE_ONCE]);
  });

  it('lose no result that one of them had heard, and could not keep before it was killed', async () => {
    const { north, door } = stage;
    door.to(north);
    const device = await stage.enroll(south);
    const work = await stage.work();
    await stage.startAgent(device);
    await stage.isAt(north, device.deviceId);
    await work.order(south, device.deviceId, { held: true });
    await work.order(south, device.deviceId, { held: true });
    await eventually(
      () => work.states(),
      (states) => states.every((state) => state === 'running'),
      SOON_MS,
    );
    await postgres.stop();
    const refusals = () => north.log().filter(({ event }) => event === 'commands.not_recorded').length;
    const before = refusals();
    await work.effects.openGate();
    await eventually(refusals, (count) => count > before, SOON_MS);
    door.to(south);
    await north.kill();
    await postgres.start();
    await stage.isAt(south, device.deviceId);
    expect(await work.results()).to.deep.equal([DONE_ONCE, DONE_ONCE]);
  });

  it('leave nothing open, and no work that goes on changing', () => stage.expectNothingLeft());
});
