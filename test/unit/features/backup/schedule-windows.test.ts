import { expect } from 'chai';
import {
  isEverDue,
  isWindowOpen,
  newestSlot,
  nextSlot,
  spreadSeconds,
  type BackupSchedule,
} from '../../../../src/features/backup/schedule.ts';
import { nextRun } from '../../../../src/platform/jobs/schedules.ts';

const at = (text: string) => new Date(`2026-${text}:00.000Z`);
const next = (schedule: BackupSchedule, after: Date) =>
  nextSlot(schedule, 'UTC', after).toISOString().slice(5, 16);
const NOON = at('06-10T12:00');

describe('a backup schedule', () => {
  it('is due at its time, or at the begin of its window, or at midnight', () => {
    expect(next({ frequency: 'daily', time: '02:15' }, NOON)).to.equal('06-11T02:15');
    expect(next({ frequency: 'daily', windowStart: '03:30', windowEnd: '05:00' }, NOON)).to.equal(
      '06-11T03:30',
    );
    expect(
      next({ frequency: 'daily', time: '04:00', windowStart: '03:30', windowEnd: '05:00' }, NOON),
    ).to.equal('06-11T04:00');
    expect(next({ frequency: 'daily' }, NOON)).to.equal('06-11T00:00');
    expect(next({ frequency: 'weekly', dayOfWeek: 1, time: '01:00' }, NOON)).to.equal('06-15T01:00');
    expect(next({ frequency: 'monthly', dayOfMonth: 5, time: '01:00' }, NOON)).to.equal('07-05T01:00');
    expect(next({ frequency: 'monthly', dayOfMonth: 'last', time: '01:00' }, NOON)).to.equal('06-30T01:00');
  });

  it('is due in each hour at the minute of its time, within its window only', () => {
    expect(next({ frequency: 'hourly' }, NOON)).to.equal('06-10T13:00');
    expect(next({ frequency: 'hourly', time: '00:20' }, NOON)).to.equal('06-10T12:20');
    const night = { frequency: 'hourly', windowStart: '22:30', windowEnd: '02:00' } as const;
    expect(next(night, NOON)).to.equal('06-10T23:00');
    expect(next(night, at('06-11T01:00'))).to.equal('06-11T23:00');
  });

  it('says whether it is ever due', () => {
    const narrow = { windowStart: '03:10', windowEnd: '03:20' };
    expect(isEverDue({ frequency: 'hourly', ...narrow })).to.equal(false);
    expect(isEverDue({ frequency: 'hourly', time: '00:15', ...narrow })).to.equal(true);
    expect(isEverDue({ frequency: 'daily', ...narrow })).to.equal(true);
    expect(isEverDue({ frequency: 'hourly' })).to.equal(true);
    expect(isEverDue({ frequency: 'hourly', windowStart: '23:00', windowEnd: '23:30' })).to.equal(true);
    expect(isEverDue({ frequency: 'hourly', windowStart: '09:00', windowEnd: '09:01' })).to.equal(true);
  });

  it('has its newest slot in the time that is asked about, the end included', () => {
    const newest = (schedule: BackupSchedule, after: Date, until: Date) =>
      newestSlot(schedule, 'UTC', { after, until })?.toISOString().slice(5, 16);
    const daily = { frequency: 'daily', time: '02:00' } as const;
    expect(newest(daily, at('06-08T00:00'), NOON)).to.equal('06-10T02:00');
    expect(newest(daily, at('06-10T02:00'), NOON)).to.equal(undefined);
    expect(newest(daily, at('06-10T01:59'), at('06-10T02:00'))).to.equal('06-10T02:00');
    expect(newest(daily, at('06-10T01:00'), at('06-10T01:59'))).to.equal(undefined);
  });

  it('looks back far enough for the last slot of each frequency', () => {
    const ages = (
      [
        { frequency: 'hourly', windowStart: '12:30', windowEnd: '13:10' },
        { frequency: 'daily', time: '12:01' },
        { frequency: 'weekly', dayOfWeek: 3, time: '12:01' },
        { frequency: 'monthly', dayOfMonth: 11, time: '12:00' },
      ] as const
    ).map((schedule) => {
      const slot = newestSlot(schedule, 'UTC', { after: at('01-01T00:00'), until: NOON });
      return slot === undefined ? undefined : Math.round((NOON.getTime() - slot.getTime()) / 3_600_000);
    });
    expect(ages).to.deep.equal([23, 24, 168, 720]);
  });

  it('has its window open from the begin on, and over midnight', () => {
    const open = (text: string, window: Partial<BackupSchedule>) =>
      isWindowOpen({ frequency: 'daily', ...window }, 'UTC', at(`06-10T${text}`));
    const night = { windowStart: '22:00', windowEnd: '02:00' };
    expect(
      ['21:59', '22:00', '23:59', '00:00', '01:59', '12:00'].map((text) => open(text, night)),
    ).to.deep.equal([false, true, true, true, true, false]);
    expect([
      open('12:00', {}),
      open('12:00', { windowStart: '22:00' }),
      open('12:00', { windowEnd: '02:00' }),
    ]).to.deep.equal([true, true, true]);
    expect(isWindowOpen({ frequency: 'daily', ...night }, 'Asia/Kathmandu', at('06-10T16:15'))).to.equal(
      true,
    );
    expect(isWindowOpen({ frequency: 'daily', ...night }, 'Asia/Kathmandu', at('06-10T16:14'))).to.equal(
      false,
    );
  });

  it('has a window open for its length if two hours were skipped over its begin', () => {
    // Troll goes from 01:00 to 03:00 at 01:00 UTC.
    const open = (text: string, windowStart: string, windowEnd: string) =>
      isWindowOpen({ frequency: 'daily', windowStart, windowEnd }, 'Antarctica/Troll', at(`03-29T${text}`));
    const openAt = (windowStart: string, windowEnd: string) =>
      ['00:59', '01:00', '01:44', '01:59', '02:29', '02:59', '03:00'].filter((text) =>
        open(text, windowStart, windowEnd),
      );
    expect(openAt('01:15', '02:45'), '90 minutes').to.deep.equal(['01:00', '01:44', '01:59', '02:29']);
    expect(openAt('01:00', '03:00'), 'two hours').to.deep.equal([
      '01:00',
      '01:44',
      '01:59',
      '02:29',
      '02:59',
    ]);
  });

  it('spreads devices over ten or thirty minutes, and never beyond the window', () => {
    const spread = (schedule: BackupSchedule) => spreadSeconds(schedule);
    expect(spread({ frequency: 'hourly' })).to.equal(600);
    for (const frequency of ['daily', 'weekly', 'monthly'] as const) {
      expect(spread({ frequency }), frequency).to.equal(1800);
    }
    expect(spread({ frequency: 'daily', windowStart: '22:00' })).to.equal(1800);
    expect(spread({ frequency: 'daily', windowEnd: '22:00' })).to.equal(1800);
    const window = { windowStart: '23:50', windowEnd: '00:10' };
    expect(spread({ frequency: 'daily', ...window })).to.equal(19 * 60 + 1);
    expect(spread({ frequency: 'daily', time: '00:05', ...window })).to.equal(4 * 60 + 1);
    expect(spread({ frequency: 'hourly', time: '00:05', ...window })).to.equal(600);
    expect(spread({ frequency: 'daily', time: '00:10', ...window })).to.equal(1);
    expect(spread({ frequency: 'daily', windowStart: '01:00', windowEnd: '05:00' })).to.equal(1800);
  });
});

describe('a schedule of five fields', () => {
  it('that is never due is an error', () => {
    expect(() => nextRun({ cron: '0 0 31 2 *', timeZone: 'UTC' }, NOON)).to.throw('is never due');
  });
});
