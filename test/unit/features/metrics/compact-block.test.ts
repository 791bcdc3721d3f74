import { brotliCompressSync, brotliDecompressSync, constants, crc32 } from 'node:zlib';
import { expect } from 'chai';
import fc from 'fast-check';
import { DamagedBlock, Reader, Writer } from '../../../../src/features/metrics/block-bytes.ts';
import {
  packBlock,
  packCompactBlock,
  readableBlock,
  readingBlock,
  SERIES_MAX,
  unpackBlock,
} from '../../../../src/features/metrics/block.ts';
import {
  type Block,
  METRIC_NAMES,
  type MetricName,
  type Series,
} from '../../../../src/features/metrics/metric.ts';
import { Summary } from '../../../../src/features/metrics/series.ts';
import type { Pieces } from '../../../../src/platform/turns.ts';
import { asStored } from '../../../../src/features/metrics/units.ts';

const plain = (metric: MetricName, slots: number[], values: number[], label = ''): Series => ({
  metric,
  label,
  slots,
  min: values,
  avg: values,
  max: values,
});
const minutes = (count: number) => Array.from({ length: count }, (_, minute) => minute);
const day = (...series: Series[]): Block => ({ stepSeconds: 60, series });
const packed = (block: Block, hasRange = false): Buffer => {
  const bytes = packCompactBlock(block, { hasRange });
  if (bytes === undefined) throw new Error('The block has too much.');
  return bytes;
};
const roundTrip = (block: Block, hasRange = false) => unpackBlock(packed(block, hasRange))!;

/** Of every size that the protocol lets through and beyond, steady, wandering or without any order. */
const anyFigure = fc.oneof(
  fc.constantFrom(0, 1, 48.1, 100),
  fc.double({ min: 0, max: 100, noNaN: true }),
  fc.double({ min: 0, max: 1e12, noNaN: true }),
  fc.constant(1e300),
);
const anySeries = fc
  .record({
    metric: fc.constantFrom(...METRIC_NAMES),
    label: fc.string({ unit: 'grapheme', maxLength: 20 }),
    points: fc.uniqueArray(fc.tuple(fc.nat(2047), anyFigure, anyFigure, anyFigure), {
      selector: ([slot]) => slot,
      minLength: 1,
      maxLength: 60,
    }),
  })
  .map(({ metric, label, points }): Series => {
    const sorted = points.toSorted(([a], [b]) => a - b);
    return {
      metric,
      label: Buffer.from(label).toString(),
      slots: sorted.map(([slot]) => slot),
      min: sorted.map(([, min]) => min),
      avg: sorted.map(([, , avg]) => avg),
      max: sorted.map(([, , , max]) => max),
    };
  });
const anyBlock = fc
  .uniqueArray(anySeries, { selector: ({ metric, label }) => `${metric} ${label}`, maxLength: 12 })
  .map((series) => day(...series));

const keyOf = ({ metric, label }: Series) => `${metric} ${label}`;
const byKey = (series: readonly Series[]) =>
  series.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0));
const stored = ({ metric, label, slots, min, avg, max }: Series): Series => {
  const figures = (values: readonly number[]) => values.map((value) => asStored(metric, value));
  return { metric, label, slots, min: figures(min), avg: figures(avg), max: figures(max) };
};

const written = (write: (out: Writer) => void): Buffer => {
  const out = new Writer();
  write(out);
  return out.bytes();
};
/** What follows the version, with the right checksum, as a program writes it that means harm. */
function withChecksum(...parts: readonly Uint8Array[]): Buffer {
  const rest = Buffer.concat(parts);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(rest));
  return Buffer.concat([Uint8Array.of(2), checksum, rest]);
}
const stating = (length: number, stream: Uint8Array) =>
  withChecksum(
    written((out) => out.number(length)),
    stream,
  );
const forged = (body: Uint8Array) => stating(body.length, brotliCompressSync(body));
const forgedBy = (write: (out: Writer) => void) => forged(written(write));
/** What a block has, decompressed. */
function bodyOf(block: Buffer): Buffer {
  const input = new Reader(block.subarray(5));
  input.number();
  return brotliDecompressSync(block.subarray(5 + input.position));
}
/** How a column begins. */
const [ABOVE_LEAST, DIFFERENCES] = [0, 1];

