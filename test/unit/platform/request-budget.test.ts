import { expect } from 'chai';
import { RequestBudget } from '../../../src/platform/request-budget.ts';

describe('a budget of requests', () => {
  it('refuses what is beyond it, each key by itself, until the window is over', () => {
    const budget = new RequestBudget({ requests: 3, windowMs: 1000 });
    expect([1, 2, 3].map((at) => budget.spend('a', at))).to.deep.equal([undefined, undefined, undefined]);
    expect(budget.spend('a', 401)).to.equal(600);
    expect(budget.spend('b', 402)).to.equal(undefined);
    expect(budget.spend('a', 1000)).to.equal(1);
    expect(budget.spend('a', 1001)).to.equal(undefined);
  });
});
