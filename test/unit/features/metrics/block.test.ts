import { expect } from 'chai';
import fc from 'fast-check';
import { DamagedBlock, Writer } from '../../../../src/features/metrics/block-bytes.ts';
import { packBlock, SERIES_MAX, unpackBlock } from '../../../../src/features/metrics/block.ts';
import {
  type Block,
  kindOf,
  METRIC_NAMES,
  type MetricName,
  type Series,
} from '../../../../src/features/metrics/metric.ts';

const plain = (metric: MetricName, slots: number[], values: number[], label = ''): Series => ({
  metric,
  label,
  slots,
  min: values,
  avg: values,
  max: values,
});
const hour = (...series: Series[]): Block => ({ stepSeconds: 60, series });
const roundTrip = (block: Block, hasRange = false) => unpackBlock(packBlock(block, { hasRange }));

/** Figures as a machine has them: within what the protocol lets through, and in any slot of a day of minutes. */
const anySeries = fc
  .record({
    metric: fc.constantFrom(...METRIC_NAMES),
    label: fc.string({ unit: 'grapheme', maxLength: 20 }),
    points: fc.uniqueArray(fc.tuple(fc.nat(1439), fc.double({ min: 0, max: 1e12, noNaN: true })), {
      selector: ([slot]) => slot,
      minLength: 1,
      maxLength: 60,
    }),
  })
  .map(({ metric, label, points }) => {
    const sorted = points.toSorted(([a], [b]) => a - b);
    return plain(
      metric,
      sorted.map(([slot]) => slot),
      sorted.map(([, value]) => value),
      label,
    );
  });
const anyBlock = fc
  .uniqueArray(anySeries, { selector: ({ metric, label }) => `${metric} ${label}`, maxLength: 12 })
  .map((series) => hour(...series));

/** Half a unit is lost by rounding, and a little by numbers of floating point. */
const isClose = (metric: MetricName, before: number, after: number) =>
  Math.abs(before - after) <= kindOf(metric).unit / 2 + before * 1e-9;

describe('a block of metrics', () => {
  it('gives back each figure to half a unit, in its slot and under its label', () => {
    fc.assert(
      fc.property(anyBlock, fc.boolean(), (block, hasRange) => {
        const found = roundTrip(block, hasRange)!;
        expect(found.stepSeconds).to.equal(60);
        expect(found.series.map(({ metric, label, slots }) => ({ metric, label, slots }))).to.deep.equal(
          block.series.map(({ metric, label, slots }) => ({
            metric,
            label: Buffer.from(label).toString(),
            slots,
          })),
        );
        for (const [at, { metric, avg }] of block.series.entries()) {
          for (const [point, value] of avg.entries()) {
            expect(isClose(metric, value, found.series[at]!.avg[point]!), `${metric} ${value}`).to.equal(
              true,
            );
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  it('keeps minimum and maximum apart from the average if it has them, and has one figure for all if not', () => {
    const series = { ...plain('cpuPercent', [0, 3], [10, 20]), min: [1, 20], max: [99.5, 20] };
    expect(roundTrip(hour(series), true)?.series).to.deep.equal([series]);
    expect(roundTrip(hour(series), false)?.series).to.deep.equal([plain('cpuPercent', [0, 3], [10, 20])]);
  });

  it('leaves out figures that are not finite or are negative, and the other figures stay', () => {
    const wrong = [Number.NaN, -1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    const found = roundTrip(
      hour(plain('cpuPercent', [0, 1, 2, 3, 4], [...wrong, 7]), plain('load', [0, 1, 2, 3], wrong)),
    );
    expect(found?.series).to.deep.equal([plain('cpuPercent', [4], [7])]);
  });

  it('of ten thousand volumes has as many series as it may', () => {
    const volumes = Array.from({ length: 10_000 }, (_, n) =>
      plain('volumeUsedBytes', [0], [n * 2 ** 20], `/${n}`),
    );
    expect(roundTrip(hour(...volumes))?.series).to.have.length(SERIES_MAX);
  });

  it('is small: an hour of constant figures takes a few bytes for each series', () => {
    const minutes = Array.from({ length: 60 }, (_, minute) => minute);
    const still = hour(
      plain(
        'ramPercent',
        minutes,
        minutes.map(() => 48.1),
      ),
      plain(
        'uptimeSeconds',
        minutes,
        minutes.map((minute) => 1_000_000 + minute * 60),
      ),
      plain(
        'volumeUsedBytes',
        minutes,
        minutes.map(() => 71 * 2 ** 30),
        '/',
      ),
    );
    expect(packBlock(still, { hasRange: false }).length).to.be.lessThan(50);
  });

  it('is read in part: only the wanted metrics', () => {
    const bytes = packBlock(hour(plain('cpuPercent', [0], [1]), plain('load', [0], [2])), {
      hasRange: false,
    });
    expect(unpackBlock(bytes, (metric) => metric === 'load')?.series).to.deep.equal([
      plain('load', [0], [2]),
    ]);
  });

  it('of a later version is left out, and so is a metric that is not known', () => {
    const bytes = packBlock(hour(plain('cpuPercent', [0], [1]), plain('load', [0], [2])), {
      hasRange: false,
    });
    expect(unpackBlock(Buffer.from([3, ...bytes.subarray(1)]))).to.equal(undefined);
    // The head of the first series: twice the id of its metric.
    const head = bytes.indexOf(2, 2 + 1 + 2);
    const unknown = Buffer.from(bytes);
    unknown[head] = 126;
    expect(unpackBlock(unknown)?.series.map(({ metric }) => metric)).to.deep.equal(['load']);
  });

  it('that would be unpacked to more figures than a block may have is refused', () => {
    const bomb = new Writer();
    bomb.byte(1);
    bomb.byte(0);
    bomb.number(60);
    bomb.bits(Array.from({ length: 2048 }, (_, slot) => slot));
    const zeros = new Writer();
    zeros.column(Array.from({ length: 2048 }, () => 0));
    for (let count = 0; count < 10_000; count += 1) {
      bomb.number(2);
      bomb.text('');
      bomb.part(zeros);
    }
    expect(bomb.bytes().length).to.be.lessThan(100_000);
    expect(() => unpackBlock(bomb.bytes())).to.throw(DamagedBlock, 'too many figures');
  });

  it('whose slots have no length, or one of years, is refused', () => {
    for (const seconds of [0, 31_536_000, 2 ** 50]) {
      const odd = new Writer();
      odd.byte(1);
      odd.byte(0);
      odd.number(seconds);
      odd.bits([0]);
      expect(() => unpackBlock(odd.bytes()), String(seconds)).to.throw(DamagedBlock);
    }
  });

  it('that is damaged in any way is refused or read, and never hangs or fails otherwise', () => {
    fc.assert(
      fc.property(anyBlock, fc.nat(), fc.nat(255), fc.boolean(), (block, at, byte, cuts) => {
        const bytes = packBlock(block, { hasRange: true });
        const place = at % bytes.length;
        if (cuts) tryToRead(bytes.subarray(0, place));
        bytes[place] = byte;
        tryToRead(bytes);
      }),
      { numRuns: 300 },
    );
    fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), tryToRead), { numRuns: 300 });
  });
});

function tryToRead(bytes: Uint8Array): void {
  try {
    unpackBlock(bytes);
  } catch (error) {
    expect(error).to.be.instanceOf(DamagedBlock);
  }
}
