import { expect } from 'chai';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { eventually } from '../../../support/eventually.ts';
import { killProgram } from '../../../support/program.ts';
import { startServerProcess, type StartedServer } from '../../../support/started-server.ts';
import { call, createTestApp, TEST_ENCRYPTION_KEY, type TestApp } from '../../../support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';
import {
  buildRecoveryWorld,
  type RecoveryWorld,
} from '../../../support/disaster-recovery/recovery-support.ts';

/** The server that leads an execution is killed, and another one takes over on the same database. */
describe('an execution of a recovery plan whose server is killed', function () {
  this.timeout(180_000);
  let database: TestDatabase;
  let dataDir: string;
  let world: RecoveryWorld;
  let planId: string;
  let url: string;
  let leader: StartedServer | undefined;
  let successor: TestApp | undefined;

  before(async () => {
    database = await createTestDatabase();
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-takeover-'));
    const first = await createTestApp({ database, env: { DATA_DIR: dataDir } });
    ({ url } = first);
    world = await buildRecoveryWorld({
      ...first,
      call: (method, route, options) => call(`${url}/api/v1${route}`, method, options),
    });
    planId = await world.createPlan();
    await first.close();
  });
  afterEach(async () => {
    for (const device of world.devices) device.close();
    await successor?.close();
    successor = undefined;
    if (leader !== undefined) await killProgram(leader);
    leader = undefined;
  });
  after(async () => {
    await database.drop();
    await rm(dataDir, { recursive: true, force: true });
  });

  const lead = async () => {
    leader = await startServerProcess({
      DATABASE_URL: database.ownerUrl,
      DATABASE_URL_APP: database.appUrl,
      JWT_SECRET: 'a-secret-that-only-tests-sign-with',
      SECRET_ENCRYPTION_KEY: TEST_ENCRYPTION_KEY,
      DATA_DIR: dataDir,
    });
    ({ url } = leader);
    for (const device of world.devices) await device.connect({ url });
    await world.reset();
    return leader;
  };
  const takeOver = async (killed: StartedServer) => {
    killed.child.kill('SIGKILL');
    await killed.ended;
    for (const device of world.devices) device.close();
    // As after the time of a lease.
    await asOwner(
      database.ownerUrl,
      `update background_jobs set lease_until = now() - interval '1 second' where state = 'running'`,
    );
    successor = await createTestApp({ database, env: { DATA_DIR: dataDir } });
    ({ url } = successor);
    for (const device of world.devices) await device.connect(successor);
  };

  it('goes on under another server, which does nothing twice', async () => {
    const killed = await lead();
    const database1 = world.at(1);
    database1.script = ({ type }) => (type === 'backup.restore' ? 'hold' : undefined);
    const id = await world.execute(planId, 'rehearsal');
    await eventually(database1.held, ({ length }) => length === 1, 30_000);
    await takeOver(killed);
    await database1.release();
    const ended = await world.ended(id);
    expect(ended.status, JSON.stringify(ended)).to.equal('completed');
    expect(world.left()).to.deep.equal([]);
    // A hub that does not know what a device has sends a command again, by the same id, and agents do each id once.
    const commands = new Map(world.devices.flatMap(({ log }) => log.map((frame) => [frame.id, frame.type])));
    const times = (type: string) => [...commands.values()].filter((each) => each === type).length;
    expect(times('backup.restore'), 'restores').to.equal(4);
    expect(times('backup.vm-from-image') + times('backup.vm-instant-boot'), 'machines').to.equal(2);
    expect(times('recovery.discard-restore') + times('backup.vm-discard'), 'taken down').to.equal(6);
  });

  it('is aborted by another server when the first one dies during the abort', async () => {
    const killed = await lead();
    const host = world.at(3);
    host.script = ({ type }) => (type === 'recovery.check' ? 'hold' : undefined);
    const id = await world.execute(planId, 'rehearsal');
    await eventually(host.held, ({ length }) => length === 1, 30_000);
    // It hears of the abort, and dies before the device has stopped.
    host.obeysCancel = false;
    expect((await world.send('POST', `/dr/executions/${id}/abort`)).status).to.equal(200);
    await takeOver(killed);
    await host.stopHeld();
    const ended = await world.ended(id);
    expect(ended.status, JSON.stringify(ended)).to.equal('aborted');
    expect(ended.report.leftovers).to.equal(0);
    expect(world.left()).to.deep.equal([]);
  });
});
