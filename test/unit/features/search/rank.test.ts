import { expect } from 'chai';
import fc from 'fast-check';
import { mix, type Rank, type Ranked, rankOf } from '../../../../src/features/search/search.schema.ts';

describe('the order of search results', () => {
  it('distinguishes the whole name, its start, the start of a word and any other part', () => {
    expect(rankOf('srv-sql-01', 'srv-sql-01')).to.equal(0);
    expect(rankOf('srv-sql-01', 'srv')).to.equal(1);
    expect(rankOf('srv-sql-01', 'sql')).to.equal(2);
    expect(rankOf('srv-sql-01', 'sql-0')).to.equal(2);
    expect(rankOf('srv-sql-01', 'ql')).to.equal(3);
    expect(rankOf('srv-sql-01', 'db')).to.equal(undefined);
  });

  const type = fc.constantFrom('devices', 'scripts', 'alerts', 'settings');
  const list = fc
    .array(fc.record({ rank: fc.constantFrom<Rank>(0, 1, 2, 3), id: fc.uuid(), type }))
    .map((found) =>
      found
        .map(({ rank, id, type }): Ranked => ({ rank, result: { id, type, title: id } }))
        .sort((a, b) => a.rank - b.rank),
    );

  it('fills the page with the best results, and lets no list crowd out another', () => {
    fc.assert(
      fc.property(fc.array(list, { maxLength: 4 }), fc.integer({ min: 1, max: 50 }), (lists, limit) => {
        const all = lists.flat();
        const mixed = mix(lists, limit);
        expect(mixed).to.have.length(Math.min(limit, all.length));
        expect(new Set(mixed).size).to.equal(mixed.length);
        const ranks = mixed.map((result) => all.find((one) => one.result === result)?.rank ?? -1);
        expect(ranks).to.deep.equal([...ranks].sort((a, b) => a - b));
        for (const one of lists) {
          const own = one.map(({ result }) => result);
          const taken = own.filter((result) => mixed.includes(result)).length;
          expect(taken).to.be.at.least(Math.min(own.length, Math.floor(limit / 4)));
          // The best of a list come before its others.
          expect(own.slice(0, taken).every((result) => mixed.includes(result))).to.equal(true);
        }
        // Nothing better was left out than the worst that was not sure of its place.
        const left = all.filter(({ result }) => !mixed.includes(result)).map(({ rank }) => rank);
        const unsure = lists.flatMap((one) =>
          one.slice(Math.floor(limit / 4)).filter(({ result }) => mixed.includes(result)),
        );
        for (const { rank } of unsure) expect(rank).to.be.at.most(Math.min(4, ...left));
      }),
    );
  });
});
