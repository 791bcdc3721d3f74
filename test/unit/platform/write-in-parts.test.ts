import { expect } from 'chai';
import fc from 'fast-check';
import { isAboutRecords, writeInParts } from '../../../src/platform/db/write-in-parts.ts';

const dataException = () => Object.assign(new Error('unsupported Unicode escape'), { code: '22P05' });
const away = () => Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });

describe('a batch of which single records may be refused', () => {
  it('is written but for the records that are refused alone, in its order and with few statements', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.nat(2000), { maxLength: 600 }),
        fc.func(fc.nat(30)),
        async (records, kind) => {
          const isBad = (record: number) => kind(record) === 0;
          let statements = 0;
          const outcome = await writeInParts(records, async (part) => {
            statements += 1;
            if (part.some(isBad)) throw dataException();
            return part;
          });
          expect(outcome.written.flat()).to.deep.equal(records.filter((record) => !isBad(record)));
          expect(outcome.refused.map(({ record }) => record)).to.deep.equal(records.filter(isBad));
          expect([outcome.failure, outcome.unwritten]).to.deep.equal([undefined, []]);
          const bad = records.filter(isBad).length;
          expect(statements).to.be.at.most(1 + bad * 2 * Math.ceil(Math.log2(records.length + 1)));
        },
      ),
    );
  });

  it('loses and repeats no record when the database goes away in the middle of it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.nat(2000), { maxLength: 100 }),
        fc.func(fc.nat(5)),
        fc.nat(12),
        async (records, kind, goesAwayAfter) => {
          let statements = 0;
          const failure = away();
          const outcome = await writeInParts(records, async (part) => {
            statements += 1;
            if (statements > goesAwayAfter) throw failure;
            if (part.some((record) => kind(record) === 0)) throw dataException();
            return part;
          });
          const refused = outcome.refused.map(({ record }) => record);
          const all = [...outcome.written.flat(), ...refused, ...outcome.unwritten];
          expect(all).to.have.members(records);
          expect(all).to.have.length(records.length);
          expect(outcome.failure).to.equal(outcome.unwritten.length > 0 ? failure : undefined);
          expect(refused.every((record) => kind(record) === 0)).to.equal(true);
          // Nothing was tried any more behind the statement that met no database.
          expect(statements).to.be.at.most(goesAwayAfter + 1);
        },
      ),
    );
  });

  it('is split over errors that depend on the records, and over no other', () => {
    const withCode = (code: string) => Object.assign(new Error('x'), { code });
    for (const code of ['22P05', '22003', '23514', '21000', '54000', 'P0001', 'XX000']) {
      expect(isAboutRecords(withCode(code)), code).to.equal(true);
    }
    expect(isAboutRecords(new TypeError('x is undefined'))).to.equal(true);
    // The database is away, busy, or another one than expected: the same records can be written later.
    for (const code of [
      '08006',
      '40001',
      '40P01',
      '42P01',
      '53300',
      '57P01',
      '57014',
      '0A000',
      'ECONNRESET',
    ]) {
      expect(isAboutRecords(withCode(code)), code).to.equal(false);
    }
    expect(isAboutRecords(new Error('Connection terminated unexpectedly'))).to.equal(false);
    expect(isAboutRecords(undefined)).to.equal(false);
  });
});
