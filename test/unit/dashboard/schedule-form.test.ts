import { expect } from 'chai';
import { cronOf, timesFormOf, timesText } from '../../../src/dashboard/features/scripts/schedule-form.ts';

describe('the times of a script schedule in a form', () => {
  for (const [cron, frequency, text] of [
    ['0 * * * *', 'hourly', 'Every hour'],
    ['15 * * * *', 'hourly', 'Every hour, 15 minutes past'],
    ['30 2 * * *', 'daily', 'Every day at 02:30'],
    ['0 4 * * 1', 'weekly', 'Monday at 04:00'],
    ['0 4 * * 0,1,5', 'weekly', 'Monday, Friday and Sunday at 04:00'],
    ['5 23 L * *', 'monthly', 'The last day of each month at 23:05'],
    ['5 23 14 * *', 'monthly', 'Day 14 of each month at 23:05'],
    ['*/10 8-18 * * 1-5', 'cron', 'By */10 8-18 * * 1-5'],
    ['7 * * * *', 'cron', 'By 7 * * * *'],
    ['0 4 * 6 *', 'cron', 'By 0 4 * 6 *'],
    ['0 4 31 * *', 'cron', 'By 0 4 31 * *'],
    ['0 4 1 * 1', 'cron', 'By 0 4 1 * 1'],
    ['0 4 * * 7', 'cron', 'By 0 4 * * 7'],
  ] as const) {
    it(`reads ${cron} and gives it back`, () => {
      const form = timesFormOf(cron);
      expect(form.frequency).to.equal(frequency);
      expect(cronOf(form)).to.equal(cron);
      expect(timesText({ cron, timezone: 'UTC' })).to.equal(`${text}, UTC`);
    });
  }

  it('begins with a night', () => {
    expect(cronOf(timesFormOf(undefined))).to.equal('30 2 * * *');
  });
});
