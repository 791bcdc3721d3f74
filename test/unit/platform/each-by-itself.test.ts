import { expect } from 'chai';
import { eachByItself } from '../../../src/platform/concurrency.ts';

describe('work that is done for each item by itself', () => {
  it('goes on behind an item that fails, and says how many have', async () => {
    const done: number[] = [];
    const failures: unknown[] = [];
    const failed = await eachByItself(
      [1, 2, 3, 4],
      async (item) => {
        if (item % 2 === 0) throw new Error(`no ${item}`);
        done.push(item);
      },
      (error, item) => failures.push([String(error), item]),
    );
    expect([failed, done]).to.deep.equal([2, [1, 3]]);
    expect(failures).to.deep.equal([
      ['Error: no 2', 2],
      ['Error: no 4', 4],
    ]);
  });

  it('ends if the database is away, because no other item would fare better', async () => {
    const away = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    const tried: number[] = [];
    const work = async (item: number) => {
      tried.push(item);
      throw away;
    };
    const error: unknown = await eachByItself([1, 2], work, () => undefined).catch(
      (caught: unknown) => caught,
    );
    expect([error, tried]).to.deep.equal([away, [1]]);
  });
});
