import { expect } from 'chai';
import sinon from 'sinon';
import { ProgressThrottle } from '../../../../src/hub/commands/command-dispatcher.ts';

describe('the throttle of progress, once a result has come,', () => {
  let clock: sinon.SinonFakeTimers;
  beforeEach(() => {
    clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });
  afterEach(() => clock.restore());

  it('begins anew for a later report, whose second is not cut short by the earlier one', () => {
    const passed: number[] = [];
    const throttle = new ProgressThrottle(({ progress }) => passed.push(progress?.percent ?? 0));
    const command = { id: 'command-1', deviceId: 'device-1' };
    const report = (percent: number) =>
      throttle.report({ kind: 'running', ...command, progress: { phase: 'copying', percent } });
    report(1);
    clock.tick(900);
    throttle.flush(command);
    expect(clock.countTimers()).to.equal(0);
    report(2);
    report(3);
    clock.tick(999);
    expect(passed).to.deep.equal([1, 2]);
    clock.tick(1);
    expect(passed).to.deep.equal([1, 2, 3]);
    throttle.flushAll();
    expect(clock.countTimers()).to.equal(0);
  });
});
