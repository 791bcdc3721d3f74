import { finished, type Pieces } from '../../platform/turns.ts';
import { DamagedBlock, POINTS_MAX, Reader, SLOTS_MAX, Writer } from './block-bytes.ts';
import { COMPACT_VERSION, readingCompact, writingCompact } from './compact-block.ts';
import { type Block, metricOfId, METRICS, type MetricName, type ReadBlock, type Series } from './metric.ts';
import { inFigures, inUnits } from './units.ts';

/**
 * The format in which rows of the metric history hold their figures: all series of one device in one stretch of time,
 * such as an hour with a slot for each minute. `compact-block.ts` describes version 2; version 1:
 *
 * | part | bytes |
 * |---|---|
 * | version | 1 |
 * | 1 if points have a minimum and a maximum beside the average, else 0 | 1 |
 * | seconds of a slot | number |
 * | slots that any series has: length, then a bit for each slot, the lowest first | number, bitmap |
 * | each series: twice the id of its metric, plus 1 if it has not all of those slots | number |
 * | – its label: length, then UTF-8 | number, text |
 * | – the length of what follows in it, so that readers can pass over it | number |
 * | – the slots that it has, if not all: length, then bits as above | number, bitmap |
 * | – averages; with minimum and maximum: then how far the minima lie below them, and the maxima above | column each |
 *
 * A number has seven bits in each byte, the lowest first, and the eighth bit says that another byte follows. A column
 * holds differences: each value less the one before, in units of the metric, with the sign in the lowest bit. A 0 is
 * followed by the number of further zeros. What a reader does not know (a later version, another metric) it leaves out.
 */
const VERSION = 1;

/** The most series of a block. */
export const SERIES_MAX = 256;

/** Packs a block. Figures that are not finite or are negative are left out, and so are series beyond `SERIES_MAX`. */
export function packBlock({ stepSeconds, series }: Block, { hasRange }: { hasRange: boolean }): Buffer {
  const kept = series.slice(0, SERIES_MAX).flatMap(usable);
  const all = allSlots(kept);
  const out = new Writer();
  out.byte(VERSION);
  out.byte(hasRange ? 1 : 0);
  out.number(stepSeconds);
  out.bits(all);
  const body = new Writer();
  for (const one of kept) {
    const hasAll = one.slots.length === all.length;
    body.clear();
    if (!hasAll) body.bits(one.slots);
    const average = inUnits(one, one.avg, stepSeconds);
    body.column(average);
    if (hasRange) {
      const min = inUnits(one, one.min, stepSeconds);
      const max = inUnits(one, one.max, stepSeconds);
      body.column(average.map((value, at) => value - (min[at] ?? value)));
      body.column(average.map((value, at) => (max[at] ?? value) - value));
    }
    out.number(METRICS[one.metric].id * 2 + (hasAll ? 0 : 1));
    out.text(one.label);
    out.part(body);
  }
  return out.bytes();
}

/**
 * Packs a block smaller, for more processor time: as version 2. Figures that are not finite or are negative are
 * left out.
 * @returns `undefined` if it has more series or figures than 24 blocks of an hour may have
 */
export function packCompactBlock(block: Block, form: { hasRange: boolean }): Buffer | undefined {
  return finished(packingCompactBlock(block, form));
}

/** The same in pieces. */
export function* packingCompactBlock(
  { stepSeconds, series }: Block,
  { hasRange }: { hasRange: boolean },
): Pieces<Buffer | undefined> {
  const kept = series.flatMap(usable);
  yield;
  return yield* writingCompact({ stepSeconds, series: kept, slots: allSlots(kept), hasRange });
}

/**
 * Unpacks the wanted series of a block. Throws `DamagedBlock`.
 * @returns `undefined` for a block of a later version
 */
export function unpackBlock(
  bytes: Uint8Array,
  wants?: (metric: MetricName) => boolean,
): ReadBlock | undefined {
  return finished(unpacking(bytes, wants));
}

