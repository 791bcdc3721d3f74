import { expect } from 'chai';
import { cronFault, newestSlot, nextSlots } from '../../../../src/features/script-schedules/cron.ts';

const iso = (dates: readonly Date[]) => dates.map((date) => date.toISOString());
const at = (text: string) => new Date(text);

describe('a cron expression of a schedule', () => {
  for (const cron of [
    '*/5 * * * *',
    '30 2 * * 1-5',
    '0 0 L * *',
    '0,30 8-18 * * MON',
    '0 0 29 2 *',
    '15 4 * * SUN#1',
  ]) {
    it(`may be ${cron}`, () => expect(cronFault(cron)).to.equal(undefined));
  }

  const FIELDS = /five fields/;
  const OFTEN = /more often/;
  const NEVER = /at some time/;
  for (const [cron, rule] of [
    ['* * * * * *', FIELDS],
    ['* * * *', FIELDS],
    ['', FIELDS],
    ['@daily', FIELDS],
    ['0 0 * * * 2030', FIELDS],
    ['a; b c d e', FIELDS],
    ['* * * * *', OFTEN],
    ['*/4 * * * *', OFTEN],
    ['0,1 3 * * *', OFTEN],
    ['0,58 * * * *', OFTEN],
    ['59,0 23,0 * * *', OFTEN],
    ['0 0 31 2 *', NEVER],
    ['61 0 * * *', NEVER],
    ['x 0 * * *', NEVER],
  ] as const) {
    it(`may not be ${JSON.stringify(cron)}`, () => expect(cronFault(cron)).to.match(rule));
  }
});

describe('the times of a schedule', () => {
  const berlin = (cron: string) => ({ cron, timezone: 'Europe/Berlin' });

  it('that clocks skip come once, at the next moment that there is', () => {
    expect(iso(nextSlots(berlin('30 2 * * *'), at('2026-03-28T12:00:00Z'), 2))).to.deep.equal([
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T00:30:00.000Z',
    ]);
  });

  it('that clocks show twice come once', () => {
    expect(iso(nextSlots(berlin('30 2 * * *'), at('2026-10-24T12:00:00Z'), 2))).to.deep.equal([
      '2026-10-25T00:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
    ]);
  });

  it('that were missed are made up for by the newest', () => {
    const hourly = { cron: '0 * * * *', timezone: 'UTC' };
    expect(newestSlot(hourly, at('2026-06-01T00:00:00Z'), at('2026-06-21T10:30:00Z'))).to.deep.equal(
      at('2026-06-21T10:00:00Z'),
    );
    const monthly = { cron: '0 3 1 * *', timezone: 'UTC' };
    expect(newestSlot(monthly, at('2026-03-01T03:00:00Z'), at('2026-06-21T10:30:00Z'))).to.deep.equal(
      at('2026-06-01T03:00:00Z'),
    );
    const due = at('2026-06-21T10:00:00Z');
    expect(newestSlot(hourly, due, due)).to.deep.equal(due);
  });
});
