import { expect } from 'chai';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { redisOrSkip, type TestRedis } from '../../../support/redis.ts';
import { createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';
import { levelsOf } from './support/levels.ts';
import type { ServerProgram } from './support/server-program.ts';
import { setStage, type Stage } from './support/stage.ts';
import { DONE_ONCE } from './support/work.ts';

/** A question takes 30 s where nobody notices that it cannot be answered; a node that died is noticed after 3 or 4. */
const AT_ONCE_MS = 20_000;
const SOON_MS = 60_000;

describe('a server that is killed while it holds agents', function () {
  this.timeout(120_000);
  let redis: TestRedis;
  let database: TestDatabase;
  let stage: Stage;
  let south: ServerProgram;
  let mute: FakeDevice | undefined;
  let watcher: DashboardClient | undefined;

  before(async function () {
    redis = await redisOrSkip(this);
    database = await createTestDatabase();
    stage = await setStage({ database, redisUrl: redis.url });
    south = await stage.startServer('south');
    await stage.noteRest();
  });
  afterEach(async () => {
    mute?.close();
    watcher?.close();
    await stage.clear();
  });
  after(async () => {
    await stage?.close();
    await database?.drop();
    await redis?.remove();
  });

  it('loses no work and does none twice; questions fail at once; its agents move to the other one', async () => {
    const { north, door, token } = stage;
    const [device, silent] = [await stage.enroll(north), await stage.enroll(north)];
    const work = await stage.work();

    const agent = await stage.startAgent(device);
    await stage.isAt(north, device.deviceId);
    // It takes questions and answers none, so that one is open when its server dies.
    mute = await connectDevice(north, silent.token);
    await stage.isAt(north, silent.deviceId);
    // Two begin, and stand in the middle; the others wait for them.
    for (let count = 0; count < 6; count++) await work.order(south, device.deviceId, { held: count < 2 });
    await eventually(
      () => work.states(),
      (states) => states.filter((state) => state === 'running').length === 2,
      SOON_MS,
    );
    watcher = await connectDashboard(south, token);
    const ends: { outcomes: object[] }[] = [];
    watcher.socket.on('eventlogs:end', (end) => ends.push(end));
    const query = { deviceIds: [silent.deviceId], name: 'System', limit: 5 };
    expect(await watcher.send('eventlogs:query', query)).to.include({ ok: true });
    const asked = south.call('GET', `/devices/${silent.deviceId}/eventlogs/live`, { token });
    await eventually(
      () => levelsOf(south),
      ({ questions }) => questions === 2,
      SOON_MS,
    );

    door.to(south);
    const killedAt = Date.now();
    await north.kill();
    // What runs goes on without a server, and ends without one.
    await work.effects.openGate();

    const answer = await asked;
    expect(Date.now() - killedAt, 'until the question failed').to.be.below(AT_ONCE_MS);
    expect([answer.status, answer.body.code]).to.deep.equal([409, 'DEVICE_OFFLINE']);
    const [end] = await eventually(
      () => ends,
      (all) => all.length > 0,
      AT_ONCE_MS,
    );
    expect(end?.outcomes).to.deep.equal([
      {
        deviceId: silent.deviceId,
        outcome: 'error',
        rows: 0,
        message: 'The device lost its connection before it answered.',
      },
    ]);

    await stage.isAt(south, device.deviceId);
    expect(agent.hasEnded(), 'the agent is the same process').to.equal(false);
    const lost = await eventually(
      () => stage.presence(silent.deviceId),
      ({ state }) => state === 'disconnected',
      SOON_MS,
    );
    expect(lost.reason).to.equal('node_lost');
    // Behind the moment in which the lost server's devices are marked, and shown to people as it is kept.
    const shown = await south.call('GET', `/devices/${device.deviceId}`, { token });
    expect(shown.body.presence).to.include({ state: 'connected', reason: 'connected' });

    expect(await work.results()).to.deep.equal(Array.from({ length: 6 }, () => DONE_ONCE));
    const seen = shown.body.lastSeenAt as string;
    await eventually(
      async () => (await south.call('GET', `/devices/${device.deviceId}`, { token })).body.lastSeenAt,
      (at: string) => at > seen,
      SOON_MS,
    );

    mute.close();
    watcher.close();
    await agent.kill();
  });

  it('comes back under its name, and has its part of the work again', async () => {
    const { door, token } = stage;
    const again = await stage.startServer('north');
    door.to(again);
    const device = await stage.enroll(south);
    const work = await stage.work();
    await stage.startAgent(device);
    await stage.isAt(again, device.deviceId);
    await work.order(south, device.deviceId);
    expect(await work.results()).to.deep.equal([DONE_ONCE]);
    const asked = await south.call('GET', `/devices/${device.deviceId}/eventlogs/live`, { token });
    expect(asked.status).to.equal(200);
  });

  it('leaves nothing open, and no work that goes on changing', () => stage.expectNothingLeft());
});