function* unpacking(
  bytes: Uint8Array,
  wants: (metric: MetricName) => boolean = () => true,
): Pieces<ReadBlock | undefined> {
  const input = new Reader(bytes);
  const version = input.byte();
  if (version === COMPACT_VERSION) return yield* readingCompact(bytes.subarray(1), wants);
  if (version !== VERSION) return undefined;
  const hasRange = input.byte() === 1;
  const stepSeconds = input.step();
  const all = input.bits();
  const series: Series[] = [];
  let points = 0;
  let hasUnknown = false;
  while (!input.isAtEnd) {
    const head = input.number();
    const labelAt = input.pass(input.number());
    const length = input.number();
    const end = input.position + length;
    const metric = metricOfId(Math.floor(head / 2));
    if (metric === undefined) hasUnknown = true;
    if (metric === undefined || !wants(metric)) {
      input.moveTo(end);
      continue;
    }
    const slots = head % 2 === 0 ? all : input.bits();
    points += slots.length;
    if (points > POINTS_MAX) throw new DamagedBlock('The block has too many figures.');
    const average = input.column(slots.length);
    const below = hasRange ? input.column(slots.length) : undefined;
    const above = hasRange ? input.column(slots.length) : undefined;
    if (input.position !== end) throw new DamagedBlock('A series has another length than stated.');
    const figures = (values: readonly number[]) => inFigures(metric, values, slots, stepSeconds);
    const avg = figures(average);
    series.push({
      metric,
      label: Buffer.from(labelAt).toString(),
      slots: [...slots],
      avg,
      min: below === undefined ? avg : figures(average.map((value, at) => value - (below[at] ?? 0))),
      max: above === undefined ? avg : figures(average.map((value, at) => value + (above[at] ?? 0))),
    });
  }
  return { stepSeconds, slots: all, series, hasUnknown };
}

/** A block that cannot be read, damaged or of a later version, is as if it were not there: the rest of the history is shown. */
export function readableBlock(
  bytes: Uint8Array,
  wants?: (metric: MetricName) => boolean,
): ReadBlock | undefined {
  return finished(readingBlock(bytes, wants));
}

/** The same in pieces: a block of a day may have thousands of series. */
export function* readingBlock(
  bytes: Uint8Array,
  wants?: (metric: MetricName) => boolean,
): Pieces<ReadBlock | undefined> {
  try {
    return yield* unpacking(bytes, wants);
  } catch (error) {
    if (error instanceof DamagedBlock) return undefined;
    throw error;
  }
}

/** The slots that any of the series has, ascending. */
function allSlots(series: readonly Series[]): number[] {
  const longest = series.reduce<readonly number[]>(
    (most, { slots }) => (slots.length > most.length ? slots : most),
    [],
  );
  const known = new Set(longest);
  const others = series.flatMap(({ slots }) =>
    slots === longest ? [] : slots.filter((slot) => !known.has(slot)),
  );
  return others.length === 0 ? [...longest] : [...new Set([...longest, ...others])].sort((a, b) => a - b);
}

const isUsable = (value: number | undefined) => value !== undefined && Number.isFinite(value) && value >= 0;

const isPoint = ({ slots, min, avg, max }: Series, at: number) => {
  const slot = slots[at] ?? -1;
  return (
    Number.isInteger(slot) &&
    slot >= 0 &&
    slot < SLOTS_MAX &&
    isUsable(avg[at]) &&
    (min === avg || isUsable(min[at])) &&
    (max === avg || isUsable(max[at]))
  );
};

/** The series without its unusable points, or nothing if there is no other. */
function usable(series: Series): Series[] {
  const { slots, min, avg, max } = series;
  if (slots.length > 0 && slots.every((_slot, at) => isPoint(series, at))) return [series];
  const kept = [...slots.keys()].filter((at) => isPoint(series, at));
  if (kept.length === 0) return [];
  const only = (values: readonly number[]) => kept.map((at) => values[at] ?? 0);
  return [{ ...series, slots: only(slots), min: only(min), avg: only(avg), max: only(max) }];
}
