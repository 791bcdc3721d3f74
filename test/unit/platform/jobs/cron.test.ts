import { expect } from 'chai';
import fc from 'fast-check';
import { retryDelayMs } from '../../../../src/platform/jobs/definition.ts';
import { nextRun } from '../../../../src/platform/jobs/schedules.ts';

const HOUR = 3_600_000;
const next = (cron: string, timeZone: string, after: string) =>
  nextRun({ cron, timeZone }, new Date(after)).toISOString();

/** The clock on the wall in a zone, as `HH:mm`. */
const wallClock = (at: Date, timeZone: string) =>
  at.toLocaleTimeString('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' });

describe('the next run of a schedule', () => {
  it('is at the moment of the change if clocks are set forward over it', () => {
    expect(next('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z')).to.equal('2026-03-29T01:00:00.000Z');
    expect(next('30 2 * * *', 'Europe/Berlin', '2026-03-29T01:00:00Z')).to.equal('2026-03-30T00:30:00.000Z');
  });

  it('is at the moment of the change also where that is midnight, as in Greenland', () => {
    const evening = (after: string) => next('30 23 * * *', 'America/Nuuk', after);
    // 23:00 is followed by 0:00 of the next day.
    expect(evening('2026-03-28T12:00:00Z')).to.equal('2026-03-29T01:00:00.000Z');
    expect(evening('2026-03-29T01:00:00Z')).to.equal('2026-03-30T00:30:00.000Z');
    expect(next('30 23 * * 6', 'America/Nuuk', '2026-03-28T12:00:00Z')).to.equal('2026-03-29T01:00:00.000Z');
    expect(next('30 22,23 * * *', 'America/Nuuk', '2026-03-29T00:30:00Z')).to.equal(
      '2026-03-29T01:00:00.000Z',
    );
  });

  it('comes once if clocks are set back over it', () => {
    const first = next('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z');
    expect(first).to.equal('2026-10-25T00:30:00.000Z');
    expect(next('30 2 * * *', 'Europe/Berlin', first)).to.equal('2026-10-26T01:30:00.000Z');
  });

  it('comes each hour through both changes', () => {
    for (const day of ['2026-03-29', '2026-10-25']) {
      let at = new Date(`${day}T00:00:00Z`);
      for (let n = 0; n < 5; n++) {
        const then = nextRun({ cron: '0 * * * *', timeZone: 'Europe/Berlin' }, at);
        expect(then.getTime() - at.getTime(), at.toISOString()).to.equal(HOUR);
        at = then;
      }
    }
  });

  it('refuses a zone that does not exist, a bad expression, and one that is never due', () => {
    expect(() => next('0 3 * * *', 'Europe/Nowhere', '2026-01-01T00:00:00Z')).to.throw();
    expect(() => next('61 3 * * *', 'UTC', '2026-01-01T00:00:00Z')).to.throw();
    expect(() => next('0 0 30 2 *', 'UTC', '2026-01-01T00:00:00Z')).to.throw();
    expect(() => next('* * * * * *', 'UTC', '2026-01-01T00:00:00Z')).to.throw();
  });

  const zones = fc.constantFrom(
    'Europe/Berlin',
    'America/New_York',
    'America/Sao_Paulo',
    'America/Nuuk',
    'America/St_Johns',
    'Australia/Lord_Howe',
    'Asia/Kathmandu',
    'Pacific/Apia',
    'Africa/Casablanca',
    'UTC',
  );
  const instants = fc.date({ min: new Date('2020-01-01'), max: new Date('2034-01-01'), noInvalidDate: true });
  const daily = fc.record({ hour: fc.integer({ min: 0, max: 23 }), minute: fc.integer({ min: 0, max: 59 }) });

  it('of each day is later, within little more than a day, at the right time on the wall, in every zone', () => {
    fc.assert(
      fc.property(zones, instants, daily, (timeZone, after, { hour, minute }) => {
        const at = nextRun({ cron: `${minute} ${hour} * * *`, timeZone }, after);
        const afterMs = at.getTime() - after.getTime();
        expect(afterMs)
          .to.be.greaterThan(0)
          .and.at.most(26 * HOUR);
        const wanted = `${String(hour).padStart(2, '0')}:${String(minute).padStart(2, '0')}`;
        if (wallClock(at, timeZone) === wanted) return;
        // That time does not exist on the day: it is the moment at which clocks are set forward.
        const minutes = (instant: number) => {
          const [hours, rest] = wallClock(new Date(instant), timeZone).split(':').map(Number);
          return hours! * 60 + rest!;
        };
        expect((minutes(at.getTime()) - minutes(at.getTime() - 60_000) + 1440) % 1440).to.be.greaterThan(1);
      }),
    );
  });

  it('is the same whether it is asked for early or a moment before', () => {
    fc.assert(
      fc.property(zones, instants, daily, (timeZone, after, { hour, minute }) => {
        const schedule = { cron: `${minute} ${hour} * * *`, timeZone };
        const at = nextRun(schedule, after);
        expect(nextRun(schedule, new Date(at.getTime() - 1))).to.deep.equal(at);
        expect(nextRun(schedule, at).getTime()).to.be.greaterThan(at.getTime());
      }),
    );
  });
});

describe('the wait before another attempt', () => {
  it('doubles up to its longest, less a fifth at most', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 60 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (attempt, random) => {
          const wait = retryDelayMs(attempt, { firstMs: 1000, longestMs: 600_000 }, random);
          const full = Math.min(1000 * 2 ** (attempt - 1), 600_000);
          expect(wait)
            .to.be.at.most(full)
            .and.at.least(Math.floor(full * 0.8));
        },
      ),
    );
  });
});
