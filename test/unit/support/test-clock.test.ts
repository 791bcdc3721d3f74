import { expect } from 'chai';
import { Clock } from '../../../src/clock.ts';
import { TestClock } from '../../support/test-clock.ts';

describe('a test clock', () => {
  let source: TestClock;
  let clock: Clock;
  let fired: string[];

  beforeEach(() => {
    source = new TestClock({ isRunning: false, at: Date.UTC(2026, 0, 1) });
    clock = new Clock(source);
    fired = [];
  });

  const advance = (ms: number) => source.advance(ms);
  const note = (name: string) => () => void fired.push(`${name} at ${clock.now() - Date.UTC(2026, 0, 1)}`);

  it('fires timers in the order in which they fall due, each at its moment', async () => {
    clock.setTimeout(note('later'), 3_000);
    clock.setTimeout(note('first'), 1_000);
    clock.setTimeout(note('second'), 1_000);
    await advance(1_000);
    expect(fired).to.deep.equal(['first at 1000', 'second at 1000']);
    await advance(10_000);
    expect(fired.at(-1)).to.equal('later at 3000');
    expect(clock.now() - Date.UTC(2026, 0, 1)).to.equal(11_000);
  });

  it('fires a timer that another one has set, in the same move, also through a promise', async () => {
    clock.setTimeout(() => void clock.sleep(500).then(note('woken')), 1_000);
    await advance(2_000);
    expect(fired).to.deep.equal(['woken at 1500']);
  });

  it('repeats an interval, and not after it was cleared', async () => {
    const timer = clock.setInterval(note('tick'), 400);
    await advance(1_000);
    clock.clear(timer);
    await advance(1_000);
    expect(fired).to.deep.equal(['tick at 400', 'tick at 800']);
    expect(source.pending).to.equal(0);
  });

  it('begins the time of a refreshed timer anew', async () => {
    const timer = clock.setTimeout(note('once'), 1_000);
    await advance(900);
    timer.refresh();
    await advance(900);
    expect(fired).to.deep.equal([]);
    await advance(100);
    expect(fired).to.deep.equal(['once at 1900']);
  });

  it('jumps without timers and spans noticing', async () => {
    clock.setTimeout(note('due'), 1_000);
    const before = clock.monotonic();
    source.jump(3_600_000);
    expect(clock.monotonic()).to.equal(before);
    await advance(999);
    expect(fired).to.deep.equal([]);
    await advance(1);
    expect(fired).to.deep.equal(['due at 3601000']);
  });

  it('runs with the machine until it is stopped, and moves faster on request', async () => {
    const running = new TestClock();
    const own = new Clock(running);
    let isDone = false;
    own.setTimeout(() => (isDone = true), 60_000);
    await own.sleep(1);
    expect(isDone).to.equal(false);
    await running.advance(60_000);
    expect(isDone).to.equal(true);
    running.stop();
    const stopped = own.monotonic();
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(own.monotonic()).to.equal(stopped);
    running.run();
    await own.sleep(2);
    expect(own.monotonic()).to.be.greaterThan(stopped);
  });

  it('counts the time that an advance itself takes, so that it never falls behind the machine', async () => {
    const running = new TestClock();
    running.setTimeout(() => {
      const until = performance.now() + 20;
      while (performance.now() < until);
    }, 100);
    await running.advance(1_000);
    expect(running.now() - Date.now()).to.be.within(995, 1_005);
  });

  it('ends a sleep with the reason of its signal, and takes its timer away', async () => {
    const controller = new AbortController();
    const sleep = clock.sleep(1_000, { signal: controller.signal });
    controller.abort(new Error('no longer needed'));
    const error = await sleep.catch((reason: unknown) => reason);
    expect(error).to.have.property('message', 'no longer needed');
    expect(source.pending).to.equal(0);
  });

  it('aborts a signal after its time', async () => {
    const signal = clock.timeoutSignal(5_000);
    await advance(4_999);
    expect(signal.aborted).to.equal(false);
    await advance(1);
    expect(signal.reason).to.have.property('name', 'TimeoutError');
  });
});
