import { expect } from 'chai';
import { lastDue, monthBefore, nextDue } from '../../../../src/features/reports/due-times.ts';

const at = (text: string) => new Date(text);

describe('the due times of a monthly report', () => {
  const berlin = { dayOfMonth: 1, time: '08:30', timezone: 'Europe/Berlin' };

  it('are on the clocks of the zone, in summer and in winter', () => {
    expect(nextDue(berlin, at('2026-09-15T00:00:00Z'))).to.deep.equal(at('2026-10-01T06:30:00Z'));
    expect(nextDue(berlin, at('2026-10-01T06:30:00Z'))).to.deep.equal(at('2026-11-01T07:30:00Z'));
    expect(nextDue(berlin, at('2026-12-31T23:30:00Z'))).to.deep.equal(at('2027-01-01T07:30:00Z'));
  });

  it('are once a month where the clocks skip the time, or show it twice', () => {
    // In New York, 02:30 of 8 March 2026 does not exist, and 01:30 of 1 November 2026 exists twice.
    const skipped = { dayOfMonth: 8, time: '02:30', timezone: 'America/New_York' };
    expect(nextDue(skipped, at('2026-03-01T00:00:00Z'))).to.deep.equal(at('2026-03-08T07:00:00Z'));
    expect(nextDue(skipped, at('2026-03-08T07:00:00Z'))).to.deep.equal(at('2026-04-08T06:30:00Z'));
    const twice = { dayOfMonth: 1, time: '01:30', timezone: 'America/New_York' };
    expect(nextDue(twice, at('2026-10-31T00:00:00Z'))).to.deep.equal(at('2026-11-01T05:30:00Z'));
    expect(nextDue(twice, at('2026-11-01T05:30:00Z'))).to.deep.equal(at('2026-12-01T06:30:00Z'));
  });

  it('that passed while no server ran are made up for once, with the last of them', () => {
    const due = at('2026-07-01T06:30:00Z');
    expect(lastDue(berlin, due, at('2026-07-01T06:30:10Z'))).to.deep.equal(due);
    expect(lastDue(berlin, due, at('2026-10-20T00:00:00Z'))).to.deep.equal(at('2026-10-01T06:30:00Z'));
  });

  it('are about the month before, by the clocks of the zone', () => {
    expect(monthBefore(at('2026-11-01T07:30:00Z'), 'Europe/Berlin')).to.equal('2026-10');
    expect(monthBefore(at('2026-12-31T12:00:00Z'), 'Pacific/Kiritimati')).to.equal('2026-12');
    expect(monthBefore(at('2027-01-05T00:00:00Z'), 'UTC')).to.equal('2026-12');
  });
});
