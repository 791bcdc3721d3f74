import { expect } from 'chai';
import { Admission } from '../../../../src/hub/wire/admission.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { testClock } from '../../../support/test-clock.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

describe('a server whose clock is changed', () => {
  let database: TestDatabase;
  let app: TestApp;
  let device: EnrolledDevice;

  /** From now on the time of day is another one; timers and durations go on. */
  const step = (ms: number) => testClock.jump(ms);
  const stored = async () => {
    const [row] = await asOwner<{ state: string }>(
      database.ownerUrl,
      'select state from device_presence where device_id = $1',
      [device.deviceId],
    );
    return row?.state;
  };

  before(async () => {
    database = await createTestDatabase();
    app = await createTestApp({ database });
    device = await buildDevice(app, (await buildTenant(app)).orgId);
  });
  afterEach(() => testClock.reset());
  after(async () => {
    await app.close();
    await database.drop();
  });

  it('keeps the agents that are connected when it is set forward', async () => {
    const agent = await connectDevice(app, device.token);
    try {
      await eventually(stored, (state) => state === 'connected');
      step(HOUR_MS);
      // The hub looks for silent agents once a second.
      await testClock.advance(1500);
      expect((await agent.heartbeat()).ok).to.equal(true);
      expect(agent.socket.connected).to.equal(true);
      expect(agent.notices).to.deep.equal([]);
    } finally {
      agent.close();
    }
  });

  it('admits agents as before when it is set back', () => {
    const admission = new Admission({ perSecond: 10, burst: 5 });
    for (let agent = 0; agent < 3; agent++) expect(admission.refusal()).to.equal(undefined);
    step(-HOUR_MS);
    expect(admission.refusal()).to.equal(undefined);
  });

  it('shows devices as connected although an earlier run, whose clock was ahead, has stored later claims', async () => {
    await app.close();
    await asOwner(database.ownerUrl, 'update device_presence set epoch = $1', [Date.now() + DAY_MS]);
    app = await createTestApp({ database });
    expect(await stored()).to.equal('disconnected');
    const agent = await connectDevice(app, device.token);
    try {
      await eventually(stored, (state) => state === 'connected');
    } finally {
      agent.close();
    }
  });
});
