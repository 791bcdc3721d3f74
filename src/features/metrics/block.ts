import { kindOf, metricOfId, METRICS, type MetricName } from './metric.ts';

/**
 * The format in which rows of the metric history hold their figures: all series of one device in one stretch of time,
 * such as an hour with a slot for each minute. Version 1:
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
/** The most slots of a block: more than the minutes of a day. */
const SLOTS_MAX = 2048;

/** Far above every real figure, and small enough that differences are exact. */
const UNITS_MAX = 2 ** 47;

/** One metric of a device over the slots of a block. The arrays have the same length, and slots ascend. */
export interface Series {
  metric: MetricName;
  /** The volume or process; empty for metrics of which a device has one. */
  label: string;
  slots: number[];
  min: number[];
  avg: number[];
  max: number[];
}

export interface Block {
  stepSeconds: number;
  series: readonly Series[];
}

/** A block as it is read. */
export interface ReadBlock extends Block {
  /** The slots that any series has, wanted or not. */
  slots: number[];
}

/** The bytes are no block. */
export class DamagedBlock extends Error {}

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
 * Unpacks the wanted series of a block. Throws `DamagedBlock`.
 * @returns `undefined` for a block of a later version
 */
export function unpackBlock(
  bytes: Uint8Array,
  wants: (metric: MetricName) => boolean = () => true,
): ReadBlock | undefined {
  const input = new Reader(bytes);
  if (input.byte() !== VERSION) return undefined;
  const hasRange = input.byte() === 1;
  const stepSeconds = input.number();
  const all = input.bits();
  const series: Series[] = [];
  while (!input.isAtEnd) {
    const head = input.number();
    const labelAt = input.pass(input.number());
    const length = input.number();
    const end = input.position + length;
    const metric = metricOfId(Math.floor(head / 2));
    if (metric === undefined || !wants(metric)) {
      input.moveTo(end);
      continue;
    }
    const slots = head % 2 === 0 ? all : input.bits();
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
  return { stepSeconds, slots: all, series };
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

const isPoint = (slot: number, ...figures: (number | undefined)[]) =>
  Number.isInteger(slot) && slot >= 0 && slot < SLOTS_MAX && figures.every(isUsable);

/** The series without its unusable points, or nothing if there is no other. */
function usable(series: Series): Series[] {
  const { slots, min, avg, max } = series;
  const kept = slots.flatMap((slot, at) => (isPoint(slot, min[at], avg[at], max[at]) ? [at] : []));
  if (kept.length === 0) return [];
  if (kept.length === slots.length) return [series];
  const only = (values: readonly number[]) => kept.map((at) => values[at] ?? 0);
  return [{ ...series, slots: only(slots), min: only(min), avg: only(avg), max: only(max) }];
}

/** A figure as the history has it after it was stored and read. */
export function asStored(metric: MetricName, value: number): number {
  const { unit } = kindOf(metric);
  return inFigure(Math.min(Math.round(value / unit), UNITS_MAX), unit);
}

/** 0.1 times 3 is not 0.3. */
const inFigure = (units: number, unit: number) =>
  unit < 1 ? Math.round(units) / Math.round(1 / unit) : units * unit;

function inUnits({ metric, slots }: Series, values: readonly number[], stepSeconds: number): number[] {
  const { unit, isClock } = kindOf(metric);
  return values.map((value, at) => {
    const units = Math.min(Math.round(value / unit), UNITS_MAX);
    return isClock === true ? units - (slots[at] ?? 0) * stepSeconds : units;
  });
}

function inFigures(
  metric: MetricName,
  values: readonly number[],
  slots: readonly number[],
  stepSeconds: number,
): number[] {
  const { unit, isClock } = kindOf(metric);
  return values.map((value, at) => {
    const units = isClock === true ? value + (slots[at] ?? 0) * stepSeconds : value;
    return inFigure(units, unit);
  });
}

/** Bytes that grow. */
class Writer {
  #bytes = Buffer.allocUnsafe(256);
  #length = 0;

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  number(value: number): void {
    // A number has at most eight bytes.
    this.#reserve(8);
    let rest = value;
    while (rest >= 0x80) {
      this.#bytes[this.#length++] = (rest % 0x80) + 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[this.#length++] = rest;
  }

  text(text: string): void {
    const length = Buffer.byteLength(text);
    this.number(length);
    this.#reserve(length);
    this.#length += this.#bytes.write(text, this.#length);
  }

  /** What another one has, with its length before it. */
  part(part: Writer): void {
    this.number(part.#length);
    this.#reserve(part.#length);
    part.#bytes.copy(this.#bytes, this.#length, 0, part.#length);
    this.#length += part.#length;
  }

  /** @param slots  ascending */
  bits(slots: readonly number[]): void {
    const length = Math.floor((slots.at(-1) ?? -1) / 8) + 1;
    this.number(length);
    this.#reserve(length);
    this.#bytes.fill(0, this.#length, this.#length + length);
    for (const slot of slots) {
      const at = this.#length + Math.floor(slot / 8);
      this.#bytes[at] = (this.#bytes[at] ?? 0) + 2 ** (slot % 8);
    }
    this.#length += length;
  }

  column(values: readonly number[]): void {
    let before = 0;
    let zeros = 0;
    for (const value of values) {
      const difference = value - before;
      before = value;
      if (difference === 0) {
        zeros += 1;
        continue;
      }
      this.#zeros(zeros);
      zeros = 0;
      this.number(difference > 0 ? difference * 2 : -difference * 2 - 1);
    }
    this.#zeros(zeros);
  }

  #zeros(count: number): void {
    if (count === 0) return;
    this.number(0);
    this.number(count - 1);
  }

  clear(): void {
    this.#length = 0;
  }

  bytes(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#length));
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#length + more));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

class Reader {
  readonly #bytes: Uint8Array;
  position = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.position >= this.#bytes.length;
  }

  byte(): number {
    const byte = this.#bytes[this.position];
    if (byte === undefined) throw new DamagedBlock('The block ends too early.');
    this.position += 1;
    return byte;
  }

  number(): number {
    let value = 0;
    let factor = 1;
    for (;;) {
      const byte = this.byte();
      value += (byte % 0x80) * factor;
      if (byte < 0x80) break;
      factor *= 0x80;
      if (factor > Number.MAX_SAFE_INTEGER) throw new DamagedBlock('A number of the block is too large.');
    }
    return value;
  }

  pass(length: number): Uint8Array {
    const start = this.position;
    this.moveTo(start + length);
    return this.#bytes.subarray(start, start + length);
  }

  moveTo(position: number): void {
    if (position > this.#bytes.length) throw new DamagedBlock('The block ends too early.');
    this.position = position;
  }

  bits(): number[] {
    const bytes = this.pass(this.number());
    if (bytes.length > SLOTS_MAX / 8) throw new DamagedBlock('The block has too many slots.');
    const slots: number[] = [];
    for (const [at, byte] of bytes.entries()) {
      for (let bit = 0; bit < 8; bit += 1) {
        if (Math.floor(byte / 2 ** bit) % 2 === 1) slots.push(at * 8 + bit);
      }
    }
    return slots;
  }

  column(length: number): number[] {
    const values: number[] = [];
    let value = 0;
    while (values.length < length) {
      const code = this.number();
      if (code === 0) {
        const more = this.number();
        if (more >= length - values.length) throw new DamagedBlock('A column of the block is too long.');
        for (let count = 0; count <= more; count += 1) values.push(value);
        continue;
      }
      value += code % 2 === 0 ? code / 2 : -(code + 1) / 2;
      values.push(value);
    }
    return values;
  }
}
