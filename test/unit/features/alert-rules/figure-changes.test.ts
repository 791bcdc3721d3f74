import { expect } from 'chai';
import fc from 'fast-check';
import { SampledFigures } from '../../../../src/features/alert-rules/device-figures.ts';
import { FigureWatch } from '../../../../src/features/alert-rules/figure-watch.ts';
import type { DeviceMatch } from '../../../../src/features/alert-rules/match.queries.ts';
import { followFigures } from '../../../../src/features/alert-rules/metric-match.ts';
import { type MetricRule, RuleSet } from '../../../../src/features/alert-rules/rule-set.ts';
import { quietLog } from '../../../support/quiet-log.ts';

const MINUTE = 60_000;
const GIB = 2 ** 30;
const WRITTEN_EVERY = 20 * MINUTE;
/** Figures begin at this minute; matches were seen before, a moment ago or some time. */
const BEGIN = 60;

type Row = Omit<DeviceMatch, 'place'>;

const LABELS = { cpuPercent: [''], diskPercent: ['C:', 'E:'] } as const;

const rules = fc
  .array(
    fc.record({
      metric: fc.constantFrom('cpuPercent' as const, 'diskPercent' as const),
      operator: fc.constantFrom('greaterThan' as const, 'lessThanOrEquals' as const),
      threshold: fc.constantFrom(40, 50, 60),
      margin: fc.constantFrom(undefined, 0, 10),
      forMinutes: fc.constantFrom(0, 2, 30),
    }),
    { minLength: 1, maxLength: 6 },
  )
  .map((all) =>
    all.map(({ margin, ...condition }, n): MetricRule => {
      const sign = condition.operator === 'greaterThan' ? -1 : 1;
      const clearThreshold = margin === undefined ? undefined : condition.threshold + sign * margin;
      return { id: `rule ${n}`, condition: { kind: 'metric', ...condition, clearThreshold } };
    }),
  );

/** What is stored of some rules and parts of the device. */
const rowsOf = (known: readonly MetricRule[]) =>
  fc.tuple(
    ...known.flatMap(({ id, condition }) =>
      LABELS[condition.metric as keyof typeof LABELS].map((label) =>
        fc.option(
          fc
            .record({ age: fc.nat({ max: 40 }), ago: fc.constantFrom(0, 1, 4, 30), isMet: fc.boolean() })
            .map(({ age, ago, isMet }): Row => {
              const through = (BEGIN - ago) * MINUTE;
              return { ruleId: id, label, isMet, through, since: through - age * MINUTE };
            }),
          { nil: undefined },
        ),
      ),
    ),
  );

const values = fc.array(fc.constantFrom(20, 40, 41, 50, 51, 60, 61, 80), { minLength: 5, maxLength: 5 });
const figures = fc.record({ cpu: values, disk: values, stick: fc.option(values, { nil: undefined }) });

/** What a database has, and what is written to it. */
function databaseOf(rows: readonly Row[]) {
  const written: string[] = [];
  const listed = (literal: string): string[] => JSON.parse(`[${literal.slice(1, -1)}]`);
  const connection = {
    query(
      { name, values: sent }: { name?: string; values?: string[] },
      answer: (error: null, result: { rows: object[] }) => void,
    ) {
      if (name === 'alert-rule-matches-write') {
        const labels = listed(sent?.[2] ?? '{}');
        written.push(...listed(sent?.[0] ?? '{}').map((rule, n) => `${rule} ${labels[n]}`));
      }
      const isRead = name === 'alert-rule-matches-read';
      answer(null, { rows: isRead ? rows.map((row) => ({ place: 1, ...row })) : [] });
    },
  };
  const db = { client: { acquireConnection: async () => connection, releaseConnection: async () => {} } };
  return { db: db as never, written };
}

describe('what is written when figures come', () => {
  it('are the matches that following each figure of each rule changes, and no others', async () => {
    const cases = rules.chain((known) => fc.tuple(fc.constant(known), rowsOf(known), figures));
    await fc.assert(
      fc.asyncProperty(cases, async ([known, stored, { cpu, disk, stick }]) => {
        const rows = stored.filter((row) => row !== undefined);
        const { db, written } = databaseOf(rows);
        const series = (
          metric: 'cpuPercent' | 'volumeUsedBytes' | 'volumeTotalBytes',
          label: string,
          avg: number[],
        ) => ({
          metric,
          label,
          slots: avg.map((_value, slot) => slot),
          min: avg,
          avg,
          max: avg,
        });
        const volume = (label: string, percents: number[]) => [
          series(
            'volumeUsedBytes',
            label,
            percents.map((percent) => percent * GIB),
          ),
          series(
            'volumeTotalBytes',
            label,
            percents.map(() => 100 * GIB),
          ),
        ];
        const stretch = {
          beginsAt: (BEGIN + 1) * MINUTE,
          stepSeconds: 60,
          series: [
            series('cpuPercent', '', cpu),
            ...volume('C:', disk),
            ...(stick === undefined ? [] : volume('E:', stick)),
          ],
        };
        const watch = new FigureWatch({
          db,
          log: quietLog,
          book: { metricRulesOf: () => new RuleSet(known) },
        });
        await watch.sampled([{ deviceId: 'a-device', orgId: 'an-organization', stretches: [stretch] }]);

        const device = new SampledFigures('an-organization', [stretch]);
        const expected = known.flatMap(({ id, condition }) =>
          LABELS[condition.metric as keyof typeof LABELS].flatMap((label) => {
            const row = rows.find((one) => one.ruleId === id && one.label === label);
            const part = device.of(condition.metric)?.find((one) => one.label === label);
            const change = `${id} ${label}`;
            if (part === undefined) return row === undefined ? [] : [change];
            // Nothing is remembered of the device, so its figures follow those that were written, if that was lately.
            const { first } = device.span;
            const isLately = row !== undefined && first - row.through <= 25 * MINUTE;
            const through = isLately ? Math.max(row.through, first - 5 * MINUTE) : (row?.through ?? 0);
            const before = row === undefined ? undefined : { ...row, through, value: 0 };
            const { match, turns } = followFigures(condition, before, part.points);
            if (before === undefined) return match === undefined && turns.length === 0 ? [] : [change];
            if (turns.length > 0 || match?.since !== before.since) return [change];
            return !match.isMet && match.through - (row?.through ?? 0) >= WRITTEN_EVERY ? [change] : [];
          }),
        );
        expect(written.toSorted()).to.deep.equal(expected.toSorted());
      }),
      { numRuns: 400 },
    );
  });
});
