import { expect } from 'chai';
import fc from 'fast-check';
import { BackupSchedule, newestSlot, spreadSeconds } from '../../../../src/features/backup/schedule.ts';
import { slotWork } from '../../../../src/features/backup/scheduler.ts';

/** Which seconds of its slots a schedule makes jobs for, round by round. */

const ZONE = 'Europe/Berlin';
const MINUTE_MS = 60_000;
const SINCE = new Date('2026-03-27T09:30:00Z');
const HOURLY = BackupSchedule.parse({ frequency: 'hourly', time: '00:15' });

type State = Parameters<typeof slotWork>[2]['stored'];

/** Rounds of one schedule. Returns by slot the seconds for which jobs were made, in the order in which they were. */
function runRounds(schedule: BackupSchedule, rounds: readonly Date[], since = SINCE) {
  const made = new Map<number, number[]>();
  let stored: State;
  for (const now of rounds) {
    const { jobs, state } = slotWork(schedule, ZONE, { stored, since, now });
    stored = state;
    if (jobs === undefined) continue;
    const seconds = made.get(jobs.slot.getTime()) ?? [];
    made.set(jobs.slot.getTime(), seconds);
    for (let second = jobs.after + 1; second <= jobs.upTo; second += 1) seconds.push(second);
  }
  return { made, stored };
}
const upTo = (last: number) => Array.from({ length: last + 1 }, (_, second) => second);
const at = (text: string) => new Date(`2026-03-27T${text}Z`);

const schedules = fc.constantFrom(
  HOURLY,
  BackupSchedule.parse({ frequency: 'hourly', time: '00:50', windowStart: '22:00', windowEnd: '04:00' }),
  BackupSchedule.parse({ frequency: 'daily', time: '02:30' }),
  BackupSchedule.parse({ frequency: 'weekly', dayOfWeek: 0, windowStart: '01:00', windowEnd: '01:10' }),
);
/** Most rounds follow each other within minutes. Some come after servers were away for hours or days. */
const pauses = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: fc.integer({ min: 1000, max: 10 * MINUTE_MS }) },
    { weight: 2, arbitrary: fc.integer({ min: MINUTE_MS, max: 180 * MINUTE_MS }) },
    { weight: 1, arbitrary: fc.integer({ min: MINUTE_MS, max: 5 * 1440 * MINUTE_MS }) },
  ),
  { minLength: 1, maxLength: 30 },
);

describe('the slots of a schedule', () => {
  it('get each second of the newest slot that has come, once and in order, whenever the rounds are', () => {
    fc.assert(
      fc.property(schedules, pauses, (schedule, between) => {
        let now = SINCE.getTime();
        const rounds = between.map((pause) => new Date((now += pause)));
        const last = rounds.at(-1) ?? SINCE;
        const { made } = runRounds(schedule, rounds);
        const newest = newestSlot(schedule, ZONE, { after: SINCE, until: last });
        for (const [slot, seconds] of made) {
          expect(seconds, new Date(slot).toISOString()).to.deep.equal(upTo(seconds.length - 1));
        }
        const second = Math.floor((last.getTime() - (newest ?? last).getTime()) / 1000);
        const expected = newest === undefined ? 0 : Math.min(second + 1, spreadSeconds(schedule));
        expect(made.get(newest?.getTime() ?? 0) ?? []).to.have.length(expected);
      }),
      { numRuns: 40 },
    );
  });

  it('begin with their first second if the slot before was under way when the servers stopped', () => {
    const { made } = runRounds(HOURLY, [at('10:17:00'), at('11:16:00')]);
    expect([...made]).to.deep.equal([
      [at('10:15:00').getTime(), upTo(120)],
      [at('11:15:00').getTime(), upTo(60)],
    ]);
  });

  it('are over with the last second of their devices, and not before', () => {
    const spread = spreadSeconds(HOURLY);
    const end = at('10:15:00').getTime() + (spread - 1) * 1000;
    const early = runRounds(HOURLY, [new Date(end - 1)]);
    expect(early.stored).to.deep.include({ slot: at('10:15:00'), madeSeconds: spread - 2 });
    const late = runRounds(HOURLY, [new Date(end)]);
    expect(late.made.get(at('10:15:00').getTime())).to.have.length(spread);
    expect(late.stored).to.deep.equal({
      since: SINCE,
      slot: null,
      madeSeconds: -1,
      nextAt: at('11:15:00'),
    });
  });

  it('are counted anew if the schedule was changed', () => {
    const { stored } = runRounds(HOURLY, [at('10:16:00')]);
    const changed = slotWork(HOURLY, ZONE, { stored, since: at('10:15:30'), now: at('10:17:00') });
    expect(changed).to.deep.equal({
      jobs: undefined,
      state: { since: at('10:15:30'), slot: null, madeSeconds: -1, nextAt: at('11:15:00') },
    });
  });

  it('need no jobs twice within one second', () => {
    const { stored } = runRounds(HOURLY, [at('10:16:00')]);
    const again = slotWork(HOURLY, ZONE, { stored, since: SINCE, now: at('10:16:00.900') });
    expect(again).to.deep.equal({ jobs: undefined, state: stored });
  });
});
