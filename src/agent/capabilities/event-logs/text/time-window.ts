import type { ByteRange } from './backward-lines.ts';
import type { ReadablePart } from './text-part.ts';
import { unitOf } from './text-encoding.ts';
import { ForwardLines } from './forward-lines.ts';
import { parseHead } from './line-format.ts';

/** Finds the range of a file that may hold the entries of a time, so that a day of a large file is read in a moment. */

export interface TimeSpan {
  /** Milliseconds since 1970, or infinite. */
  start: number;
  end: number;
}

/** Clocks are set back and writers race, so a file is only nearly ordered. What is this close is read too. */
export const DISORDER_MS = 3_600_000;
/** Smaller ranges are read instead of divided. */
const RANGE_MIN = 1024 * 1024;
const SAMPLES = 24;
const SAMPLE_BYTES = 64 * 1024;

/**
 * Divides the file by the times of some of its lines. A range is left out only where all samples beyond it lie beyond the
 * span, so an hour with the wrong date in a file does not hide what stands around it.
 */
export async function timeWindow(
  part: ReadablePart,
  { start, end }: TimeSpan,
  signal: AbortSignal,
): Promise<ByteRange> {
  const { size } = part.open;
  const window = { from: 0, to: size };
  if (!part.context.timed || size <= RANGE_MIN) return window;
  if (end !== Infinity) window.to = await upperBound(part, end + DISORDER_MS, signal);
  if (start !== -Infinity) window.from = await lowerBound(part, start - DISORDER_MS, window.to, signal);
  return window;
}

async function upperBound(part: ReadablePart, limit: number, signal: AbortSignal): Promise<number> {
  let low = 0;
  let high = part.open.size;
  while (high - low > RANGE_MIN && !signal.aborted) {
    const before = { low, high };
    for (const position of positionsIn(low, high).toReversed()) {
      const sample = await sampleAt(part, position, high);
      if (sample === undefined || sample.at <= limit) {
        low = position;
        break;
      }
      high = sample.offset;
    }
    if (low === before.low && high === before.high) break;
  }
  return high;
}

async function lowerBound(
  part: ReadablePart,
  limit: number,
  to: number,
  signal: AbortSignal,
): Promise<number> {
  let low = 0;
  let high = to;
  while (high - low > RANGE_MIN && !signal.aborted) {
    const before = { low, high };
    for (const position of positionsIn(low, high)) {
      const sample = await sampleAt(part, position, high);
      if (sample === undefined || sample.at >= limit) {
        high = position;
        break;
      }
      low = sample.offset;
    }
    if (low === before.low && high === before.high) break;
  }
  return low;
}

function positionsIn(low: number, high: number): number[] {
  const step = (high - low) / (SAMPLES + 1);
  return Array.from({ length: SAMPLES }, (_, index) => Math.floor(low + step * (index + 1)));
}

/** The first line with a time behind a position; `undefined` where none is near. */
async function sampleAt(
  { open, context }: ReadablePart,
  position: number,
  before: number,
): Promise<{ offset: number; at: number } | undefined> {
  const start = position - (position % unitOf(context.encoding));
  const lines = new ForwardLines(start, context.encoding);
  let isFirst = true;
  while (lines.position - start < SAMPLE_BYTES) {
    const some = await lines.read(open.handle);
    if (some === undefined) return undefined;
    for (const line of some) {
      if (line.offset >= before) return undefined;
      // The position is within the first line.
      const head = isFirst ? undefined : parseHead(line.text, context.hints);
      isFirst = false;
      if (head !== undefined) return { offset: line.offset, at: head.at };
    }
  }
  return undefined;
}
