import { expect } from 'chai';
import fc from 'fast-check';
import { nextTryAt } from '../../../src/agent/os/releases/upgrade-files.ts';
import { waitAfterFailure } from '../../../src/protocol/index.ts';
import { dataDirIn, isOfRelease, launcherOptions } from '../../../src/watchdog/agent-script.ts';
import { aliveEveryMs, inheritedSocket } from '../../../src/watchdog/watchdog-command.ts';
import { afterEnd, FIRST_START, type RestartState } from '../../../src/watchdog/supervised-child.ts';
import { afterQuestion, judge, startFacts } from '../../../src/watchdog/judge.ts';

const LIMITS = { firstHeartbeatMs: 120, heartbeatsMs: 180, heartbeatsInARow: 3, unservedMs: 1000 };
const RESTARTS = { restartMs: 1000, restartMaxMs: 60_000, steadyMs: 60_000, crashLoop: 5 };

describe('the judgement of a release on trial', () => {
  const facts = { ...startFacts(0), version: '1.1.0' };

  it('is healthy only with the right version and enough heartbeats in a row', () => {
    expect(judge({ ...facts, inARow: 3 }, '1.1.0', 5, LIMITS).is).to.equal('healthy');
    expect(judge({ ...facts, inARow: 2 }, '1.1.0', 5, LIMITS).is).to.equal('open');
    expect(judge({ ...facts, inARow: 3, version: undefined }, '1.1.0', 5, LIMITS).is).to.equal('open');
    expect(judge({ ...facts, inARow: 3 }, '1.2.0', 5, LIMITS)).to.include({
      is: 'failed',
      code: 'WRONG_VERSION',
    });
  });

  it('blames the release only if the server was there for a whole period', () => {
    expect(judge(facts, '1.1.0', 121, LIMITS).is).to.equal('ask_server');
    expect(judge({ ...facts, inARow: 1 }, '1.1.0', 121, LIMITS).is).to.equal('open');
    expect(afterQuestion(facts, true, 121, LIMITS).judgement).to.include({ code: 'NOT_CONNECTED' });
    const away = afterQuestion(facts, false, 121, LIMITS);
    expect(away.judgement.is).to.equal('open');
    const back = afterQuestion(away.facts, true, 242, LIMITS);
    expect(back.judgement.is).to.equal('open');
    expect(judge(back.facts, '1.1.0', 300, LIMITS).is).to.equal('open');
    expect(afterQuestion(back.facts, true, 363, LIMITS).judgement).to.include({ code: 'NOT_CONNECTED' });
  });

  it('ends in any case, whatever the server answers', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { minLength: 30, maxLength: 30 }), (answers) => {
        let state = startFacts(0);
        const ends = answers.findIndex((isServed, at) => {
          const { facts: next, judgement } = afterQuestion(state, isServed, (at + 1) * 121, LIMITS);
          state = next;
          return judgement.is === 'failed';
        });
        // A server that comes and goes is unserved for half of the time at least.
        expect(ends).to.be.within(0, 20);
      }),
    );
  });
});

describe('the restarts of an agent that ends', () => {
  const runs = (times: number[], choices = 3) => {
    let state: RestartState = FIRST_START;
    return times.map((ranMs) => {
      const next = afterEnd(state, ranMs, choices, RESTARTS);
      ({ state } = next);
      return next;
    });
  };

  it('never make a busy loop, and wait a minute at most', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(120_000), { minLength: 1, maxLength: 60 }),
        fc.integer({ min: 1, max: 4 }),
        (times, choices) => {
          for (const { waitMs, state } of runs(times, choices)) {
            expect(waitMs).to.be.within(RESTARTS.restartMs, RESTARTS.restartMaxMs);
            expect(state.choice).to.be.within(0, choices - 1);
          }
        },
      ),
    );
  });

  it('go through all scripts and begin anew, more slowly', () => {
    const ends = runs(Array.from({ length: 20 }, () => 10));
    expect(ends.map(({ state }) => state.choice).join('')).to.equal('00001111122222000001');
    expect(ends.filter(({ isCrashLoop }) => isCrashLoop)).to.have.length(4);
    expect(ends[15]!.waitMs).to.be.greaterThan(ends[0]!.waitMs);
  });

  it('keep the script that runs steadily', () => {
    const ends = runs([10, 10, 10, 10, 10, 70_000, 10]);
    expect(ends.map(({ state }) => state.choice)).to.deep.equal([0, 0, 0, 0, 1, 1, 1]);
    expect(ends[5]!.waitMs).to.equal(RESTARTS.restartMs);
  });
});

describe('the wait after a failed upgrade', () => {
  it('is none at first if the failure may pass, and never longer than an hour', () => {
    expect(waitAfterFailure({ count: 1, isTemporary: true })).to.equal(0);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1000 }), (count) => {
        expect(waitAfterFailure({ count, isTemporary: true })).to.be.at.most(3_600_000);
        expect(waitAfterFailure({ count: count + 1, isTemporary: true })).to.be.at.least(
          waitAfterFailure({ count, isTemporary: true }),
        );
        expect(waitAfterFailure({ count, isTemporary: false })).to.be.within(3_600_000, 24 * 3_600_000);
      }),
    );
  });

  it('is not prolonged by a clock that is set back', () => {
    const failure = { sha256: 'x', code: 'x', message: '', at: 5_000_000, count: 3, isTemporary: false };
    expect(nextTryAt(failure, 1000)).to.equal(1000);
    expect(nextTryAt(failure, 5_000_001)).to.be.greaterThan(5_000_001);
  });
});

describe('the launcher', () => {
  it('takes its own options before the words for the agent, and leaves those alone', () => {
    expect(
      launcherOptions(['--release', '1.2.0', '--programs', '/p', 'run', '--release', 'x']),
    ).to.deep.equal({
      release: '1.2.0',
      programs: '/p',
      rest: ['run', '--release', 'x'],
    });
    expect(launcherOptions(['status'])).to.deep.equal({ rest: ['status'] });
    for (const command of ['status', 'doctor', 'logs', 'service', 'unenroll', 'enroll', 'update', '--help']) {
      expect(isOfRelease([command]), command).to.equal(false);
    }
    expect([isOfRelease(['run']), isOfRelease(['eventlog', 'list'])]).to.deep.equal([true, true]);
    expect(dataDirIn(['run', '--data-dir', '/d'])).to.equal('/d');
    expect(dataDirIn(['run', '--data-dir=/d e'])).to.equal('/d e');
    expect(dataDirIn(['run'])).to.equal(undefined);
  });

  it('speaks to systemd only with what is meant for this process', () => {
    const env = { LISTEN_PID: '7', LISTEN_FDS: '2', LISTEN_FDNAMES: 'log:muster-notify' };
    expect(inheritedSocket(env, 7)).to.equal(4);
    expect(inheritedSocket(env, 8)).to.equal(undefined);
    expect(inheritedSocket({ ...env, LISTEN_FDS: '1' }, 7)).to.equal(undefined);
    expect(aliveEveryMs({ WATCHDOG_USEC: '60000000' })).to.equal(20_000);
    expect(aliveEveryMs({ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '1' }, 2)).to.equal(undefined);
    expect(aliveEveryMs({})).to.equal(undefined);
  });
});
