import { expect } from 'chai';
import fc from 'fast-check';
import {
  isWindowOpen,
  newestSlot,
  nextSlot,
  spreadSeconds,
  type BackupSchedule,
} from '../../../../src/features/backup/schedule.ts';

/** Nights in which clocks are set forward, by zone: the moment of the change. */
const CHANGES = {
  'Europe/Berlin': '2026-03-29T01:00:00Z',
  'America/New_York': '2026-03-08T07:00:00Z',
  'Australia/Lord_Howe': '2026-10-03T15:30:00Z',
  'Africa/Cairo': '2026-04-23T22:00:00Z',
  'America/Santiago': '2026-09-06T04:00:00Z',
} as const;
const MINUTE = 60_000;
const daily = (windowStart: string, windowEnd: string): BackupSchedule => ({
  frequency: 'daily',
  windowStart,
  windowEnd,
});
/** The minutes from the change on in which the window is open, of the four hours around it. */
const openAround = (schedule: BackupSchedule, timeZone: keyof typeof CHANGES) => {
  const change = Date.parse(CHANGES[timeZone]);
  return Array.from({ length: 240 }, (_, n) => n - 60).filter((minute) =>
    isWindowOpen(schedule, timeZone, new Date(change + minute * MINUTE)),
  );
};
const bounds = (minutes: number[]) => [minutes[0], minutes.at(-1), minutes.length];

describe('a window of backups over which clocks are set forward', () => {
  it('is open from the change on if its begin is skipped, and keeps its length if its end is', () => {
    expect(bounds(openAround(daily('02:00', '03:00'), 'Europe/Berlin'))).to.deep.equal([0, 59, 60]);
    expect(bounds(openAround(daily('02:30', '02:45'), 'Europe/Berlin'))).to.deep.equal([0, 44, 45]);
    expect(bounds(openAround(daily('02:30', '03:10'), 'Europe/Berlin'))).to.deep.equal([0, 39, 40]);
    // The end of a long one stays.
    expect(bounds(openAround(daily('02:30', '05:00'), 'Europe/Berlin'))).to.deep.equal([0, 119, 120]);
    expect(bounds(openAround(daily('01:30', '02:30'), 'Europe/Berlin'))).to.deep.equal([-30, 29, 60]);
    expect(bounds(openAround(daily('02:00', '02:30'), 'Australia/Lord_Howe'))).to.deep.equal([0, 29, 30]);
    expect(bounds(openAround(daily('23:30', '00:30'), 'Africa/Cairo'))).to.deep.equal([-30, 29, 60]);
  });

  it('keeps its length, or an hour of it, if all that is skipped lies within it', () => {
    expect(bounds(openAround(daily('23:37', '01:00'), 'Africa/Cairo'))).to.deep.equal([-23, 36, 60]);
    expect(bounds(openAround(daily('23:45', '01:10'), 'Africa/Cairo'))).to.deep.equal([-15, 44, 60]);
    expect(bounds(openAround(daily('23:55', '01:00'), 'Africa/Cairo'))).to.deep.equal([-5, 54, 60]);
    expect(bounds(openAround(daily('01:30', '03:05'), 'Europe/Berlin'))).to.deep.equal([-30, 29, 60]);
    // One that has had its hour before ends as on any other day.
    expect(bounds(openAround(daily('00:00', '03:05'), 'Europe/Berlin'))).to.deep.equal([-60, 4, 65]);
  });

  it('is open after the time of its backups, if that is skipped and the window would end with the change', () => {
    const evening = { ...daily('22:00', '03:00'), time: '02:30' };
    expect(bounds(openAround(evening, 'Europe/Berlin')).slice(1)).to.deep.equal([29, 90]);
    expect(isWindowOpen(evening, 'Europe/Berlin', new Date(CHANGES['Europe/Berlin']))).to.equal(true);
    const early = { ...evening, time: '23:00' };
    expect(isWindowOpen(early, 'Europe/Berlin', new Date(CHANGES['Europe/Berlin']))).to.equal(false);
  });

  it('is as on any other day if neither is skipped, and on the days around', () => {
    expect(openAround(daily('04:00', '05:00'), 'Europe/Berlin')).to.deep.equal(
      Array.from({ length: 60 }, (_, n) => n + 60),
    );
    expect(openAround(daily('12:00', '13:00'), 'America/New_York')).to.deep.equal([]);
    const next = new Date(Date.parse(CHANGES['Europe/Berlin']) + 24 * 60 * MINUTE);
    expect(isWindowOpen(daily('02:00', '03:00'), 'Europe/Berlin', next)).to.equal(false);
  });

  it('has room for the slot of that night and each of its devices', () => {
    const zone = fc.constantFrom(...(Object.keys(CHANGES) as (keyof typeof CHANGES)[]));
    fc.assert(
      fc.property(
        zone,
        fc.integer({ min: 0, max: 1439 }),
        fc.integer({ min: 2, max: 600 }),
        fc.nat(600),
        (timeZone, start, length, behind) => {
          const clock = (minute: number) =>
            `${String(Math.floor((minute % 1440) / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;
          const schedule = {
            ...daily(clock(start), clock(start + length)),
            time: clock(start + (behind % length)),
          };
          const from = new Date(Date.parse(CHANGES[timeZone]) - 12 * 60 * MINUTE);
          const slot = nextSlot(schedule, timeZone, from);
          const last = new Date(slot.getTime() + (spreadSeconds(schedule) - 1) * 1000);
          expect(isWindowOpen(schedule, timeZone, slot), `${timeZone} ${slot.toISOString()}`).to.equal(true);
          expect(isWindowOpen(schedule, timeZone, last), `${timeZone} ${last.toISOString()}`).to.equal(true);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('and a time that is skipped have one slot, at the change; an hourly window has its own', () => {
    const change = new Date(CHANGES['Europe/Berlin']);
    const range = { after: new Date(change.getTime() - MINUTE), until: change };
    for (const schedule of [
      { frequency: 'daily', time: '02:30' },
      { ...daily('02:00', '03:00'), time: '02:30' },
      { frequency: 'hourly', windowStart: '02:00', windowEnd: '03:00' },
    ] as BackupSchedule[]) {
      expect(newestSlot(schedule, 'Europe/Berlin', range), JSON.stringify(schedule)).to.deep.equal(change);
      const following = nextSlot(schedule, 'Europe/Berlin', change);
      expect((following.getTime() - change.getTime()) / 3_600_000).to.be.within(22, 24);
    }
  });
});
