import { expect } from 'chai';
import fc from 'fast-check';
import { arrayLiteral } from '../../../src/platform/db/statement.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../support/test-postgres.ts';

describe('an array written out for Postgres', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase();
  });
  after(() => database.drop());

  it('is read as what it was made of, whatever is in its texts', async () => {
    const hostile = fc.constantFrom(
      'NULL',
      'null',
      '',
      ' ',
      '"',
      '\\',
      '{',
      '}',
      ',',
      '{"a"}',
      '\\"',
      "';--",
    );
    const kept = fc.string({ unit: 'grapheme' }).map((value) => value.replaceAll('\0', ''));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(fc.oneof(hostile, kept)), { maxLength: 8 }), async (values) => {
        const [row] = await asOwner(database.ownerUrl, 'select $1::text[] as read', [arrayLiteral(values)]);
        expect(row).to.deep.equal({ read: values });
      }),
      { numRuns: 60 },
    );
  });

  it('holds numbers as they are', async () => {
    const numbers = [0, -1, 1.25, 1e21, null, 10_000_000_000];
    const [row] = await asOwner(database.ownerUrl, 'select $1::float8[] as read', [arrayLiteral(numbers)]);
    expect(row).to.deep.equal({ read: numbers });
  });
});
