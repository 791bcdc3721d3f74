import { expect } from 'chai';
import { type SinonFakeTimers, useFakeTimers } from 'sinon';
import { throttled } from '../../../../src/agent/work/running-command.ts';

describe('the throttle of progress messages', () => {
  let clock: SinonFakeTimers;
  let sent: { value: string; at: number }[];
  let arrive: (() => void)[];

  beforeEach(() => {
    clock = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    sent = [];
    arrive = [];
  });
  afterEach(() => clock.restore());

  const record = (value: string) => sent.push({ value, at: performance.now() });
  const sendAtOnce = async (value: string) => void record(value);
  const sendSlowly = (value: string) =>
    new Promise<void>((resolve) => {
      record(value);
      arrive.push(resolve);
    });
  const values = () => sent.map(({ value }) => value);

  it('sends the first value at once, and then the latest one of each interval', async () => {
    const { push } = throttled(1000, sendAtOnce);
    for (let step = 0; step <= 25; step++) {
      push(`${step * 100} ms`);
      await clock.tickAsync(100);
    }
    await clock.tickAsync(5000);
    expect(sent).to.deep.equal([
      { value: '0 ms', at: 0 },
      { value: '900 ms', at: 1000 },
      { value: '1900 ms', at: 2000 },
      { value: '2500 ms', at: 3000 },
    ]);
  });

  it('sends nothing while the value before is on its way, and then the latest', async () => {
    const { push } = throttled(1000, sendSlowly);
    push('a');
    await clock.tickAsync(3000);
    push('b');
    push('c');
    await clock.tickAsync(3000);
    expect(values()).to.deep.equal(['a']);
    arrive[0]!();
    await clock.tickAsync(0);
    expect(values()).to.deep.equal(['a', 'c']);
  });

  it('sends the last value at once when it is flushed, also while another one is on its way', async () => {
    const { push, flush } = throttled(1000, sendSlowly);
    push('a');
    push('b');
    flush();
    expect(values()).to.deep.equal(['a', 'b']);
    flush();
    for (const resolve of arrive) resolve();
    await clock.tickAsync(5000);
    expect(values()).to.deep.equal(['a', 'b']);
  });

  it('continues after a value that could not be sent', async () => {
    const { push } = throttled(1000, async (value: string) => {
      record(value);
      throw new Error('no connection');
    });
    push('a');
    await clock.tickAsync(1000);
    push('b');
    await clock.tickAsync(1000);
    expect(values()).to.deep.equal(['a', 'b']);
  });
});
