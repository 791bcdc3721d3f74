import { expect } from 'chai';
import { clock, systemTime, type TimeSource } from '../../../src/clock.ts';
import { finished, type Pieces, Turns } from '../../../src/platform/turns.ts';

describe('a long computation in pieces', () => {
  /** A test clock does not move within a turn. */
  let now = 0;
  let former: TimeSource;
  before(() => {
    former = clock.takeTimeFrom({
      now: () => systemTime.now(),
      monotonic: () => now,
      setTimeout: (callback, ms) => systemTime.setTimeout(callback, ms),
      setInterval: (callback, ms) => systemTime.setInterval(callback, ms),
      clear: (timer) => systemTime.clear(timer),
    });
  });
  after(() => {
    clock.takeTimeFrom(former);
  });

  function* adding(numbers: readonly number[], pieceMs: number): Pieces<number> {
    let sum = 0;
    for (const number of numbers) {
      sum += number;
      now += pieceMs;
      yield;
    }
    return sum;
  }

  it('lets others have their turn when its pieces have taken a while, over all computations', async () => {
    now = 0;
    const seen = new Set<number>();
    let isOver = false;
    const look = () => {
      if (isOver) return;
      seen.add(now);
      setImmediate(look);
    };
    setImmediate(look);
    const turns = new Turns();
    expect(await turns.finish(adding([1, 2, 3, 4], 4))).to.equal(10);
    expect(await turns.finish(adding([5, 6, 7], 4))).to.equal(18);
    isOver = true;
    expect([...seen]).to.deep.equal([12, 24]);
  });

  it('does not wait for others while it is short, and is the same at once', async () => {
    let isOver = false;
    const work = new Turns().finish(adding([1, 2, 3, 4], 0));
    void work.then(() => (isOver = true));
    await Promise.resolve();
    await Promise.resolve();
    expect(isOver).to.equal(true);
    expect(finished(adding([1, 2, 3, 4], 0))).to.equal(await work);
  });

  it('fails as it would at once', async () => {
    function* failing(): Pieces<void> {
      yield;
      throw new Error('no');
    }
    expect(await new Turns().finish(failing()).catch((error: Error) => error.message)).to.equal('no');
  });
});
