import { expect } from 'chai';
import { Ability, afterQuestion, judge, startFacts, type Judgement } from '../../../src/watchdog/judge.ts';
import { HealthCheck } from '../../../src/agent/os/supervision.ts';
import { TrialRun } from '../../../src/watchdog/supervised-run.ts';
import { useTestClock } from '../../support/use-test-clock.ts';

const LIMITS = { firstHeartbeatMs: 120_000, heartbeatsMs: 180_000, heartbeatsInARow: 3, unservedMs: 600_000 };
/** How often a trial looks at its time; a period ends with the first look after it. */
const LOOK_MS = 1000;
const FIRST_PERIOD_MS = LIMITS.firstHeartbeatMs + LOOK_MS;

const GONE = { isConnected: false, reachesServer: false };
const OVER_SOCKET = { isConnected: true, reachesServer: true };
const OVER_HTTP = { isConnected: false, reachesServer: true };
const ALL: readonly Ability[] = Ability.options;
const CHECKS = HealthCheck.options;

type Decision = Exclude<Judgement, { is: 'open' | 'ask_server' }>;

describe('a release on trial', () => {
  const testClock = useTestClock({ isRunning: false });
  let trial: TrialRun;
  let decisions: Decision[];
  let questions: number;
  /** How often the release was asked what it can do. */
  let checks: number;
  /** Whether the server serves this machine, as it answers when it is asked. */
  let isServed: () => Promise<boolean>;

  beforeEach(() => {
    decisions = [];
    questions = 0;
    checks = 0;
    isServed = async () => true;
    trial = begin();
  });
  afterEach(() => {
    trial.stop();
    expect(testClock.pending, 'timers left behind').to.equal(0);
  });

  const begin = (limits = LIMITS, expected: readonly Ability[] = []) =>
    new TrialRun({
      version: '1.1.0',
      limits,
      expected,
      askHealth: () => (checks += 1),
      isServed() {
        questions += 1;
        return isServed();
      },
      decide: (judgement) => decisions.push(judgement),
    });
  const codes = () => decisions.map((decision) => (decision.is === 'failed' ? decision.code : decision.is));

  it('is healthy with the third heartbeat in a row, at once', () => {
    trial.hello('1.1.0');
    trial.heartbeat();
    trial.heartbeat();
    expect(codes()).to.deep.equal([]);
    trial.heartbeat();
    expect(codes()).to.deep.equal(['healthy']);
  });

  it('is not healthy before it has named its version', () => {
    for (let count = 0; count < 3; count += 1) trial.heartbeat();
    expect(codes()).to.deep.equal([]);
    trial.hello('1.1.0');
    expect(codes()).to.deep.equal(['healthy']);
  });

  it('fails at once when it names another version', () => {
    trial.hello('1.0.0');
    expect(decisions).to.deep.equal([
      { is: 'failed', code: 'WRONG_VERSION', message: 'The release 1.1.0 says that it is 1.0.0.' },
    ]);
  });

  it('counts heartbeats anew after a lost connection, and not after one that lasts', () => {
    trial.hello('1.1.0');
    trial.heartbeat();
    trial.heartbeat();
    trial.connection(GONE);
    trial.heartbeat();
    trial.connection(OVER_SOCKET);
    trial.heartbeat();
    expect(codes()).to.deep.equal([]);
    trial.heartbeat();
    expect(codes()).to.deep.equal(['healthy']);
  });

  it('decides once, and nothing after its end', async () => {
    trial.hello('1.1.0');
    for (let count = 0; count < 5; count += 1) trial.heartbeat();
    trial.hello('1.0.0');
    await testClock.advance(2 * FIRST_PERIOD_MS);
    expect([codes(), questions]).to.deep.equal([['healthy'], 0]);
  });

  it('fails without a heartbeat in the first period if the server serves this machine', async () => {
    trial.hello('1.1.0');
    await testClock.advance(LIMITS.firstHeartbeatMs);
    expect([codes(), questions]).to.deep.equal([[], 0]);
    await testClock.advance(LOOK_MS);
    expect([decisions, questions]).to.deep.equal([
      [
        {
          is: 'failed',
          code: 'NOT_CONNECTED',
          message: 'The server acknowledged no heartbeat of the release within 120 s.',
        },
      ],
      1,
    ]);
  });

  it('has longer for its heartbeats in a row when there was one', async () => {
    trial.hello('1.1.0');
    await testClock.advance(LIMITS.firstHeartbeatMs);
    trial.heartbeat();
    await testClock.advance(LIMITS.heartbeatsMs - LIMITS.firstHeartbeatMs);
    expect([codes(), questions]).to.deep.equal([[], 0]);
    await testClock.advance(LOOK_MS);
    expect(decisions).to.deep.equal([
      {
        is: 'failed',
        code: 'NOT_CONNECTED',
        message: 'The release did not stay connected for 3 heartbeats within 180 s.',
      },
    ]);
  });

  it('has the first period again for its first heartbeat after a lost connection', async () => {
    trial.hello('1.1.0');
    trial.heartbeat();
    trial.connection(GONE);
    await testClock.advance(FIRST_PERIOD_MS);
    expect(codes()).to.deep.equal(['NOT_CONNECTED']);
  });

  it('looks ten times within a first period of less than ten seconds', async () => {
    trial.stop();
    trial = begin({ ...LIMITS, firstHeartbeatMs: 2000 });
    await testClock.advance(2199);
    expect([codes(), questions]).to.deep.equal([[], 0]);
    await testClock.advance(1);
    expect(codes()).to.deep.equal(['NOT_CONNECTED']);
  });

  it('also fails if it is silent from the beginning', async () => {
    await testClock.advance(FIRST_PERIOD_MS);
    expect(codes()).to.deep.equal(['NOT_CONNECTED']);
  });

  describe('while the server serves no device', () => {
    beforeEach(() => {
      isServed = async () => false;
      trial.hello('1.1.0');
    });

    it('goes on, and asks again after each period', async () => {
      await testClock.advance(3 * FIRST_PERIOD_MS);
      expect([codes(), questions]).to.deep.equal([[], 3]);
    });

    it('has a whole period when the server is back', async () => {
      await testClock.advance(FIRST_PERIOD_MS);
      isServed = async () => true;
      await testClock.advance(FIRST_PERIOD_MS);
      expect([codes(), questions], 'the server came back within the period').to.deep.equal([[], 2]);
      await testClock.advance(LIMITS.firstHeartbeatMs);
      expect(codes()).to.deep.equal([]);
      await testClock.advance(LOOK_MS);
      expect(codes()).to.deep.equal(['NOT_CONNECTED']);
    });

    it('is healthy as soon as the server is back and acknowledges its heartbeats', async () => {
      await testClock.advance(4 * FIRST_PERIOD_MS);
      for (let count = 0; count < 3; count += 1) trial.heartbeat();
      expect(codes()).to.deep.equal(['healthy']);
    });

    it('fails when that lasts longer than a trial may', async () => {
      await testClock.advance(4 * FIRST_PERIOD_MS);
      expect(codes()).to.deep.equal([]);
      await testClock.advance(FIRST_PERIOD_MS);
      expect(decisions).to.deep.equal([
        {
          is: 'failed',
          code: 'SERVER_UNREACHABLE',
          message: 'The server did not serve this machine during the whole trial.',
        },
      ]);
    });

    it('does not fail for that when the server is back at the end, and has a whole period', async () => {
      await testClock.advance(4 * FIRST_PERIOD_MS);
      isServed = async () => true;
      await testClock.advance(FIRST_PERIOD_MS);
      expect([codes(), questions]).to.deep.equal([[], 5]);
      await testClock.advance(LIMITS.firstHeartbeatMs);
      for (let count = 0; count < 3; count += 1) trial.heartbeat();
      expect(codes()).to.deep.equal(['healthy']);
    });

    it('ends also with a server that comes and goes', async () => {
      let asked = 0;
      isServed = async () => (asked += 1) % 2 === 0;
      await testClock.advance(20 * FIRST_PERIOD_MS);
      expect(codes()).to.deep.equal(['SERVER_UNREACHABLE']);
    });

    it('takes a question that fails for a server that serves no device', async () => {
      isServed = () => Promise.reject(new Error('no network'));
      await testClock.advance(FIRST_PERIOD_MS);
      expect([codes(), questions]).to.deep.equal([[], 1]);
    });
  });

  describe('while the server is being asked', () => {
    let answer: (isServed: boolean) => void;
    beforeEach(async () => {
      isServed = () =>
        new Promise((resolve) => {
          answer = resolve;
        });
      trial.hello('1.1.0');
      await testClock.advance(FIRST_PERIOD_MS);
    });

    it('asks once, however long the answer takes', async () => {
      await testClock.advance(FIRST_PERIOD_MS);
      expect(questions).to.equal(1);
    });

    it('is healthy by heartbeats that come meanwhile', async () => {
      for (let count = 0; count < 3; count += 1) trial.heartbeat();
      answer(true);
      await testClock.advance(0);
      expect(codes()).to.deep.equal(['healthy']);
    });

    it('has the time of a connected release when its first heartbeat comes meanwhile', async () => {
      trial.heartbeat();
      answer(true);
      await testClock.advance(0);
      expect(codes()).to.deep.equal([]);
      await testClock.advance(LIMITS.heartbeatsMs - LIMITS.firstHeartbeatMs);
      answer(true);
      await testClock.advance(0);
      expect([codes(), questions]).to.deep.equal([['NOT_CONNECTED'], 2]);
    });

    it('decides nothing after it was stopped', async () => {
      trial.stop();
      answer(true);
      await testClock.advance(FIRST_PERIOD_MS);
      expect([codes(), questions]).to.deep.equal([[], 1]);
    });
  });

  describe('after a release that could do everything', () => {
    beforeEach(() => {
      trial.stop();
      trial = begin(LIMITS, ALL);
      trial.hello('1.1.0', [...CHECKS]);
    });
    const beats = (count = 3) => {
      for (let beat = 0; beat < count; beat += 1) trial.heartbeat();
    };

    it('is healthy when it is connected by its socket and has proved the rest, in any order', () => {
      trial.connection(OVER_SOCKET);
      trial.health({ works: [...CHECKS], faults: [] });
      beats();
      expect(codes()).to.deep.equal(['healthy']);
      trial.stop();
      decisions = [];
      trial = begin(LIMITS, ALL);
      trial.hello('1.1.0', [...CHECKS]);
      trial.connection(OVER_SOCKET);
      beats();
      expect([codes(), checks]).to.deep.equal([[], 1]);
      trial.health({ works: [...CHECKS], faults: [] });
      expect(codes()).to.deep.equal(['healthy']);
    });

    it('fails with a broken socket, although its heartbeats over HTTP are acknowledged', async () => {
      trial.connection(OVER_HTTP);
      trial.health({ works: [...CHECKS], faults: [] });
      beats(10);
      await testClock.advance(FIRST_PERIOD_MS);
      expect(decisions).to.deep.equal([
        {
          is: 'failed',
          code: 'NOT_CONNECTED',
          message: 'The server acknowledged no heartbeat of the release over its socket within 120 s.',
        },
      ]);
    });

    it('is not helped by a socket that is cut before a heartbeat', async () => {
      trial.health({ works: [...CHECKS], faults: [] });
      for (let count = 0; count < 5; count += 1) {
        trial.connection(OVER_HTTP);
        beats();
        trial.connection(OVER_SOCKET);
      }
      await testClock.advance(FIRST_PERIOD_MS);
      expect(codes()).to.deep.equal(['NOT_CONNECTED']);
    });

    it('counts heartbeats over its socket anew after it was connected over HTTP only', () => {
      trial.health({ works: [...CHECKS], faults: [] });
      trial.connection(OVER_SOCKET);
      beats(2);
      trial.connection(OVER_HTTP);
      trial.connection(OVER_SOCKET);
      beats(2);
      expect(codes()).to.deep.equal([]);
      beats(1);
      expect(codes()).to.deep.equal(['healthy']);
    });

    it('fails when it cannot prove what the one before could, and says what and why', async () => {
      trial.connection(OVER_SOCKET);
      beats();
      trial.health({
        works: ['live_query'],
        faults: [{ check: 'event_log', message: 'No journal files were found.' }],
      });
      await testClock.advance(LIMITS.heartbeatsMs);
      expect(checks, 'asked again every 15 s').to.equal(13);
      await testClock.advance(LOOK_MS);
      expect(decisions).to.deep.equal([
        {
          is: 'failed',
          code: 'NOT_HEALTHY',
          message:
            'The former release passed checks that this one has not passed within 180 s: read an event log (No journal files were found.); keep commands (it did not answer).',
        },
      ]);
    });
  });

  it('must be able to do only what the release before could, and what it can be asked', () => {
    trial.stop();
    trial = begin(LIMITS, ['live_query']);
    trial.hello('1.1.0', [...CHECKS]);
    trial.connection(OVER_HTTP);
    for (let beat = 0; beat < 3; beat += 1) trial.heartbeat();
    expect(codes()).to.deep.equal([]);
    trial.health({ works: ['live_query'], faults: [{ check: 'event_log', message: 'none' }] });
    expect(codes()).to.deep.equal(['healthy']);
    trial.stop();
    decisions = [];
    // A pin can lead back to a release that knows no checks.
    trial = begin(LIMITS, ALL);
    trial.hello('1.1.0');
    trial.connection(OVER_SOCKET);
    for (let beat = 0; beat < 3; beat += 1) trial.heartbeat();
    expect(codes()).to.deep.equal(['healthy']);
  });

  it('does not notice that the clock of the machine is set', async () => {
    trial.hello('1.1.0');
    testClock.jump(24 * 3_600_000);
    await testClock.advance(LIMITS.firstHeartbeatMs);
    expect(questions).to.equal(0);
    testClock.jump(-48 * 3_600_000);
    await testClock.advance(LOOK_MS);
    expect(codes()).to.deep.equal(['NOT_CONNECTED']);
  });

  it('begins anew with each start of the release', async () => {
    trial.hello('1.1.0');
    trial.heartbeat();
    trial.heartbeat();
    await testClock.advance(LIMITS.firstHeartbeatMs);
    trial.stop();
    trial = begin();
    trial.hello('1.1.0');
    trial.heartbeat();
    expect(codes()).to.deep.equal([]);
    await testClock.advance(LIMITS.heartbeatsMs);
    expect([codes(), questions]).to.deep.equal([[], 0]);
    await testClock.advance(LOOK_MS);
    expect(codes()).to.deep.equal(['NOT_CONNECTED']);
  });
});

describe('the answer of the server to the question whether it serves this machine', () => {
  it('counts the time without service, and forgives it when the server is back', () => {
    const away = afterQuestion(startFacts(0), false, 600_000, LIMITS);
    expect([away.judgement.is, away.facts.unservedMs]).to.deep.equal(['open', 600_000]);
    const back = afterQuestion(away.facts, true, 721_000, LIMITS);
    expect(back.judgement, 'more time without service than a trial may have').to.deep.equal({ is: 'open' });
    expect(back.facts).to.include({ wasServed: true, periodFrom: 721_000, unservedMs: 721_000 });
    expect(judge(back.facts, '1.1.0', 721_000 + LIMITS.firstHeartbeatMs, LIMITS).is).to.equal('open');
    const gone = afterQuestion(back.facts, false, 842_000, LIMITS);
    expect(gone.judgement).to.include({ is: 'failed', code: 'SERVER_UNREACHABLE' });
  });
});
