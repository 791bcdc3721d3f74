import { expect } from 'chai';
import fc from 'fast-check';
import { HeardFigures, SampledFigures } from '../../../../src/features/alert-rules/device-figures.ts';
import {
  isBeyond,
  RULE_METRIC_NAMES,
  type RuleMetricName,
} from '../../../../src/features/alert-rules/rule-metrics.ts';
import { type MetricRule, RuleSet } from '../../../../src/features/alert-rules/rule-set.ts';
import type { MetricName } from '../../../../src/features/metrics/metric.ts';

const OPERATORS = ['greaterThan', 'greaterThanOrEquals', 'lessThan', 'lessThanOrEquals'] as const;
const MEBIBYTE = 2 ** 20;

/** Evenly spread, as doubles of fast-check are not. */
const upTo = (max: number) => fc.nat({ max: 10_000 }).map((share) => (share / 10_000) * max);

/** Series of a device over some minutes of an hour; volumes may miss minutes, have another size later, or none. */
const series = (metric: MetricName, label: string, value: fc.Arbitrary<number>) =>
  fc
    .uniqueArray(fc.nat({ max: 9 }), { minLength: 1, maxLength: 6 })
    .chain((slots) =>
      fc
        .array(value, { minLength: slots.length, maxLength: slots.length })
        .map((avg) => ({ metric, label, slots: slots.sort((a, b) => a - b), min: avg, avg, max: avg })),
    );
const bytes = fc.oneof(
  fc.constant(0),
  upTo(20 * MEBIBYTE),
  fc.constantFrom(4 * MEBIBYTE, 10 * MEBIBYTE, 10.4 * MEBIBYTE),
);
const stretch = fc
  .tuple(
    series('cpuPercent', '', upTo(100)),
    series('load', '', upTo(3)),
    series('uptimeSeconds', '', upTo(300)),
    series('networkReceivedPerSecond', '', upTo(500)),
    series('volumeUsedBytes', 'C:', bytes),
    series('volumeUsedBytes', 'D:', bytes),
    series('volumeTotalBytes', 'C:', bytes),
    series('volumeTotalBytes', 'D:', bytes),
  )
  .chain((all) => fc.subarray(all));
const stretches = fc
  .array(stretch, { minLength: 1, maxLength: 2 })
  .map((all) => all.map((some, hour) => ({ beginsAt: hour * 3_600_000, stepSeconds: 60, series: some })));
const thresholds: Partial<Record<RuleMetricName, fc.Arbitrary<number>>> = {
  diskFreeBytes: upTo(20 * MEBIBYTE),
  networkReceivedPerSecond: upTo(500),
  uptimeSeconds: fc.nat({ max: 300 }),
  load: upTo(3),
};
const rule = fc.constantFrom(...RULE_METRIC_NAMES).chain((metric) =>
  fc.record({
    kind: fc.constant('metric' as const),
    metric: fc.constant(metric),
    operator: fc.constantFrom(...OPERATORS),
    threshold: fc.oneof(thresholds[metric] ?? upTo(100), fc.constantFrom(0, 128, 40, 100)),
    forMinutes: fc.constant(0),
  }),
);
const rules = fc
  .array(rule, { maxLength: 30 })
  .map((conditions) => conditions.map((condition, n): MetricRule => ({ id: String(n), condition })));

describe('the figures of a device', () => {
  it('are found beyond every threshold that any of them is beyond as it is stored', () => {
    fc.assert(
      fc.property(stretches, rules, (all, known) => {
        const figures = new SampledFigures('an-organization', all);
        const found = new Set(new RuleSet(known).beyond(figures));
        for (const one of known) {
          const points = figures.of(one.condition.metric)?.flatMap((part) => part.points) ?? [];
          const isMet = points.some(({ value }) => isBeyond(one.condition, value));
          if (isMet) expect(found.has(one), JSON.stringify(one)).to.equal(true);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('are found beyond a threshold only if they may be', () => {
    const known = (condition: Partial<MetricRule['condition']>): MetricRule => ({
      id: '1',
      condition: {
        kind: 'metric',
        metric: 'diskPercent',
        operator: 'greaterThan',
        threshold: 90,
        forMinutes: 0,
        ...condition,
      },
    });
    const of = (metric: MetricName, label: string, ...avg: number[]) => ({
      metric,
      label,
      slots: avg.map((_value, slot) => slot),
      min: avg,
      avg,
      max: avg,
    });
    const figures = new SampledFigures('an-organization', [
      {
        beginsAt: 0,
        stepSeconds: 60,
        series: [
          of('cpuPercent', '', 10, 90, 20),
          of('volumeUsedBytes', 'C:', 50 * MEBIBYTE, 60 * MEBIBYTE),
          of('volumeUsedBytes', 'D:', 90 * MEBIBYTE, 90 * MEBIBYTE),
          of('volumeTotalBytes', 'C:', 100 * MEBIBYTE, 100 * MEBIBYTE),
          of('volumeTotalBytes', 'D:', 1000 * MEBIBYTE, 1000 * MEBIBYTE),
        ],
      },
    ]);
    const isFound = (condition: Partial<MetricRule['condition']>) =>
      new RuleSet([known(condition)]).beyond(figures).length === 1;
    expect(isFound({ threshold: 60 })).to.equal(false);
    expect(isFound({ threshold: 59.9 })).to.equal(true);
    expect(isFound({ operator: 'lessThan', threshold: 9 })).to.equal(false);
    expect(isFound({ operator: 'lessThanOrEquals', threshold: 9 })).to.equal(true);
    expect(isFound({ metric: 'cpuPercent' })).to.equal(false);
    expect(isFound({ metric: 'cpuPercent', operator: 'greaterThanOrEquals' })).to.equal(true);
    expect(isFound({ metric: 'cpuPercent', operator: 'lessThan', threshold: 10 })).to.equal(false);
    expect(isFound({ metric: 'diskFreeBytes', operator: 'lessThan', threshold: 40 * MEBIBYTE })).to.equal(
      false,
    );
    expect(isFound({ metric: 'ramPercent', operator: 'lessThan' })).to.equal(false);
  });

  it('of a heartbeat are three', () => {
    const metrics = { cpuPercent: 95, ramPercent: 20, diskPercent: 91 };
    const figures = new HeardFigures('an-organization', 60_000, metrics);
    const found = new RuleSet(
      RULE_METRIC_NAMES.map((metric) => ({
        id: metric,
        condition: { kind: 'metric', metric, operator: 'greaterThan', threshold: 90, forMinutes: 0 },
      })),
    ).beyond(figures);
    expect(found.map(({ id }) => id)).to.deep.equal(['cpuPercent', 'diskPercent']);
  });
});
