import { brotliCompressSync, brotliDecompressSync, constants, crc32 } from 'node:zlib';
import { groupedBy } from '../../platform/grouped-by.ts';
import type { Pieces } from '../../platform/turns.ts';
import { DamagedBlock, POINTS_MAX, Reader, SLOTS_MAX, Writer } from './block-bytes.ts';
import { metricOfId, METRICS, type MetricName, type ReadBlock, type Series } from './metric.ts';
import { inFigures, inUnits } from './units.ts';

/**
 * Version 2 of the format of blocks, in which days are kept: each name and each set of slots stands there once, the
 * figures of a series lie together, and all is compressed by brotli. After the version:
 *
 * | part | bytes |
 * |---|---|
 * | CRC-32 of all that follows | 4 |
 * | length of the body before it was compressed | number |
 * | the body as a brotli stream | the rest |
 *
 * The body:
 *
 * | part | bytes |
 * |---|---|
 * | 1 if points have a minimum and a maximum beside the average, else 0 | 1 |
 * | seconds of a slot | number |
 * | names: how many; each: length, then UTF-8 | number, text |
 * | sets of slots: how many; each: how many slots, then how many slots lie between two | number, column |
 * | each metric: its id | number |
 * | – length of what follows in it, so that readers can pass over it | number |
 * | – series: how many; each: which name, which set of slots | number |
 * | – – averages; with minimum and maximum: then how far the minima lie below, and the maxima above | column each |
 *
 * The first set of slots is that of all series together. A column begins with a byte for how its numbers are told
 * (`ABOVE_LEAST` or `DIFFERENCES`), and holds them as `Writer.numbers` does. A number with a sign is doubled, and 1 less if
 * it was above 0.
 */
export const COMPACT_VERSION = 2;

/** As many as 24 hours may have, if each has other ones. */
const COMPACT_SERIES_MAX = 24 * 256;
/** More than a block of `POINTS_MAX` figures without ranges and `COMPACT_SERIES_MAX` names of 100 characters has. */
const BODY_MAX = 2 ** 23;
/** More than this nothing is written, so that sums stay exact. */
const VALUE_MAX = 2 ** 49;

/** The least number with a sign, then what each has more. */
const ABOVE_LEAST = 0;
/** Each number less the one before, with a sign. */
const DIFFERENCES = 1;

/** Smaller than with 5 to 9, which look for repetitions that figures seldom have; 10 gains 4 to 7 % for 40 times the work. */
const QUALITY = 4;
/** 64 KiB: a day of most devices is shorter. */
const WINDOW_BITS = 16;

const signed = (difference: number) => (difference > 0 ? difference * 2 - 1 : 0 - difference * 2);
const unsigned = (number: number) => (number % 2 === 1 ? (number + 1) / 2 : 0 - number / 2);

/** Writes a block whose series are usable; each is a piece. `undefined`: it has more than a block may have. */
export function* writingCompact({
  stepSeconds,
  slots: all,
  series,
  hasRange,
}: Omit<ReadBlock, 'hasUnknown'> & { hasRange: boolean }): Pieces<Buffer | undefined> {
  const points = series.reduce((sum, { slots }) => sum + slots.length, all.length);
  if (series.length > COMPACT_SERIES_MAX || points > POINTS_MAX) return undefined;
  const names = new Places<string>();
  const sets = new Places<readonly number[]>();
  sets.placeOf(ALL_SLOTS, all);
  const placed = series.map((one) => ({
    one,
    name: names.placeOf(one.label, one.label),
    set: sets.placeOf(one.slots.length === all.length ? ALL_SLOTS : one.slots.join(' '), one.slots),
  }));
  const out = new Writer();
  out.byte(hasRange ? 1 : 0);
  out.number(stepSeconds);
  out.number(names.all.length);
  for (const name of names.all) out.text(name);
  out.number(sets.all.length);
  for (const slots of sets.all) {
    out.number(slots.length);
    writeColumn(
      out,
      slots.map((slot, at) => slot - (slots[at - 1] ?? -1) - 1),
    );
  }
  const part = new Writer();
  for (const [metric, members] of groupedBy(placed, ({ one }) => one.metric)) {
    part.clear();
    part.number(members.length);
    for (const { one, name, set } of members) {
      part.number(name);
      part.number(set);
      const average = inUnits(one, one.avg, stepSeconds);
      writeColumn(part, average);
      yield;
      if (!hasRange) continue;
      const min = inUnits(one, one.min, stepSeconds);
      const max = inUnits(one, one.max, stepSeconds);
      writeColumn(
        part,
        average.map((value, at) => value - (min[at] ?? value)),
      );
      writeColumn(
        part,
        average.map((value, at) => (max[at] ?? value) - value),
      );
    }
    out.number(METRICS[metric].id);
    out.part(part);
  }
  const body = out.bytes();
  return body.length > BODY_MAX ? undefined : compressed(body);
}

function compressed(body: Buffer): Buffer {
  const length = new Writer();
  length.number(body.length);
  const stream = brotliCompressSync(body, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: QUALITY,
      [constants.BROTLI_PARAM_LGWIN]: WINDOW_BITS,
      [constants.BROTLI_PARAM_SIZE_HINT]: body.length,
    },
  });
  const rest = Buffer.concat([length.bytes(), stream]);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(rest));
  return Buffer.concat([Uint8Array.of(COMPACT_VERSION), checksum, rest]);
}

