import { expect } from 'chai';
import fc from 'fast-check';
import { followFigures, type Match, type Turn } from '../../../../src/features/alert-rules/metric-match.ts';
import { isBeyond, type Point } from '../../../../src/features/alert-rules/rule-metrics.ts';

const MINUTE = 60_000;

const CONDITION = {
  kind: 'metric',
  metric: 'cpuPercent',
  operator: 'greaterThanOrEquals',
  threshold: 90,
  clearThreshold: 80,
  forMinutes: 3,
} as const;

/** A figure each minute. */
const minutes = (...values: number[]): Point[] => values.map((value, at) => ({ at: at * MINUTE, value }));
const turnsOf = (points: readonly Point[], condition: Parameters<typeof followFigures>[0] = CONDITION) =>
  followFigures(condition, undefined, points).turns.map(({ isMet, at }) => [isMet, at / MINUTE]);

describe('the figures that a rule follows', () => {
  it('meet the condition once they have been beyond the threshold for long enough', () => {
    expect(turnsOf(minutes(10, 95, 95, 95))).to.deep.equal([]);
    expect(turnsOf(minutes(10, 95, 95, 95, 95))).to.deep.equal([[true, 4]]);
    expect(turnsOf(minutes(95), { ...CONDITION, forMinutes: 0 })).to.deep.equal([[true, 0]]);
  });

  it('begin anew after a figure within the threshold', () => {
    expect(turnsOf(minutes(95, 95, 95, 89, 95, 95, 95))).to.deep.equal([]);
    expect(turnsOf(minutes(95, 95, 95, 89, 95, 95, 95, 95))).to.deep.equal([[true, 7]]);
  });

  it('meet it until they are beyond the other threshold', () => {
    expect(turnsOf(minutes(95, 95, 95, 95, 85, 80, 79, 95))).to.deep.equal([
      [true, 3],
      [false, 6],
    ]);
    const { clearThreshold: _, ...without } = CONDITION;
    expect(turnsOf(minutes(95, 95, 95, 95, 90, 89), without)).to.deep.equal([
      [true, 3],
      [false, 5],
    ]);
  });

  it('watch for low figures as well', () => {
    const low = {
      ...CONDITION,
      operator: 'lessThan',
      threshold: 10,
      clearThreshold: 20,
      forMinutes: 1,
    } as const;
    expect(turnsOf(minutes(9, 9, 15, 21), low)).to.deep.equal([
      [true, 1],
      [false, 3],
    ]);
  });

  it('begin anew after a break, unless the condition was met before it', () => {
    const later = (values: Point[], at: number) =>
      values.map((point) => ({ ...point, at: point.at + at * MINUTE }));
    expect(turnsOf([...minutes(95, 95), ...later(minutes(95, 95), 8)])).to.deep.equal([]);
    expect(turnsOf([...minutes(95, 95, 95, 95), ...later(minutes(95, 70), 60)])).to.deep.equal([
      [true, 3],
      [false, 61],
    ]);
  });

  it('are the same whether they come at once or in parts, and known ones change nothing', () => {
    const points = fc.array(
      fc.record({ gap: fc.integer({ min: 1, max: 9 }), value: fc.integer({ min: 70, max: 100 }) }),
    );
    const conditions = fc.record({
      kind: fc.constant('metric' as const),
      metric: fc.constant('cpuPercent' as const),
      operator: fc.constantFrom('greaterThan' as const, 'lessThanOrEquals' as const),
      threshold: fc.constant(85),
      forMinutes: fc.integer({ min: 0, max: 10 }),
    });
    fc.assert(
      fc.property(points, conditions, fc.array(fc.nat({ max: 5 })), (gaps, condition, sizes) => {
        let at = 0;
        const all = gaps.map(({ gap, value }) => ({ at: (at += gap * MINUTE), value }));
        const whole = followFigures(condition, undefined, all);
        let match: Match | undefined;
        const turns: Turn[] = [];
        for (let from = 0, part = 0; from < all.length; part += 1) {
          const size = 1 + (sizes[part] ?? 2);
          // The figures before are sent once more.
          const sent = all.slice(Math.max(0, from - 2), from + size);
          const since = match === undefined ? all.slice(from, from + size) : sent;
          const step = followFigures(condition, match, since);
          match = step.match;
          turns.push(...step.turns);
          from += size;
        }
        expect(turns).to.deep.equal(whole.turns);
        expect(match).to.deep.equal(whole.match);
      }),
    );
  });

  it('turn by turn, and each time for a reason', () => {
    const values = fc.array(fc.integer({ min: 70, max: 100 }), { maxLength: 60 });
    fc.assert(
      fc.property(values, (all) => {
        const { turns } = followFigures(CONDITION, undefined, minutes(...all));
        for (const [place, { isMet, at, value }] of turns.entries()) {
          expect(isMet).to.equal(place % 2 === 0);
          const before = all.slice(at / MINUTE - CONDITION.forMinutes, at / MINUTE + 1);
          if (isMet) expect(before.every((one) => isBeyond(CONDITION, one))).to.equal(true);
          else expect(value).to.be.below(CONDITION.clearThreshold);
        }
      }),
    );
  });
});
