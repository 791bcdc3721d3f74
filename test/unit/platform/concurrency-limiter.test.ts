import { expect } from 'chai';
import sinon from 'sinon';
import { ConcurrencyLimiter, ExpensiveWork } from '../../../src/platform/concurrency.ts';
import { AppError } from '../../../src/platform/errors.ts';

const settle = () => new Promise((resolve) => setImmediate(resolve));

/** Work that records its start and ends when the test says so. */
function works(run: (work: () => Promise<void>, options?: object) => Promise<void>) {
  const began: string[] = [];
  const end = new Map<string, () => void>();
  const outcomes = new Map<string, unknown>();
  return {
    began,
    outcomes,
    end: (name: string) => end.get(name)?.(),
    begin(name: string, options?: object) {
      void run(async () => {
        began.push(name);
        await new Promise<void>((resolve) => end.set(name, resolve));
      }, options).then(
        () => outcomes.set(name, 'done'),
        (error: unknown) => outcomes.set(name, error),
      );
    },
  };
}

describe('work that has limits', () => {
  const codeOf = (error: unknown) => (error instanceof AppError ? [error.code, error.retryAfterMs] : error);

  it('runs at once while there is room, and then in its order, as others end', async () => {
    const limiter = new ConcurrencyLimiter();
    const work = works((one) => limiter.run([{ key: 'a', max: 2 }], one));
    for (const name of ['1', '2', '3', '4']) work.begin(name);
    await settle();
    expect(work.began).to.deep.equal(['1', '2']);
    expect(limiter.waiting).to.equal(2);
    work.end('2');
    await settle();
    expect(work.began).to.deep.equal(['1', '2', '3']);
    work.end('1');
    work.end('3');
    await settle();
    work.end('4');
    await settle();
    expect([...work.outcomes.values()]).to.deep.equal(['done', 'done', 'done', 'done']);
    expect(limiter.waiting).to.equal(0);
  });

  it('gives its room back when it fails', async () => {
    const limiter = new ConcurrencyLimiter();
    const shares = [{ key: 'a', max: 1 }];
    for (let n = 0; n < 3; n++) {
      const failed = await limiter.run(shares, () => Promise.reject(new Error('no'))).catch(String);
      expect(failed).to.equal('Error: no');
    }
  });

  it('passes work that waits for another share', async () => {
    const limiter = new ConcurrencyLimiter();
    const all = { key: 'all', max: 3 };
    const mine = works((one) => limiter.run([{ key: 'me', max: 2 }, all], one));
    const theirs = works((one) => limiter.run([{ key: 'they', max: 2 }, all], one));
    for (const name of ['1', '2', '3']) mine.begin(name);
    theirs.begin('other');
    await settle();
    expect([mine.began, theirs.began]).to.deep.equal([['1', '2'], ['other']]);
    mine.end('1');
    await settle();
    expect(mine.began).to.deep.equal(['1', '2', '3']);
  });

  it('is refused when it has waited too long, or when too much waits already', async () => {
    const clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const limiter = new ConcurrencyLimiter({ waitMs: 3000, waitingMax: 2 });
      const work = works((one, options) => limiter.run([{ key: 'a', max: 1 }], one, options));
      for (const name of ['runs', 'waits', 'waits too', 'is too many']) work.begin(name);
      await settle();
      expect(codeOf(work.outcomes.get('is too many'))).to.deep.equal(['rate_limited', 2000]);
      work.begin('is patient', { isPatient: true });
      await clock.tickAsync(3000);
      expect(codeOf(work.outcomes.get('waits'))).to.deep.equal(['rate_limited', 2000]);
      expect(codeOf(work.outcomes.get('waits too'))).to.deep.equal(['rate_limited', 2000]);
      expect(limiter.refused).to.equal(3);
      work.end('runs');
      await settle();
      expect(work.began).to.deep.equal(['runs', 'is patient']);
    } finally {
      clock.restore();
    }
  });

  it('leaves the queue when its caller has gone', async () => {
    const limiter = new ConcurrencyLimiter();
    const work = works((one, options) => limiter.run([{ key: 'a', max: 1 }], one, options));
    const gone = new AbortController();
    work.begin('runs');
    work.begin('is left', { signal: gone.signal });
    work.begin('waits');
    await settle();
    gone.abort();
    await settle();
    expect(limiter.waiting).to.equal(1);
    work.end('runs');
    await settle();
    expect(work.began).to.deep.equal(['runs', 'waits']);
  });

  it('lets others wait, however much work one person has waiting', async () => {
    const expensive = new ExpensiveWork({ poolSize: 10 });
    const ofPerson = (userId: string, partnerId: string) =>
      works((one) => expensive.run({ userId, partnerId, orgId: null }, one));
    // Three people keep the share of all busy, and one of them asks for much more.
    const busy = [ofPerson('a', 'one'), ofPerson('b', 'two'), ofPerson('c', 'three')];
    for (const work of busy) for (let n = 0; n < 3; n++) work.begin(String(n));
    const [greedy] = busy;
    for (let n = 3; n < 60; n++) greedy?.begin(String(n));
    const other = ofPerson('d', 'four');
    other.begin('0');
    await settle();
    expect(other.outcomes.size).to.equal(0);
    expect([...(greedy?.outcomes.values() ?? [])].map(codeOf)).to.deep.equal(
      Array.from({ length: 17 }, () => ['rate_limited', 2000]),
    );
    for (const work of busy) for (let n = 0; n < 3; n++) work.end(String(n));
    await settle();
    expect(other.began).to.deep.equal(['0']);
    for (let n = 0; n < 60; n++) {
      for (const work of [...busy, other]) work.end(String(n));
      await settle();
    }
  });

  it('leaves connections to other people, other partners and cheap requests', async () => {
    const expensive = new ExpensiveWork({ poolSize: 10 });
    const of = (userId: string, partnerId: string) =>
      works((one) => expensive.run({ userId, partnerId, orgId: null }, one));
    const begun = [];
    for (const [user, partner] of [
      ['a', 'one'],
      ['b', 'one'],
      ['c', 'two'],
      ['d', 'two'],
      ['e', 'three'],
    ] as const) {
      const work = of(user, partner);
      for (let n = 0; n < 5; n++) work.begin(String(n));
      begun.push(work.began);
    }
    await settle();
    expect(begun.map((some) => some.length)).to.deep.equal([3, 2, 3, 0, 0]);
  });
});
