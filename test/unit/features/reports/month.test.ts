import { expect } from 'chai';
import { MONTH, removedBefore, spanOfMonth } from '../../../../src/features/reports/month.ts';

const iso = (month: string, timezone: string) => {
  const { from, to } = spanOfMonth(month, timezone);
  return [from.toISOString(), to.toISOString()];
};

describe('the month of a report', () => {
  it('begins and ends at midnight on the clocks of the zone, also where they are set in between', () => {
    expect(iso('2026-10', 'UTC')).to.deep.equal(['2026-10-01T00:00:00.000Z', '2026-11-01T00:00:00.000Z']);
    expect(iso('2026-10', 'Europe/Berlin')).to.deep.equal([
      '2026-09-30T22:00:00.000Z',
      '2026-10-31T23:00:00.000Z',
    ]);
    expect(iso('2026-12', 'Pacific/Kiritimati')).to.deep.equal([
      '2026-11-30T10:00:00.000Z',
      '2026-12-31T10:00:00.000Z',
    ]);
    // Samoa left out the whole of 30 December 2011.
    expect(iso('2011-12', 'Pacific/Apia')).to.deep.equal([
      '2011-12-01T10:00:00.000Z',
      '2011-12-31T10:00:00.000Z',
    ]);
  });

  it('ends with the year', () => {
    expect(iso('2027-12', 'UTC')[1]).to.equal('2028-01-01T00:00:00.000Z');
    expect(iso('9999-12', 'UTC')).to.have.length(2);
  });

  it('is written with a year of four digits from 1970 on and a month from 01 to 12', () => {
    for (const month of ['1970-01', '2026-09', '2026-10', '9999-12']) {
      expect(MONTH.test(month), month).to.equal(true);
    }
    for (const month of [
      '2026-13',
      '2026-00',
      '0000-01',
      '1969-12',
      '02026-10',
      '2026-1',
      '2026-10-01',
      ' 2026-10',
      '2026-10\n',
      '２０２６-10',
    ]) {
      expect(MONTH.test(month), month).to.equal(false);
    }
  });

  it('is complete as long as nothing of it can have been removed', () => {
    const from = new Date('2026-10-01T00:00:00Z');
    const at = (text: string) => Date.parse(text);
    expect(removedBefore({ from }, 90, at('2026-12-30T00:00:00Z'))).to.equal(undefined);
    expect(removedBefore({ from }, 90, at('2027-01-10T00:00:00Z'))).to.deep.equal(
      new Date('2026-10-12T00:00:00Z'),
    );
  });
});
