import { expect } from 'chai';
import { sqlChanges } from '../../mutation/sql-guards.ts';

/** Of the code: each change, as what it replaces and by what. */
const changes = (source: string) =>
  sqlChanges('statements.ts', source).map(
    ({ start, end, replacement }) => `${source.slice(start, end)} -> ${replacement}`,
  );

describe('the changes of SQL in mutation testing', () => {
  it('make one condition true and keep its parameters', () => {
    expect(
      changes('const text = `update jobs set state = $1 where id = $2 and lease_id = $3 returning id`;'),
    ).to.deep.equal(['lease_id = $3 -> (lease_id = $3 or true)']);
  });

  it('take a condition as far as it reaches', () => {
    expect(
      changes(
        "const text = `select from t where (a = $1 or b = 'x and y') and (c is distinct from $2 or exists (select from u where v)) order by a`;",
      ),
    ).to.deep.equal([
      "(a = $1 or b = 'x and y') -> ((a = $1 or b = 'x and y') or true)",
      '(c is distinct from $2 or exists (select from u where v)) -> ((c is distinct from $2 or exists (select from u where v)) or true)',
      'v -> (v or true)',
    ]);
  });

  it('leave a range whole', () => {
    expect(changes("tx.raw('select from t where id = ? and a between ? and ? and b')")).to.deep.equal([
      'a between ? and ? -> (a between ? and ? or true)',
      'b -> (b or true)',
    ]);
  });

  it('pass over interpolations', () => {
    expect(
      changes('const text = `select from t where id = $1 and ${isOpen("a and b")} and c`;'),
    ).to.deep.equal(['${isOpen("a and b")} -> (${isOpen("a and b")} or true)', 'c -> (c or true)']);
  });

  it('take away locks, and the waiting for them', () => {
    expect(changes("tx.raw('select a from t where id = 1 for update skip locked')")).to.deep.equal([
      ' for update skip locked -> ',
      ' skip locked -> ',
    ]);
  });

  it('move bounds, but not those in time', () => {
    expect(
      changes("tx.raw('select a from t where id = 1 and tries < 5 and until > now()')").filter(
        (change) => !change.endsWith('or true)'),
      ),
    ).to.deep.equal(['< -> <=']);
  });

  it('leave out assignments, but not those of a parameter', () => {
    expect(
      changes("tx.raw('update t set a = ?, b = greatest(t.b, 2), c = null where id = 1')"),
    ).to.deep.equal(['b = greatest(t.b, 2),  -> ', ', c = null -> ']);
    expect(changes("const WAITING = 'a = null, b = null';")).to.deep.equal([
      'a = null,  -> ',
      ', b = null -> ',
    ]);
  });

  it('leave out calls and properties of a query builder, but not the key', () => {
    expect(
      changes(
        "tx('t').where('id', id).whereNull('ended_at').where({ a, b }).forUpdate().update({ c: 1, d: 2 });",
      ),
    ).to.deep.equal([
      ".whereNull('ended_at') -> ",
      'a,  -> ',
      ', b -> ',
      '.forUpdate() -> ',
      'c: 1,  -> ',
      ', d: 2 -> ',
    ]);
  });

  it('leave sentences for people alone', () => {
    expect(
      changes("throw new Error('It is gone and where it went is unknown, for update see below.')"),
    ).to.deep.equal([]);
  });
});
