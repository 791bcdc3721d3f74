import { expect } from 'chai';
import fc from 'fast-check';
import { packBlock, packCompactBlock, unpackBlock } from '../../../../src/features/metrics/block.ts';
import { joinedDay } from '../../../../src/features/metrics/joined-day.ts';
import type { Block, Series } from '../../../../src/features/metrics/metric.ts';
import { joinBlocks, mergeBlocks } from '../../../../src/features/metrics/series.ts';

const HOUR = 3_600_000;
const DAY = new Date('2026-11-28T00:00:00.000Z');

const series = (metric: Series['metric'], slots: number[], avg: number[], label = ''): Series => ({
  metric,
  label,
  slots,
  min: avg,
  avg,
  max: avg,
});
const hourOf = (hour: number, block: Buffer) => ({
  deviceId: 'd',
  beginsAt: new Date(DAY.getTime() + hour * HOUR),
  block,
});
const packed = (...all: Series[]) => packBlock({ stepSeconds: 60, series: all }, { hasRange: false });

const keyOf = ({ metric, label }: Series) => `${metric} ${label}`;
const byKey = ({ series: all }: Block) =>
  all.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0));

describe('the hours of a day', () => {
  it('are joined to what merging them minute by minute would give, in whatever minutes they have figures', () => {
    const anyHour = fc.record({
      hour: fc.nat(23),
      all: fc.uniqueArray(
        fc.record({
          metric: fc.constantFrom('cpuPercent' as const, 'load' as const, 'processCpuPercent' as const),
          label: fc.constantFrom('', 'a', 'b'),
          slots: fc.uniqueArray(fc.nat(59), { minLength: 1, maxLength: 8 }),
        }),
        { selector: ({ metric, label }) => `${metric} ${label}`, minLength: 1, maxLength: 4 },
      ),
    });
    fc.assert(
      fc.property(fc.array(anyHour, { minLength: 1, maxLength: 8 }), (hours) => {
        let figure = 0;
        const rows = hours
          .toSorted((a, b) => a.hour - b.hour)
          .map(({ hour, all }) => ({
            hour,
            block: packed(
              ...all.map(({ metric, label, slots }) =>
                series(
                  metric,
                  slots.toSorted((a, b) => a - b),
                  slots.map(() => (figure += 1)),
                  label,
                ),
              ),
            ),
          }));
        const found = joinedDay(
          undefined,
          rows.map(({ hour, block }) => hourOf(hour, block)),
          DAY,
        );
        const expected = mergeBlocks(
          rows.map(({ hour, block }) => {
            const read = unpackBlock(block)!;
            return {
              ...read,
              series: read.series.map((one) => ({
                ...one,
                slots: one.slots.map((slot) => slot + 60 * hour),
              })),
            };
          }),
        );
        expect(byKey(unpackBlock(found!.block)!)).to.deep.equal(byKey(expected));
      }),
      { numRuns: 150 },
    );
  });

  it('are added to the day that is there, whose minutes they replace', () => {
    const known = packCompactBlock(
      { stepSeconds: 60, series: [series('cpuPercent', [0, 60, 61, 600], [1, 2, 3, 4])] },
      { hasRange: false },
    )!;
    const found = joinedDay(hourOf(0, known), [hourOf(1, packed(series('cpuPercent', [1, 2], [7, 8])))], DAY);
    expect(unpackBlock(found!.block)?.series).to.deep.equal([
      series('cpuPercent', [0, 60, 61, 62, 600], [1, 2, 7, 8, 4]),
    ]);
  });

  it('stay where they are if not all of them can be read, which a later release may do', () => {
    const good = hourOf(3, packed(series('load', [0], [1])));
    const damaged = hourOf(4, Buffer.from([1, 0]));
    const later = hourOf(5, Buffer.from([3, 0]));
    const block = packed(series('load', [0], [1]), series('cpuPercent', [0], [1]));
    // The head of the second series: twice the id of its metric.
    block[block.lastIndexOf(2, -4)] = 126;
    const unknown = hourOf(6, block);
    expect(unpackBlock(block)?.hasUnknown).to.equal(true);
    const found = joinedDay(undefined, [good, damaged, later, unknown], DAY);
    expect(found?.hours).to.deep.equal([good]);
    expect(joinedDay(undefined, [damaged, later, unknown], DAY)).to.equal(undefined);
    for (const { block: of } of [damaged, later, unknown]) {
      expect(joinedDay(hourOf(0, of), [good], DAY)).to.equal(undefined);
    }
  });

  it('stay where they are if the day has more than a block may have', () => {
    const names = (hour: number) =>
      Array.from({ length: 256 }, (_, n) => series('processCpuPercent', [0], [1], `${hour} ${n}`));
    const hours = Array.from({ length: 24 }, (_, hour) => hourOf(hour, packed(...names(hour))));
    const day = joinedDay(undefined, hours, DAY);
    expect(unpackBlock(day!.block)?.series).to.have.length(24 * 256);
    expect(joinedDay(hourOf(0, day!.block), [hourOf(3, packed(...names(25)))], DAY)).to.equal(undefined);
  });

  it('keep their figures if damage has made two series of one of them the same', () => {
    const damaged = packed(series('cpuPercent', [0, 1], [1, 2]), series('ramPercent', [0, 1], [3, 4]));
    // The head of the second series, twice the id of its metric, becomes that of the first.
    damaged[damaged.lastIndexOf(4, -4)] = 2;
    expect(unpackBlock(damaged)?.series.map(({ metric }) => metric)).to.deep.equal([
      'cpuPercent',
      'cpuPercent',
    ]);
    const found = joinedDay(
      undefined,
      [hourOf(0, damaged), hourOf(1, packed(series('load', [0], [5])))],
      DAY,
    );
    expect(unpackBlock(found!.block)?.series).to.deep.include(series('load', [60], [5]));
  });

  it('that are none are a day without figures', () => {
    expect(joinBlocks([], DAY.getTime())).to.deep.include({ slots: [], series: [] });
    expect(joinedDay(undefined, [], DAY)).to.equal(undefined);
  });
});
