import { expect } from 'chai';
import fc from 'fast-check';
import { clocksAt, instantOf } from '../../../../src/platform/local-time.ts';
import {
  nextOccurrence,
  occurrenceAt,
  occurrencesBetween,
  type Repeat,
  type Schedule,
  scheduleFaults,
} from '../../../../src/features/maintenance-windows/occurrences.ts';
import { Weekday } from '../../../../src/features/partners/index.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;

/** Zones with their own ways: half an hour of summer time, a day that was left out, changes at midnight, far ahead and behind. */
const zones = fc.constantFrom(
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'Africa/Cairo',
  'America/Santiago',
  'Asia/Kathmandu',
  'Pacific/Kiritimati',
  'Africa/Casablanca',
);
const moments = fc.date({
  min: new Date('2011-01-01'),
  max: new Date('2030-01-01'),
  noInvalidDate: true,
});
const local = (at: Date) => at.toISOString().slice(0, 16);
const nth = fc.oneof(fc.integer({ min: 1, max: 4 }), fc.constant('last' as const));
const repeats: fc.Arbitrary<Repeat | null> = fc.oneof(
  fc.constant(null),
  fc.constant<Repeat>({ frequency: 'daily' }),
  fc.record({
    frequency: fc.constant('weekly' as const),
    days: fc.subarray([...Weekday.options], { minLength: 1 }),
  }),
  fc.record({
    frequency: fc.constant('monthly' as const),
    dayOfMonth: fc.oneof(fc.integer({ min: 1, max: 28 }), fc.constant('last' as const)),
  }),
  fc.record({
    frequency: fc.constant('monthly' as const),
    nthWeekday: fc.record({ nth, day: fc.constantFrom(...Weekday.options) }),
  }),
);
const schedules = fc
  .record({
    timezone: zones,
    begin: moments,
    durationMinutes: fc.integer({ min: 1, max: 10_080 }),
    repeat: repeats,
    days: fc.option(fc.integer({ min: 0, max: 900 }), { nil: undefined }),
  })
  .map(({ begin, days, repeat, ...rest }): Schedule => {
    const until =
      days === undefined ? {} : { until: new Date(begin.getTime() + days * DAY).toISOString().slice(0, 10) };
    return { ...rest, start: local(begin), repeat: repeat === null ? null : { ...repeat, ...until } };
  })
  .filter((schedule) => scheduleFaults(schedule).length === 0);

/** Whether the calendar of a rule has a day, judged by the day alone. */
function fits(day: Date, { start, repeat }: Schedule): boolean {
  const text = day.toISOString().slice(0, 10);
  if (text < start.slice(0, 10)) return false;
  if (repeat === null) return text === start.slice(0, 10);
  if (repeat.until !== undefined && text > repeat.until) return false;
  const weekday = Weekday.options[(day.getUTCDay() + 6) % 7];
  const date = day.getUTCDate();
  const isLastOf = (days: number) => new Date(day.getTime() + days * DAY).getUTCMonth() !== day.getUTCMonth();
  if (repeat.frequency === 'daily') return true;
  if (repeat.frequency === 'weekly') return repeat.days?.some((one) => one === weekday) === true;
  if (repeat.nthWeekday !== undefined) {
    const { nth: which, day: wanted } = repeat.nthWeekday;
    return weekday === wanted && (which === 'last' ? isLastOf(7) : Math.ceil(date / 7) === which);
  }
  return repeat.dayOfMonth === 'last' ? isLastOf(1) : date === repeat.dayOfMonth;
}

/** The first minute of a span in which the clocks of a zone show a time or a later one: by looking at each of them. */
function firstMinute(localMs: number, timezone: string): number {
  for (let at = localMs - 27 * 60 * MINUTE; ; at += MINUTE) {
    if (clocksAt(at, timezone) >= localMs) return at;
  }
}

const spanOf = (from: Date, days: number) => ({ from, to: new Date(from.getTime() + days * DAY) });
const startsOf = (schedule: Schedule, span: { from: Date; to: Date }) =>
  occurrencesBetween(schedule, span, 1000).map(({ startsAt }) => startsAt.getTime());

