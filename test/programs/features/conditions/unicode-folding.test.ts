import { expect } from 'chai';
import { fold } from '../../../../src/features/conditions/conditions.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

describe('texts of conditions', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase();
  });
  after(async () => database.drop());

  it('are folded as Postgres folds them, letter by letter through all of Unicode', async () => {
    const rows = await asOwner<{ letter: string; small: string }>(
      database.ownerUrl,
      'select chr(n) as letter, lower(chr(n)) as small from generate_series(1, 1114111) n where n not between 55296 and 57343',
    );
    const otherwise = rows.filter(
      ({ letter, small }) => fold(letter) !== small || fold(`a${letter}b`) !== `a${small}b`,
    );
    expect(otherwise).to.deep.equal([]);
  });
});
