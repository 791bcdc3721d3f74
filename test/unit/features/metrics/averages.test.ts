import { expect } from 'chai';
import fc from 'fast-check';
import {
  averagesAfter,
  type Stretch,
  stretchOf,
  together,
} from '../../../../src/features/metrics/averages.ts';
import type { Block, MetricName, Series } from '../../../../src/features/metrics/metric.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** The beginning of a day. */
const START = Date.parse('2026-03-02T00:00:00Z');

const series = (metric: MetricName, values: number[], label = ''): Series => ({
  metric,
  label,
  slots: values.map((_, slot) => slot),
  min: values,
  avg: values,
  max: values,
});
const block = (...all: Series[]): Block => ({ stepSeconds: 60, series: all });
const hour = (index: number, cpuPercent: number, minutes = 60): Stretch => ({
  beginsAt: START + index * HOUR,
  minutes,
  figures: { cpuPercent },
});

describe('the averages of a device', () => {
  it('of a stretch are those of its figures, and of the fullest volume', () => {
    const found = stretchOf(
      block(
        series('cpuPercent', [10, 20, 60]),
        series('load', [0.5, 1.5]),
        series('uptimeSeconds', [1, 2, 3]),
        series('volumeUsedBytes', [10, 30], 'C:'),
        series('volumeTotalBytes', [100, 100], 'C:'),
        series('volumeUsedBytes', [90, 90], 'D:'),
        series('volumeTotalBytes', [100, 100], 'D:'),
        series('volumeUsedBytes', [5], 'without a size'),
        series('volumeUsedBytes', [5], 'empty'),
        series('volumeTotalBytes', [0], 'empty'),
      ),
      START,
    );
    expect(found).to.deep.equal({
      beginsAt: START,
      minutes: 3,
      figures: { cpuPercent: 30, load: 1, diskPercent: 90 },
    });
    expect(stretchOf(block(series('uptimeSeconds', [5])), START)).to.equal(undefined);
  });

  it('weigh an hour by the minutes that it has, and follow from hours and days', () => {
    const first = averagesAfter(undefined, { hours: [hour(0, 10), hour(1, 70, 30)] });
    expect(first.averages).to.deep.equal({ 'cpuPercent.1h': 70, 'cpuPercent.1d': 30 });
    const next = averagesAfter(first, { days: [{ ...hour(0, 25), minutes: 1440 }] });
    expect(next.averages).to.deep.equal({ ...first.averages, 'cpuPercent.7d': 25 });
  });

  it('of an hour that is completed later count the later figures', () => {
    const first = averagesAfter(undefined, { hours: [hour(3, 10, 55)] });
    expect(averagesAfter(first, { hours: [hour(3, 12), hour(2, 6)] }).averages).to.deep.equal({
      'cpuPercent.1h': 12,
      'cpuPercent.1d': 9,
    });
  });

  it('pass over what has long been stored, and over hours without figures', () => {
    const first = averagesAfter(undefined, { hours: [hour(30, 50)] });
    const later = averagesAfter(first, { hours: [hour(6, 1), hour(7, 100), hour(32, 10)] });
    expect(later.averages).to.deep.equal({ 'cpuPercent.1h': 10, 'cpuPercent.1d': 30 });
    expect(later.hours.figures).to.have.length(3 * 6);
  });

  it('are those of all hours at once, in whatever order and pieces they come', () => {
    const stretch = fc.record({
      index: fc.integer({ min: 0, max: 60 }),
      minutes: fc.integer({ min: 1, max: 60 }),
      figures: fc.record(
        { cpuPercent: fc.integer({ min: 0, max: 100 }), load: fc.integer({ min: 0, max: 9 }) },
        { requiredKeys: [] },
      ),
    });
    fc.assert(
      fc.property(
        fc.array(fc.array(stretch, { maxLength: 5 }), { minLength: 1, maxLength: 12 }),
        (pieces) => {
          let stored: ReturnType<typeof averagesAfter> | undefined;
          const all = new Map<number, Stretch>();
          let newest = Number.NEGATIVE_INFINITY;
          for (const piece of pieces) {
            const hours = piece.map(({ index, ...rest }) => ({ beginsAt: START + index * HOUR, ...rest }));
            const json: unknown = JSON.parse(JSON.stringify(stored ?? null));
            stored = averagesAfter(json === null ? undefined : (json as typeof stored), { hours });
            for (const one of hours) {
              newest = Math.max(newest, one.beginsAt);
              // What is older than a day when it comes is left out.
              if (one.beginsAt > newest - DAY) all.set(one.beginsAt, one);
            }
          }
          const day = [...all.values()].filter(({ beginsAt }) => beginsAt > newest - DAY);
          const expected = together(day, 0)?.figures ?? {};
          for (const metric of ['cpuPercent', 'load'] as const) {
            const value = expected[metric];
            const found = stored?.averages[`${metric}.1d`];
            if (value === undefined) expect(found).to.equal(undefined);
            else expect(found).to.be.closeTo(value, 0.0051);
          }
        },
      ),
    );
  });
});
