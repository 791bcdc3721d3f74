import { expect } from 'chai';
import fc from 'fast-check';
import {
  localTime,
  BackupSchedule,
  isEverDue,
  isWindowOpen,
  newestSlot,
  nextSlot,
  spreadSeconds,
} from '../../../../src/features/backup/schedule.ts';

const schedule = (given: unknown) => BackupSchedule.parse(given);
const at = (text: string) => new Date(text);
const faults = (given: unknown) =>
  BackupSchedule.safeParse(given).error?.issues.map(({ path }) => path.join('.')) ?? [];

const zones = fc.constantFrom(
  'Europe/Berlin',
  'America/New_York',
  'Australia/Lord_Howe',
  'Asia/Kathmandu',
  'UTC',
);
const clock = fc
  .tuple(fc.integer({ min: 0, max: 23 }), fc.integer({ min: 0, max: 59 }))
  .map(([hour, minute]) => `${String(hour).padStart(2, '0')}:${String(minute).padStart(2, '0')}`);
const schedules = fc
  .record({
    frequency: fc.constantFrom('hourly', 'daily', 'weekly', 'monthly'),
    time: fc.option(clock, { nil: undefined }),
    window: fc.option(fc.tuple(clock, clock), { nil: undefined }),
    day: fc.integer({ min: 0, max: 6 }),
    dayOfMonth: fc.oneof(fc.integer({ min: 1, max: 28 }), fc.constant('last')),
  })
  .map(({ frequency, time, window, day, dayOfMonth }) => ({
    frequency,
    ...(time === undefined ? {} : { time }),
    ...(window === undefined ? {} : { windowStart: window[0], windowEnd: window[1] }),
    ...(frequency === 'weekly' ? { dayOfWeek: day } : {}),
    ...(frequency === 'monthly' ? { dayOfMonth } : {}),
  }))
  .filter((given) => BackupSchedule.safeParse(given).success)
  .map(schedule)
  .filter(isEverDue);
const instants = fc.date({ min: at('2024-01-01'), max: at('2030-01-01'), noInvalidDate: true });

describe('the schedule of a backup', () => {
  it('has its slots at the time on the wall of the zone', () => {
    const daily = schedule({ frequency: 'daily', time: '02:15' });
    const slot = nextSlot(daily, 'Europe/Berlin', at('2026-07-01T12:00:00Z'));
    expect(slot.toISOString()).to.equal('2026-07-02T00:15:00.000Z');
    const last = nextSlot(
      schedule({ frequency: 'monthly', dayOfMonth: 'last' }),
      'UTC',
      at('2026-02-10T00:00:00Z'),
    );
    expect(last.toISOString()).to.equal('2026-02-28T00:00:00.000Z');
    const monday = nextSlot(
      schedule({ frequency: 'weekly', dayOfWeek: 1 }),
      'UTC',
      at('2026-11-22T00:00:00Z'),
    );
    expect(monday.toISOString()).to.equal('2026-11-23T00:00:00.000Z');
  });

  it('has one slot on each day, even if clocks are set forward over it or back', () => {
    const daily = schedule({ frequency: 'daily', time: '02:30' });
    for (const day of ['2026-03-28T12:00:00Z', '2026-10-24T12:00:00Z']) {
      const first = nextSlot(daily, 'Europe/Berlin', at(day));
      const second = nextSlot(daily, 'Europe/Berlin', first);
      const days = [first, second].map((slot) => localTime(slot, 'Europe/Berlin').day);
      expect(new Set(days).size, day).to.equal(2);
      expect(second.getTime() - first.getTime()).to.be.greaterThan(22 * 3_600_000);
    }
  });

  it('makes up for the newest of several missed slots, and for none from before it was set', () => {
    const daily = schedule({ frequency: 'daily', time: '03:00' });
    const until = at('2026-05-10T12:00:00Z');
    expect(newestSlot(daily, 'UTC', { after: at('2026-01-01T00:00:00Z'), until })).to.deep.equal(
      at('2026-05-10T03:00:00Z'),
    );
    expect(newestSlot(daily, 'UTC', { after: at('2026-05-10T03:00:00Z'), until })).to.equal(undefined);
    expect(newestSlot(daily, 'UTC', { after: until, until })).to.equal(undefined);
  });

  it('finds the newest slot as counting through all of them does', () => {
    fc.assert(
      fc.property(
        schedules,
        zones,
        instants,
        fc.integer({ min: 0, max: 40 * 24 * 60 }),
        (given, zone, after, minutes) => {
          const until = new Date(after.getTime() + minutes * 60_000);
          let counted: Date | undefined;
          for (let slot = nextSlot(given, zone, after); slot <= until; slot = nextSlot(given, zone, slot)) {
            counted = slot;
          }
          expect(newestSlot(given, zone, { after, until })?.toISOString()).to.equal(counted?.toISOString());
        },
      ),
      { numRuns: 25 },
    );
  });

  it('has each slot within its window, even if clocks are set forward', () => {
    fc.assert(
      fc.property(schedules, zones, instants, (given, zone, after) => {
        const slot = nextSlot(given, zone, after);
        expect(slot > after).to.equal(true);
        expect(isWindowOpen(given, zone, slot), slot.toISOString()).to.equal(true);
      }),
      { numRuns: 60 },
    );
  });

  it('spreads devices over no more than the rest of the window', () => {
    expect(spreadSeconds(schedule({ frequency: 'daily' }))).to.equal(1800);
    const night = { frequency: 'daily', time: '23:50', windowStart: '22:00', windowEnd: '00:05' };
    expect(spreadSeconds(schedule(night))).to.equal(14 * 60 + 1);
    fc.assert(
      fc.property(schedules, (given) => {
        expect(spreadSeconds(given)).to.be.within(1, 1800);
      }),
    );
  });

  it('refuses what contradicts itself, by the name of the field', () => {
    expect(faults({ frequency: 'daily', dayOfWeek: 1 })).to.deep.equal(['dayOfWeek']);
    expect(faults({ frequency: 'weekly' })).to.deep.equal(['dayOfWeek']);
    expect(faults({ frequency: 'monthly', dayOfMonth: 31 })).to.deep.equal(['dayOfMonth']);
    expect(faults({ frequency: 'monthly' })).to.deep.equal(['dayOfMonth']);
    expect(faults({ frequency: 'daily', time: '24:00' })).to.deep.equal(['time']);
    expect(faults({ frequency: 'daily', timezone: 'Europe/Nowhere' })).to.deep.equal(['timezone']);
    expect(faults({ frequency: 'daily', windowStart: '20:00' })).to.deep.equal(['windowEnd']);
    expect(faults({ frequency: 'daily', windowEnd: '20:00' })).to.deep.equal(['windowStart']);
    expect(faults({ frequency: 'daily', windowStart: '20:00', windowEnd: '20:00' })).to.deep.equal([
      'windowEnd',
    ]);
    const outside = { frequency: 'daily', time: '12:00', windowStart: '20:00', windowEnd: '06:00' };
    expect(faults(outside)).to.deep.equal(['time']);
    const never = { frequency: 'hourly', time: '00:45', windowStart: '10:00', windowEnd: '10:30' };
    expect(isEverDue(schedule(never))).to.equal(false);
  });
});