describe('a compact block of metrics', () => {
  it('gives back each figure as it is stored, in its slot and under its label', () => {
    fc.assert(
      fc.property(anyBlock, (block) => {
        const found = roundTrip(block, true);
        expect(found.stepSeconds).to.equal(60);
        expect(found.slots).to.deep.equal(
          [...new Set(block.series.flatMap(({ slots }) => slots))].sort((a, b) => a - b),
        );
        expect(byKey(found.series)).to.deep.equal(byKey(block.series.map(stored)));
      }),
      { numRuns: 100 },
    );
  });

  it('has exactly the figures of the blocks of hours that it is made of', () => {
    fc.assert(
      fc.property(anyBlock, (block) => {
        const before = unpackBlock(packBlock(block, { hasRange: false }))!;
        const after = roundTrip(before);
        expect(byKey(after.series)).to.deep.equal(byKey(before.series));
        expect(byKey(roundTrip(after).series)).to.deep.equal(byKey(before.series));
      }),
      { numRuns: 100 },
    );
  });

  it('is read in part: only the wanted metrics', () => {
    fc.assert(
      fc.property(anyBlock, fc.subarray([...METRIC_NAMES]), (block, wanted) => {
        const bytes = packed(block);
        const found = unpackBlock(bytes, (metric) => wanted.includes(metric))!;
        const all = unpackBlock(bytes)!;
        expect(found.slots).to.deep.equal(all.slots);
        expect(found.series).to.deep.equal(all.series.filter(({ metric }) => wanted.includes(metric)));
      }),
      { numRuns: 100 },
    );
  });

  it('with a metric of a later release is read without it, and says so', () => {
    const block = day(plain('cpuPercent', [0], [1]));
    const known = packed(block);
    expect(unpackBlock(known)?.hasUnknown).to.equal(false);
    const unknown = written((out) => {
      out.number(63);
      out.text('whatever');
    });
    const more = forged(Buffer.concat([bodyOf(known), unknown]));
    expect(unpackBlock(more)).to.deep.include({ series: block.series, hasUnknown: true });
  });

  it('leaves out figures that are not finite or are negative, and the other figures stay', () => {
    const wrong = [Number.NaN, -1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    const found = roundTrip(
      day(plain('cpuPercent', [0, 1, 2, 3, 4], [...wrong, 7]), plain('load', [0, 1, 2, 3], wrong)),
    );
    expect(found.series).to.deep.equal([plain('cpuPercent', [4], [7])]);
    expect(found.slots).to.deep.equal([4]);
    expect(roundTrip(day()).series).to.deep.equal([]);
  });

  it('takes less than half of what its hours take, of a machine that is idle', () => {
    const all = minutes(1440);
    let state = 1;
    const noise = (most: number) => {
      state = (state * 48_271) % 2_147_483_647;
      return state % most;
    };
    const series = [
      plain(
        'cpuPercent',
        all,
        all.map(() => (10 + noise(25)) / 10),
      ),
      plain(
        'uptimeSeconds',
        all,
        all.map((minute) => 1_000_000 + minute * 60),
      ),
      plain(
        'volumeTotalBytes',
        all,
        all.map(() => 500 * 2 ** 30),
        'C:',
      ),
    ];
    const compact = packed(day(...series)).length;
    let inHours = 0;
    for (let hour = 0; hour < 24; hour += 1) {
      const [from, to] = [hour * 60, hour * 60 + 60];
      const parts = series.map(({ metric, label, avg }) =>
        plain(metric, minutes(60), avg.slice(from, to), label),
      );
      inHours += packBlock(day(...parts), { hasRange: false }).length;
    }
    expect(compact).to.be.lessThan(inHours / 2);
    expect(compact).to.be.lessThan(1000);
  });

  it('holds the worst that a device can send: noise of every size in all series, with names of 100 characters', () => {
    let state = 1;
    const noise = () => {
      state = (state * 48_271) % 2_147_483_647;
      return state * 2 ** (state % 16);
    };
    const all = minutes(120);
    const series = Array.from({ length: SERIES_MAX }, (_, n) =>
      plain('volumeUsedBytes', all, all.map(noise), `${'é'.repeat(97)}${100 + n}`),
    );
    const found = roundTrip(day(...series));
    expect(found.series).to.deep.equal(series.map(stored));
  });

  it('is read in pieces, of which none has more than one series, and so are charts made of it', () => {
    const names = Array.from({ length: 600 }, (_, n) =>
      plain('processCpuPercent', minutes(10), minutes(10), `${n}`),
    );
    const count = (pieces: Pieces<unknown>) => {
      let pieceCount = 0;
      while (pieces.next().done !== true) pieceCount += 1;
      return pieceCount;
    };
    const bytes = packed(day(...names));
    expect(count(readingBlock(bytes))).to.equal(600);
    const summary = new Summary({ from: 0, to: 86_400_000, stepMs: 60_000 });
    expect(count(summary.adding(unpackBlock(bytes)!, 0))).to.equal(600);
    expect(summary.series).to.have.length(SERIES_MAX);
  });

  it('holds a day in which each hour has other names, and says so if it is more than a day can have', () => {
    const series = Array.from({ length: 24 * SERIES_MAX }, (_, n) =>
      plain('processCpuPercent', [Math.floor(n / SERIES_MAX) * 60], [5], `process ${n}`),
    );
    expect(roundTrip(day(...series)).series).to.deep.equal(series);
    const tooMuch = [...series, plain('load', [0], [1])];
    expect(packCompactBlock(day(...tooMuch), { hasRange: false })).to.equal(undefined);
    const tooLong = series.map((one) => ({ ...one, label: one.label.padEnd(1500) }));
    expect(packCompactBlock(day(...tooLong), { hasRange: false })).to.equal(undefined);
  });

  describe('that is damaged', () => {
    it('in one byte or cut off is refused', () => {
      fc.assert(
        fc.property(anyBlock, fc.nat(), fc.integer({ min: 1, max: 255 }), (block, at, change) => {
          const bytes = packed(block, true);
          const place = 1 + (at % (bytes.length - 1));
          expect(() => unpackBlock(bytes.subarray(0, place))).to.throw(DamagedBlock);
          bytes[place] = (bytes[place] ?? 0) ^ change;
          expect(() => unpackBlock(bytes)).to.throw(DamagedBlock);
          expect(readableBlock(bytes)).to.equal(undefined);
        }),
        { numRuns: 100 },
      );
    });

    it('on purpose, with the right checksum, is refused or read, and never hangs or fails otherwise', () => {
      const tryToRead = (bytes: Uint8Array) => {
        try {
          const found = unpackBlock(bytes);
          for (const { slots, avg } of found?.series ?? []) {
            expect(avg).to.have.length(slots.length);
            expect(avg.every((value) => Number.isFinite(value))).to.equal(true);
          }
        } catch (error) {
          expect(error).to.be.instanceOf(DamagedBlock);
        }
      };
      fc.assert(
        fc.property(anyBlock, fc.nat(), fc.nat(255), fc.boolean(), (block, at, byte, cuts) => {
          const bytes = packed(block, true);
          const body = bodyOf(bytes);
          const place = at % body.length;
          if (cuts) tryToRead(forged(body.subarray(0, place)));
          body[place] = byte;
          tryToRead(forged(body));
          const rest = bytes.subarray(5);
          rest[at % rest.length] = byte;
          tryToRead(withChecksum(rest));
        }),
        { numRuns: 150 },
      );
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(1000), (bytes, length) => {
          tryToRead(forged(bytes));
          tryToRead(withChecksum(bytes));
          tryToRead(stating(length, bytes));
        }),
        { numRuns: 150 },
      );
    });

    it('by stating another length than it has is refused', () => {
      const body = bodyOf(packed(day(plain('cpuPercent', minutes(60), minutes(60)))));
      const stream = brotliCompressSync(body);
      expect(unpackBlock(stating(body.length, stream))?.series).to.have.length(1);
      for (const length of [0, 1, body.length - 1, body.length + 1, 2 ** 22]) {
        expect(() => unpackBlock(stating(length, stream))).to.throw(DamagedBlock);
      }
      for (const cut of [0, 1, stream.length - 1]) {
        expect(() => unpackBlock(stating(body.length, stream.subarray(0, cut)))).to.throw(DamagedBlock);
      }
    });

    it('so that a few bytes would become many million is refused before they do', () => {
      const bomb = brotliCompressSync(Buffer.alloc(2 ** 24), {
        params: { [constants.BROTLI_PARAM_QUALITY]: 1 },
      });
      expect(bomb.length).to.be.lessThan(10_000);
      expect(() => unpackBlock(stating(2 ** 24, bomb))).to.throw(DamagedBlock, 'more than a block may have');
      expect(() => unpackBlock(stating(100, bomb))).to.throw(DamagedBlock, 'cannot be decompressed');
    });

    it('by saying that it has a thousand million of something is refused', () => {
      const MANY = 1e9;
      const begin = (out: Writer) => {
        out.byte(0);
        out.number(60);
      };
      const names = forgedBy((out) => {
        begin(out);
        out.number(MANY);
        for (let count = 0; count < 2000; count += 1) out.byte(0);
      });
      const name = forgedBy((out) => {
        begin(out);
        out.number(1);
        out.number(MANY);
      });
      const sets = forgedBy((out) => {
        begin(out);
        out.number(0);
        out.number(MANY);
      });
      const slots = forgedBy((out) => {
        begin(out);
        out.number(0);
        out.number(1);
        out.number(MANY);
        out.byte(DIFFERENCES);
      });
      const farSlot = forgedBy((out) => {
        begin(out);
        out.number(0);
        out.number(1);
        out.number(1);
        out.byte(ABOVE_LEAST);
        out.number(0);
        out.numbers([MANY]);
      });
      const series = forgedBy((out) => {
        begin(out);
        out.number(0);
        out.number(0);
        out.number(1);
        const part = new Writer();
        part.number(MANY);
        out.part(part);
      });
      const bytes = forgedBy((out) => {
        begin(out);
        out.number(0);
        out.number(0);
        out.number(1);
        out.number(MANY);
      });
      for (const damaged of [names, name, sets, slots, farSlot, series, bytes]) {
        expect(() => unpackBlock(damaged)).to.throw(DamagedBlock);
      }
    });

    it('by a number that is too large, a column of an unknown kind or bytes behind a column is refused', () => {
      const withColumn = (write: (part: Writer) => void) =>
        forgedBy((out) => {
          out.byte(0);
          out.number(60);
          out.number(1);
          out.text('');
          out.number(1);
          out.number(1);
          out.byte(ABOVE_LEAST);
          out.number(0);
          out.numbers([0]);
          out.number(1);
          const part = new Writer();
          part.number(1);
          part.number(0);
          part.number(0);
          write(part);
          out.part(part);
        });
      const column = (way: number, number: number) =>
        withColumn((part) => {
          part.byte(way);
          if (way === ABOVE_LEAST) part.number(0);
          part.numbers([number]);
        });
      expect(unpackBlock(column(DIFFERENCES, 9))?.series).to.deep.equal([plain('cpuPercent', [0], [0.5])]);
      const more = withColumn((part) => {
        part.byte(DIFFERENCES);
        part.numbers([9, 9]);
      });
      for (const damaged of [
        column(ABOVE_LEAST, 2 ** 50),
        column(DIFFERENCES, 2 ** 52),
        column(DIFFERENCES + 1, 9),
        more,
      ]) {
        expect(() => unpackBlock(damaged)).to.throw(DamagedBlock);
      }
    });

    it('so that a few bytes would become millions of slots is refused', () => {
      const bomb = forgedBy((out) => {
        out.byte(0);
        out.number(60);
        out.number(0);
        const sets = 300;
        out.number(sets);
        for (let count = 0; count < sets; count += 1) {
          out.number(2048);
          out.byte(ABOVE_LEAST);
          out.number(0);
          out.numbers(minutes(2048).fill(0));
        }
      });
      expect(bomb.length).to.be.lessThan(1000);
      expect(() => unpackBlock(bomb)).to.throw(DamagedBlock, 'too many figures');
    });

    it('so that a few bytes would become millions of figures is refused', () => {
      const slots = 2048;
      const series = 600;
      const zeros = Array.from({ length: slots }, () => 0);
      const bomb = forgedBy((out) => {
        out.byte(0);
        out.number(60);
        out.number(1);
        out.text('');
        out.number(1);
        out.number(slots);
        out.byte(ABOVE_LEAST);
        out.number(0);
        out.numbers(zeros);
        out.number(1);
        const part = new Writer();
        part.number(series);
        for (let count = 0; count < series; count += 1) {
          part.number(0);
          part.number(0);
          part.byte(DIFFERENCES);
          part.numbers(zeros);
        }
        out.part(part);
      });
      expect(bomb.length).to.be.lessThan(1000);
      expect(() => unpackBlock(bomb)).to.throw(DamagedBlock, 'too many figures');
    });
  });
});