describe('the occurrences of a maintenance window', () => {
  it('are those of the days of the calendar that fit', () => {
    fc.assert(
      fc.property(schedules, moments, (schedule, from) => {
        const span = spanOf(from, 70);
        const expected = new Set<number>();
        const first = Math.floor(from.getTime() / DAY) - 12;
        for (let day = first; day < first + 90; day++) {
          if (!fits(new Date(day * DAY), schedule)) continue;
          const timeOfDay = Date.parse(`1970-01-01T${schedule.start.slice(11)}Z`);
          const startsAt = instantOf(day * DAY + timeOfDay, schedule.timezone);
          const endsAt = startsAt + schedule.durationMinutes * MINUTE;
          if (endsAt > span.from.getTime() && startsAt < span.to.getTime()) expected.add(startsAt);
        }
        expect(startsOf(schedule, span)).to.deep.equal([...expected]);
      }),
      { numRuns: 300 },
    );
  });

  it('begin when the clocks first show the time, or at the first moment after a gap', () => {
    // Beside the changes of these zones, where a day counts.
    const near = fc.constantFrom<[string, string]>(
      ['Europe/Berlin', '2026-03-29T02:30'],
      ['Europe/Berlin', '2026-10-25T02:30'],
      ['Australia/Lord_Howe', '2026-10-04T02:15'],
      ['Australia/Lord_Howe', '2026-04-05T01:45'],
      ['Pacific/Apia', '2011-12-30T22:00'],
      ['Pacific/Apia', '2011-12-31T00:00'],
      ['Africa/Cairo', '2026-04-24T00:30'],
      ['America/Santiago', '2026-09-06T00:00'],
      ['Africa/Casablanca', '2026-02-15T02:30'],
    );
    fc.assert(
      fc.property(near, fc.integer({ min: -180, max: 180 }), ([timezone, text], minutes) => {
        const localMs = Date.parse(`${text}Z`) + minutes * MINUTE;
        expect(instantOf(localMs, timezone)).to.equal(firstMinute(localMs, timezone));
      }),
      { numRuns: 40 },
    );
  });

  it('that begin in a night in which clocks are set have their time, and their length in real minutes', () => {
    const nightly: Schedule = {
      timezone: 'Europe/Berlin',
      start: '2026-01-01T02:30',
      durationMinutes: 120,
      repeat: { frequency: 'daily' },
    };
    const spring = occurrencesBetween(nightly, spanOf(new Date('2026-03-28T12:00:00Z'), 2), 10);
    expect(spring.map(({ startsAt }) => startsAt.toISOString())).to.deep.equal([
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T00:30:00.000Z',
    ]);
    const autumn = occurrencesBetween(nightly, spanOf(new Date('2026-10-24T12:00:00Z'), 2), 10);
    expect(autumn.map(({ startsAt }) => startsAt.toISOString())).to.deep.equal([
      '2026-10-25T00:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
    ]);
    for (const { startsAt, endsAt } of [...spring, ...autumn]) {
      expect(endsAt.getTime() - startsAt.getTime()).to.equal(120 * MINUTE);
    }
  });

  it('agree with the question whether an instant is in one, and with the next one', () => {
    fc.assert(
      fc.property(schedules, moments, (schedule, at) => {
        const around = occurrencesBetween(schedule, spanOf(at, 400), 1000);
        const inside = around.filter(({ startsAt, endsAt }) => startsAt <= at && at < endsAt);
        expect(occurrenceAt(schedule, at)).to.deep.equal(inside.at(-1));
        const next = nextOccurrence(schedule, at);
        const later = around.find(({ startsAt }) => startsAt > at);
        if (later !== undefined) expect(next).to.deep.equal(later);
        if (next !== undefined) expect(next.startsAt > at).to.equal(true);
      }),
      { numRuns: 300 },
    );
  });

  it('end early if a person has ended the one in progress, and later ones do not', () => {
    fc.assert(
      fc.property(schedules, moments, fc.integer({ min: 0, max: 30 }), (schedule, from, days) => {
        const endedEarlyAt = new Date(from.getTime() + days * DAY);
        const ended = occurrencesBetween({ ...schedule, endedEarlyAt }, spanOf(from, 60), 1000);
        const expected = occurrencesBetween(schedule, spanOf(from, 60), 1000)
          .map(({ startsAt, endsAt }) => ({
            startsAt,
            endsAt: startsAt <= endedEarlyAt && endedEarlyAt < endsAt ? endedEarlyAt : endsAt,
          }))
          .filter(({ endsAt }) => endsAt > from);
        expect(ended).to.deep.equal(expected);
      }),
      { numRuns: 200 },
    );
  });

  it('come in their order, each once, whatever the span', () => {
    fc.assert(
      fc.property(schedules, moments, fc.integer({ min: 0, max: 400 }), (schedule, from, days) => {
        const starts = startsOf(schedule, spanOf(from, days));
        for (const [index, start] of starts.entries()) {
          if (index > 0) expect(start).to.be.above(starts[index - 1] ?? 0);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('are found at once in a window from 1970 to 9999', () => {
    const endless: Schedule = {
      timezone: 'Europe/Berlin',
      start: '1970-01-01T00:00',
      durationMinutes: 60,
      repeat: { frequency: 'monthly', nthWeekday: { nth: 'last', day: 'sun' }, until: '9999-12-31' },
    };
    const begun = performance.now();
    const all = { from: new Date('1970-01-01'), to: new Date('9999-12-31') };
    expect(occurrencesBetween(endless, all, 100)).to.have.length(100);
    expect(nextOccurrence(endless, new Date('9999-11-30T00:00:00Z'))).to.equal(undefined);
    expect(nextOccurrence(endless, new Date('8000-01-01'))?.startsAt.toISOString()).to.match(/^8000-01-/);
    expect(occurrenceAt(endless, new Date('9999-12-31'))).to.equal(undefined);
    const weekly: Schedule = { ...endless, repeat: { frequency: 'weekly', days: ['mon'] } };
    expect(nextOccurrence(weekly, new Date('9999-12-31'))).to.equal(undefined);
    expect(occurrencesBetween(weekly, all, 3)).to.have.length(3);
    expect(performance.now() - begun).to.be.below(500);
  });
});

describe('a schedule', () => {
  const SOUND: Schedule = { timezone: 'UTC', start: '2026-12-24T22:00', durationMinutes: 60, repeat: null };
  const faults = (repeat: Repeat | null, rest: Partial<Schedule> = {}) =>
    scheduleFaults({ ...SOUND, ...rest, repeat }).map(([path]) => path.join('.'));

  it('has the fields of its kind of repetition, and no others', () => {
    expect(faults(null)).to.deep.equal([]);
    expect(faults({ frequency: 'weekly' })).to.deep.equal(['repeat.days']);
    expect(faults({ frequency: 'daily', days: ['mon'] })).to.deep.equal(['repeat.days']);
    expect(faults({ frequency: 'daily', dayOfMonth: 1 })).to.deep.equal(['repeat.dayOfMonth']);
    expect(faults({ frequency: 'monthly' })).to.deep.equal(['repeat.dayOfMonth']);
    expect(faults({ frequency: 'monthly', dayOfMonth: 1, nthWeekday: { nth: 1, day: 'mon' } })).to.deep.equal(
      ['repeat.dayOfMonth'],
    );
    expect(faults({ frequency: 'weekly', days: ['mon'], nthWeekday: { nth: 1, day: 'mon' } })).to.deep.equal([
      'repeat.nthWeekday',
    ]);
  });

  it('ends before its next occurrence begins', () => {
    expect(faults({ frequency: 'daily' }, { durationMinutes: 1440 })).to.deep.equal([]);
    expect(faults({ frequency: 'daily' }, { durationMinutes: 1441 })).to.deep.equal(['durationMinutes']);
    expect(faults({ frequency: 'weekly', days: ['sun', 'mon'] }, { durationMinutes: 1441 })).to.deep.equal([
      'durationMinutes',
    ]);
    expect(faults({ frequency: 'weekly', days: ['sun'] }, { durationMinutes: 10_080 })).to.deep.equal([]);
  });

  it('has at least one occurrence, and none of which the year has five digits', () => {
    expect(faults({ frequency: 'daily', until: '2026-12-23' })).to.deep.equal(['repeat.until']);
    // The 24th is a Thursday.
    expect(faults({ frequency: 'weekly', days: ['fri'], until: '2026-12-24' })).to.deep.equal([
      'repeat.until',
    ]);
    expect(faults(null, { start: '9999-12-31T22:00' })).to.deep.equal(['start']);
  });
});
