import { expect } from 'chai';
import fc from 'fast-check';
import { ServerClock } from '../../../../src/agent/core/server-clock.ts';

describe('the agent’s estimate of the server’s time', () => {
  it('is the local time until the first reading, for which callers can wait a limited time', async () => {
    const clock = new ServerClock();
    expect(Math.abs(clock.now() - Date.now())).to.be.below(5000);
    const startedAt = Date.now();
    await clock.known(100);
    expect(Date.now() - startedAt).to.be.within(90, 20_000);
    const waiting = clock.known(10_000);
    clock.startReading()('no time at all');
    clock.startReading()('2031-01-01T00:00:00.000Z');
    await waiting;
    await clock.known(10_000);
    expect(Math.abs(clock.now() - Date.parse('2031-01-01T00:00:00.000Z'))).to.be.below(20_000);
    expect(clock.timestamp()).to.match(/^2031-01-01T00:00:00\.\d{3}Z$/);
  });

  it('gives no begin after its end, although a reading has set it back', () => {
    let count = 0;
    const clock = new ServerClock(() => count);
    const slow = clock.startReading();
    count += 4000;
    slow('2031-01-01T00:00:00.000Z');
    const begin = clock.timestamp();
    const quick = clock.startReading();
    count += 2;
    quick('2031-01-01T00:00:00.000Z');
    expect(Date.parse(clock.timestamp())).to.be.below(Date.parse(begin));
    const now = clock.timestamp();
    expect(clock.spanFrom(begin)).to.deep.equal({ startedAt: now, finishedAt: now });
    expect(clock.spanFrom(undefined)).to.deep.equal({ startedAt: now, finishedAt: now });
    count += 60_000;
    expect(clock.spanFrom(begin)).to.deep.equal({ startedAt: begin, finishedAt: clock.timestamp() });
  });

  it('is never less accurate than the fastest round trip, and never becomes worse', () => {
    const trips = fc.array(fc.tuple(fc.nat(10_000), fc.nat(10_000)), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(trips, fc.integer({ min: -1e12, max: 1e12 }), (list, offset) => {
        let count = 5000;
        const server = () => 1e12 + offset + count;
        const clock = new ServerClock(() => count);
        let quickest = Infinity;
        let before = Infinity;
        for (const [there, back] of list) {
          const told = clock.startReading();
          count += there;
          const at = new Date(server()).toISOString();
          count += back;
          told(at);
          quickest = Math.min(quickest, there + back);
          count += 60_000;
          const error = Math.abs(clock.now() - server());
          expect(error).to.be.at.most(Math.min(quickest, before) + 1e-3);
          before = error;
        }
      }),
    );
  });
});
