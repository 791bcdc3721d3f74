import { expect } from 'chai';
import fc from 'fast-check';
import { MAKE_ROOM, oldestToRemove, usedPart } from '../../../../src/features/logs/budget.ts';

const BUDGET = { entries: 1000, bytes: 1000 };
const TODAY = '2026-11-27';
const dayBefore = (ago: number) => new Date(Date.UTC(2026, 10, 27 - ago)).toISOString().slice(0, 10);
const of = (...entries: number[]) =>
  entries.map((n, i) => ({ day: dayBefore(entries.length - 1 - i), entries: n, bytes: 0 }));
const chosen = (days: ReturnType<typeof of>) => oldestToRemove(days, { today: TODAY, budget: BUDGET });

describe('which of the oldest logs make room', () => {
  it('is none below 95 %', () => {
    expect(chosen(of(500, 449))).to.equal(undefined);
    expect(chosen([])).to.equal(undefined);
  });

  it('is as many whole days as leave a tenth free', () => {
    expect(chosen(of(10, 30, 20, 900))).to.deep.equal({
      from: '2026-11-24',
      through: '2026-11-26',
      entries: 60,
      bytes: 0,
    });
    expect(chosen(of(10, 60, 20, 870))).to.deep.include({ through: '2026-11-25', entries: 70 });
  });

  it('goes by bytes as well as by entries', () => {
    const days = [
      { day: dayBefore(1), entries: 1, bytes: 500 },
      { day: TODAY, entries: 1, bytes: 450 },
    ];
    expect(chosen(days)).to.deep.include({ from: dayBefore(1), bytes: 500 });
  });

  it('never is the present day', () => {
    expect(chosen(of(2000))).to.equal(undefined);
    expect(chosen(of(1, 2000))).to.deep.include({ through: dayBefore(1), entries: 1 });
  });

  it('is the oldest days without a gap, and no more than needed', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(400), { maxLength: 12 }), (entries) => {
        const days = of(...entries);
        const removal = chosen(days);
        const total = entries.reduce((sum, n) => sum + n, 0);
        if (removal === undefined) {
          const past = total - (entries.at(-1) ?? 0);
          return total < 1000 * MAKE_ROOM.begins || entries.length <= 1 || past === 0 || total <= 900;
        }
        const gone = days.filter(({ day }) => day <= removal.through);
        const sum = gone.reduce((all, day) => all + day.entries, 0);
        const withoutLast = sum - (gone.at(-1)?.entries ?? 0);
        return (
          removal.from === days[0]?.day &&
          removal.through < TODAY &&
          removal.entries === sum &&
          usedPart({ entries: total - withoutLast, bytes: 0 }, BUDGET) > MAKE_ROOM.ends
        );
      }),
    );
  });
});
