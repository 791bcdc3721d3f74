import { expect } from 'chai';
import { AbilitiesBefore } from '../../../src/watchdog/judge.ts';
import { useTestClock } from '../../support/use-test-clock.ts';

const ANSWER_MS = 35_000;

describe('what a running release can do', () => {
  const testClock = useTestClock({ isRunning: false });
  let before: AbilitiesBefore;
  let questions: number;
  beforeEach(() => {
    questions = 0;
    before = new AbilitiesBefore(() => void (questions += 1));
  });
  afterEach(() => expect(testClock.pending, 'timers left behind').to.equal(0));

  it('is what it answers', async () => {
    before.hello(['live_query', 'event_log']);
    const abilities = before.read();
    expect(questions).to.equal(1);
    before.health({ works: ['live_query'], faults: [{ check: 'event_log', message: 'No journal.' }] });
    expect(await abilities).to.deep.equal(['live_query']);
  });

  it('is nothing if it does not answer in time, and an answer that comes then is not that to the next question', async () => {
    before.hello(['live_query']);
    const none = before.read();
    await testClock.advance(ANSWER_MS - 1);
    expect(testClock.pending).to.equal(1);
    await testClock.advance(1);
    expect(await none).to.deep.equal([]);
    before.health({ works: ['live_query'], faults: [] });
    const again = before.read();
    before.health({ works: [], faults: [] });
    expect([await again, questions]).to.deep.equal([[], 2]);
  });

  it('is not asked if it can be asked nothing', async () => {
    before.hello(undefined);
    expect([await before.read(), questions]).to.deep.equal([[], 0]);
  });

  it('includes its socket once a heartbeat was acknowledged over it, even if that is closed now', async () => {
    before.heartbeat();
    expect(await before.read(), 'over HTTP').to.deep.equal([]);
    before.connection(true);
    expect(await before.read(), 'without a heartbeat').to.deep.equal([]);
    before.heartbeat();
    before.connection(false);
    expect(await before.read()).to.deep.equal(['socket']);
    before.hello(['event_log']);
    const abilities = before.read();
    before.health({ works: ['event_log'], faults: [] });
    expect(await abilities).to.deep.equal(['socket', 'event_log']);
  });

  it('does not include a socket that was closed before the first heartbeat', async () => {
    before.connection(true);
    before.connection(false);
    before.heartbeat();
    expect(await before.read()).to.deep.equal([]);
  });
});