function decompressed(bytes: Uint8Array): Uint8Array {
  const rest = bytes.subarray(4);
  if (bytes.length < 4 || Buffer.from(bytes.subarray(0, 4)).readUInt32BE() !== crc32(rest)) {
    throw new DamagedBlock('The checksum of the block is wrong.');
  }
  const input = new Reader(rest);
  const length = input.count(BODY_MAX);
  const body = decompressedStream(rest.subarray(input.position), length);
  if (body.length !== length) throw new DamagedBlock('The block has another length than stated.');
  return body;
}

function decompressedStream(stream: Uint8Array, maxOutputLength: number): Uint8Array {
  try {
    return brotliDecompressSync(stream, { maxOutputLength });
  } catch (error) {
    throw new DamagedBlock('The block cannot be decompressed.', { cause: error });
  }
}

/** Reads the wanted series of a block, from behind its version; each is a piece. Throws `DamagedBlock`. */
export function* readingCompact(
  bytes: Uint8Array,
  wants: (metric: MetricName) => boolean,
): Pieces<ReadBlock> {
  const input = new Reader(decompressed(bytes));
  const hasRange = input.byte() === 1;
  const stepSeconds = input.step();
  const names = Array.from({ length: input.count(COMPACT_SERIES_MAX) }, () => input.pass(input.number()));
  const sets = readSlotSets(input);
  const series: Series[] = [];
  let hasUnknown = false;
  let points = 0;
  while (!input.isAtEnd) {
    const metric = metricOfId(input.number());
    const part = new Reader(input.pass(input.number()));
    if (metric === undefined) hasUnknown = true;
    if (metric === undefined || !wants(metric)) continue;
    for (let left = part.count(COMPACT_SERIES_MAX - series.length); left > 0; left -= 1) {
      const name = names[part.number()];
      const slots = sets[part.number()];
      if (name === undefined || slots === undefined) {
        throw new DamagedBlock('A series of the block has no name or no slots.');
      }
      points += slots.length;
      if (points > POINTS_MAX) throw new DamagedBlock('The block has too many figures.');
      const figures = (values: readonly number[]) => inFigures(metric, values, slots, stepSeconds);
      const average = readColumn(part, slots.length);
      const avg = figures(average);
      let [min, max] = [avg, avg];
      if (hasRange) {
        const below = readColumn(part, slots.length);
        const above = readColumn(part, slots.length);
        min = figures(average.map((value, at) => value - (below[at] ?? 0)));
        max = figures(average.map((value, at) => value + (above[at] ?? 0)));
      }
      series.push({ metric, label: Buffer.from(name).toString(), slots: [...slots], min, avg, max });
      yield;
    }
    if (!part.isAtEnd) throw new DamagedBlock('A metric of the block has another length than stated.');
  }
  return { stepSeconds, slots: sets[0] ?? [], series, hasUnknown };
}

/** What is met for the first time gets the next place. */
class Places<T> {
  readonly #places = new Map<string, number>();
  readonly all: T[] = [];

  placeOf(key: string, item: T): number {
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    this.#places.set(key, this.all.length);
    return this.all.push(item) - 1;
  }
}

const ALL_SLOTS = 'all';

function readSlotSets(input: Reader): number[][] {
  let points = 0;
  return Array.from({ length: input.count(1 + COMPACT_SERIES_MAX) }, () => {
    const length = input.count(SLOTS_MAX);
    points += length;
    if (points > POINTS_MAX) throw new DamagedBlock('The block has too many figures.');
    let before = -1;
    return readColumn(input, length).map((between) => {
      before += between + 1;
      if (between < 0 || before >= SLOTS_MAX) throw new DamagedBlock('The block has too many slots.');
      return before;
    });
  });
}

function writeColumn(out: Writer, values: readonly number[]): void {
  const least = values.reduce((lower, value) => Math.min(lower, value), values[0] ?? 0);
  const aboveLeast = values.map((value) => value - least);
  const differences = values.map((value, at) => signed(value - (values[at - 1] ?? 0)));
  if (bitsOf(aboveLeast) < bitsOf(differences)) {
    out.byte(ABOVE_LEAST);
    out.number(signed(least));
    out.numbers(aboveLeast);
  } else {
    out.byte(DIFFERENCES);
    out.numbers(differences);
  }
}

/** How many bits the numbers have in all, which tells well enough what they take when they are compressed. */
const bitsOf = (numbers: readonly number[]) =>
  numbers.reduce((bits, number) => bits + Math.log2(number + 1), 0);

function readColumn(input: Reader, length: number): number[] {
  const way = input.byte();
  if (way !== ABOVE_LEAST && way !== DIFFERENCES) {
    throw new DamagedBlock('A column of the block is of an unknown kind.');
  }
  let from = way === ABOVE_LEAST ? unsigned(input.number()) : 0;
  return input.numbers(length).map((number) => {
    const value = from + (way === ABOVE_LEAST ? number : unsigned(number));
    if (Math.abs(value) > VALUE_MAX) throw new DamagedBlock('A number of the block is too large.');
    if (way === DIFFERENCES) from = value;
    return value;
  });
}
