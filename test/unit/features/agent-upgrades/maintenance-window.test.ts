import { expect } from 'chai';
import fc from 'fast-check';
import type { MaintenanceWindow } from '../../../../src/features/partners/index.ts';
import { isOpen, nextOpening } from '../../../../src/features/agent-upgrades/resolve-target.ts';

const MINUTE = 60_000;
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const;

/** Whether a window is open, read off the calendar: `start <= clock < end`, on the day itself or since the day before. */
function refereeIsOpen({ days, start, end }: MaintenanceWindow, now: Date): boolean {
  const clock = now.toISOString().slice(11, 16);
  const [today, yesterday] = [DAYS[now.getUTCDay()], DAYS[(now.getUTCDay() + 6) % 7]];
  const on = (day: string | undefined) => days.some((one) => one === day);
  if (start < end) return on(today) && start <= clock && clock < end;
  return (on(today) && start <= clock) || (on(yesterday) && clock < end);
}

/** Goes on minute by minute until the window opens. */
function refereeNextOpening(window: MaintenanceWindow, now: Date): Date {
  let minute = Math.floor(now.getTime() / MINUTE) * MINUTE;
  for (let steps = 0; steps <= 8 * 24 * 60; steps++) {
    const wasOpen = refereeIsOpen(window, new Date(minute));
    minute += MINUTE;
    if (!wasOpen && refereeIsOpen(window, new Date(minute))) return new Date(minute);
  }
  throw new Error('the window does not open within eight days');
}

const clock = fc
  .record({ hour: fc.nat({ max: 23 }), minute: fc.constantFrom(0, 1, 30, 59) })
  .map(({ hour, minute }) => `${String(hour).padStart(2, '0')}:${String(minute).padStart(2, '0')}`);
const windows: fc.Arbitrary<MaintenanceWindow> = fc
  .record({
    days: fc
      .subarray([...DAYS], { minLength: 1 })
      .chain((days) => fc.shuffledSubarray(days, { minLength: days.length })),
    start: clock,
    end: clock,
  })
  .filter(({ start, end }) => start !== end);
// Before 1970 as well: remainders of negative numbers are negative.
const instants = fc.date({ min: new Date('1969-01-01'), max: new Date('2040-01-01'), noInvalidDate: true });
/** Within a second of where a window opens or closes, which a random instant seldom is. */
const edges = (window: MaintenanceWindow) =>
  fc
    .record({
      at: instants,
      edge: fc.constantFrom(window.start, window.end),
      off: fc.integer({ min: -1000, max: 1000 }),
    })
    .map(({ at, edge, off }) => new Date(Date.parse(`${at.toISOString().slice(0, 10)}T${edge}:00Z`) + off));
const cases = windows.chain((window) =>
  fc.record({ window: fc.constant(window), now: fc.oneof(instants, edges(window)) }),
);

describe('a maintenance window', () => {
  it('is open when the calendar says so', () => {
    fc.assert(
      fc.property(cases, ({ window, now }) => isOpen(window, now) === refereeIsOpen(window, now)),
      { numRuns: 5_000 },
    );
  });

  it('opens next when a clock that goes on by minutes finds it open', () => {
    fc.assert(
      fc.property(cases, ({ window, now }) => {
        fc.pre(!isOpen(window, now));
        expect(nextOpening(window, now).toISOString()).to.equal(
          refereeNextOpening(window, now).toISOString(),
        );
      }),
      { numRuns: 100 },
    );
  });

  it('is open from its next opening on, and closed until then', () => {
    fc.assert(
      fc.property(cases, ({ window, now }) => {
        fc.pre(!isOpen(window, now));
        const opening = nextOpening(window, now).getTime();
        expect(opening).to.be.greaterThan(now.getTime());
        expect([isOpen(window, new Date(opening)), isOpen(window, new Date(opening - 1))]).to.deep.equal([
          true,
          false,
        ]);
      }),
      { numRuns: 2_000 },
    );
  });

  const EXAMPLES: [
    days: MaintenanceWindow['days'],
    start: string,
    end: string,
    now: string,
    answer: string,
  ][] = [
    // 2026-11-22 is a Sunday.
    [['fri'], '22:00', '04:00', '2026-11-20T21:59:59.999Z', '2026-11-20T22:00:00.000Z'],
    [['fri'], '22:00', '04:00', '2026-11-20T22:00:00Z', 'open'],
    [['fri'], '22:00', '04:00', '2026-11-21T03:59:59.999Z', 'open'],
    [['fri'], '22:00', '04:00', '2026-11-21T04:00:00Z', '2026-11-27T22:00:00.000Z'],
    // Over the end of the week, of the month and of the year.
    [['sun'], '23:00', '01:00', '2026-11-23T00:30:00Z', 'open'],
    [['sun'], '23:00', '01:00', '2026-11-22T00:30:00Z', '2026-11-22T23:00:00.000Z'],
    [['sat'], '23:30', '00:30', '2027-01-03T00:29:00Z', 'open'],
    [['thu'], '23:30', '00:30', '2026-12-31T23:29:00Z', '2026-12-31T23:30:00.000Z'],
    [['mon'], '00:00', '01:00', '2026-11-22T23:59:00Z', '2026-11-23T00:00:00.000Z'],
    // The clocks of Europe were set back at 01:00 UTC; in UTC nothing happens.
    [['sun'], '01:00', '02:00', '2026-10-25T01:59:00Z', 'open'],
    [['sun'], '01:00', '02:00', '2026-10-25T02:00:00Z', '2026-11-01T01:00:00.000Z'],
    [['mon', 'wed'], '02:00', '03:00', '2026-11-24T12:00:00Z', '2026-11-25T02:00:00.000Z'],
  ];
  for (const [days, start, end, now, answer] of EXAMPLES) {
    it(`on ${days.join(' and ')} from ${start} to ${end}, seen at ${now}: ${answer}`, () => {
      const window = { days, start, end };
      const at = new Date(now);
      expect(isOpen(window, at) ? 'open' : nextOpening(window, at).toISOString()).to.equal(answer);
    });
  }
});
