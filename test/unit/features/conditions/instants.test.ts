import { expect } from 'chai';
import {
  agoOf,
  boundAt,
  elapsed,
  instantText,
  spanOf,
} from '../../../../src/features/conditions/instants.ts';

const DAY_MS = 86_400_000;

/** Both backends of filters take their times from here, so comparing them with each other finds no fault in it. */
describe('the times of a filter', () => {
  const monthsBefore = (now: string, months: number) =>
    new Date(boundAt({ before: agoOf(months, 'months') }, Date.parse(now))).toISOString();

  it('are calendar months ago, on the last day of a month that is shorter', () => {
    expect(monthsBefore('2026-03-31T12:00:00.000Z', 1)).to.equal('2026-02-28T12:00:00.000Z');
    expect(monthsBefore('2024-03-30T12:00:00.000Z', 1)).to.equal('2024-02-29T12:00:00.000Z');
    expect(monthsBefore('2026-05-31T23:59:59.999Z', 6)).to.equal('2025-11-30T23:59:59.999Z');
    expect(monthsBefore('2026-03-28T00:00:00.000Z', 1)).to.equal('2026-02-28T00:00:00.000Z');
    expect(monthsBefore('2026-01-31T00:00:00.000Z', 13)).to.equal('2024-12-31T00:00:00.000Z');
    expect(monthsBefore('2026-01-31T00:00:00.000Z', 0)).to.equal('2026-01-31T00:00:00.000Z');
  });

  it('are before all times if so many months ago there is none', () => {
    expect(boundAt({ before: agoOf(4_000_000, 'months') }, 0)).to.equal(-Infinity);
  });

  it('are a duration ago in all other units', () => {
    const now = Date.parse('2026-03-31T12:00:00.000Z');
    const ago = (amount: number, unit: Parameters<typeof agoOf>[1]) =>
      now - boundAt({ before: agoOf(amount, unit) }, now);
    expect([ago(3, 'minutes'), ago(2, 'hours'), ago(1, 'days'), ago(1, 'weeks')]).to.deep.equal([
      180_000,
      7_200_000,
      DAY_MS,
      7 * DAY_MS,
    ]);
    expect(boundAt({ at: 5 }, now)).to.equal(5);
  });

  it('cover the whole day if only the day is given', () => {
    const from = Date.parse('2026-03-31T00:00:00Z');
    expect(spanOf('2026-03-31')).to.deep.equal({ from, to: from + DAY_MS - 1 });
    expect(spanOf('2026-03-31T02:00+02:00')).to.deep.equal({ from, to: from });
    expect([spanOf('2026-02-29'), spanOf('2026-03-31T02:00'), spanOf('31.3.2026')]).to.deep.equal([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('of a number of days are compared to the millisecond', () => {
    expect(elapsed(1)).to.deep.equal({
      more: { ms: DAY_MS + 1 },
      atLeast: { ms: DAY_MS },
      less: { ms: DAY_MS - 1 },
      atMost: { ms: DAY_MS },
    });
    // A day and a half of a millisecond.
    expect(elapsed(1 + 0.5 / DAY_MS)).to.deep.equal({
      more: { ms: DAY_MS + 1 },
      atLeast: { ms: DAY_MS + 1 },
      less: { ms: DAY_MS },
      atMost: { ms: DAY_MS },
    });
  });

  it('are written for Postgres as infinite if it has no such day', () => {
    expect(instantText(Date.parse('2026-03-31T12:00:00.000Z'))).to.equal('2026-03-31T12:00:00.000Z');
    const [first, last] = [Date.parse('0001-01-01T00:00:00.000Z'), Date.parse('9999-12-31T23:59:59.999Z')];
    expect([first - 1, first, last, last + 1].map(instantText)).to.deep.equal([
      '-infinity',
      '0001-01-01T00:00:00.000Z',
      '9999-12-31T23:59:59.999Z',
      'infinity',
    ]);
  });
});
