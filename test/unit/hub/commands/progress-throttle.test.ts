import { expect } from 'chai';
import { type SinonFakeTimers, useFakeTimers } from 'sinon';
import { ProgressThrottle } from '../../../../src/hub/commands/command-dispatcher.ts';

describe('the throttle of progress', () => {
  let clock: SinonFakeTimers;
  let passed: [string, string, number][];
  let throttle: ProgressThrottle;
  beforeEach(() => {
    clock = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    passed = [];
    throttle = new ProgressThrottle(({ id, deviceId, progress }) => {
      passed.push([deviceId, id, progress?.percent ?? -1]);
    });
  });
  afterEach(() => clock.restore());

  const report = (id: string, percent: number, deviceId = 'device') =>
    throttle.report({ kind: 'running', id, deviceId, progress: { phase: 'copying', percent } });
  const percents = () => passed.map(([, , percent]) => percent);

  it('passes on the first report at once, and then the latest one each second', () => {
    report('a', 1);
    report('a', 2);
    report('a', 3);
    expect(percents()).to.deep.equal([1]);
    clock.tick(1000);
    expect(percents()).to.deep.equal([1, 3]);
    report('a', 4);
    clock.tick(999);
    expect(percents()).to.deep.equal([1, 3]);
    clock.tick(1);
    expect(percents()).to.deep.equal([1, 3, 4]);
  });

  it('passes on at most one report a second, however many come', () => {
    for (let n = 0; n < 1000; n++) {
      report('a', n / 10);
      clock.tick(10);
    }
    // At the beginning, and at the end of each of ten seconds.
    expect(passed).to.have.length(11);
  });

  it('passes on the last report with the end, once', () => {
    report('a', 1);
    report('a', 2);
    throttle.flush({ id: 'a', deviceId: 'device' });
    throttle.flush({ id: 'a', deviceId: 'device' });
    clock.tick(5000);
    expect(percents()).to.deep.equal([1, 2]);
  });

  it('keeps commands and devices apart', () => {
    report('a', 1);
    report('b', 2);
    report('a', 3, 'other device');
    expect(percents()).to.deep.equal([1, 2, 3]);
  });

  it('drops a command without further reports', () => {
    report('a', 1);
    expect(clock.countTimers()).to.equal(1);
    clock.tick(1000);
    expect(clock.countTimers()).to.equal(0);
  });

  it('passes on all that waits when the server closes', () => {
    report('a', 1);
    report('a', 2);
    report('b', 3);
    throttle.flushAll();
    expect(percents()).to.deep.equal([1, 3, 2]);
    expect(clock.countTimers()).to.equal(0);
  });

  it('holds a bounded number of commands', () => {
    for (let n = 0; n < 60_000; n++) report(`${n}`, 1);
    expect(passed).to.have.length(50_000);
  });
});
