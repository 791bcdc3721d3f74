import { MINUTE_MS, SECOND_MS } from '../../../src/clock.ts';
import { type Occurrence, ROUND_MS } from './replay.ts';

/**
 * Compares what a preview finds on a device with what was really raised. The differences that are allowed are those that
 * the preview states, and each is put here as a rule:
 *
 * 1. It goes by when things happened. An alert is raised by the first round after the server was told.
 * 2. What ends and begins again before a round could see the end is one alert.
 * 3. What begins while the rule does not look (maintenance, devices that the rule does not cover yet) is raised when it
 *    looks again, if it still lasts then.
 * 4. What was waiting, for that or for a cooldown, is noticed by a round of everything, which comes each ten minutes.
 */

export interface PreviewedAlert {
  raisedAt: number;
  resolvedAt: number | null;
}

export interface Circumstances {
  /** What the preview looked at. */
  from: number;
  to: number;
  /** The times of the rounds, in order. */
  rounds: readonly number[];
  /** When the server was told of what happened at a time. */
  toldAt(at: number): number;
  /** When the rule does not look at the device. */
  blind: readonly { from: number; to: number }[];
  cooldownMs: number;
  /** How exactly its end is known: a volume is taken out between two messages. */
  endsWithinMs: number;
}

interface Expected {
  raisedAt: number;
  resolvedAt: number | null;
  /** It may be raised later by as much. */
  waitsMs: number;
  /** Of the preview. */
  ends: number | null;
}

/** What was met and over within one message, or between two rounds, is kept for this time. */
const KEPT_MS = 75 * SECOND_MS;
const WHOLE_ROUND_MS = 10 * MINUTE_MS + ROUND_MS;

/** @returns the differences, in words; and how many alerts were compared */
export function differences(
  previewed: readonly PreviewedAlert[],
  raised: readonly Occurrence[],
  circumstances: Circumstances,
): { compared: number; found: string[] } {
  const { from, to, rounds, toldAt, endsWithinMs } = circumstances;
  // What lies about the edges may be on either side: a message has minutes from before and after them.
  const begin = firstAtOrAfter(rounds, toldAt(Math.ceil(from / MINUTE_MS) * MINUTE_MS)) + WHOLE_ROUND_MS;
  const end = to - WHOLE_ROUND_MS;
  const expected = expectedOf(previewed, circumstances).filter(
    ({ raisedAt }) => raisedAt > begin && raisedAt <= end,
  );
  const found: string[] = [];
  const real = raised
    .filter(({ raisedAt }) => raisedAt > begin && raisedAt <= to)
    .sort((a, b) => a.raisedAt - b.raisedAt);
  let compared = 0;
  for (const one of expected) {
    const place = real.findIndex(
      ({ raisedAt }) =>
        raisedAt >= one.raisedAt - ROUND_MS && raisedAt <= one.raisedAt + one.waitsMs + ROUND_MS,
    );
    const [match] = place < 0 ? [] : real.splice(place, 1);
    if (match === undefined) {
      found.push(`${inWords(one)} was not raised`);
      continue;
    }
    compared += 1;
    if (!endsTogether(one, match, { to, withinMs: endsWithinMs })) {
      found.push(`${inWords(one)} really ended ${at(match.resolvedAt)}`);
    }
  }
  for (const one of real) if (one.raisedAt <= end) found.push(`${inWords(one)} was not previewed`);
  return { compared, found };
}

function endsTogether(
  one: Expected,
  { resolvedAt }: Occurrence,
  { to, withinMs }: { to: number; withinMs: number },
): boolean {
  if (one.resolvedAt === null || one.resolvedAt > to - WHOLE_ROUND_MS) {
    return resolvedAt === null || resolvedAt > to - 2 * WHOLE_ROUND_MS;
  }
  return resolvedAt !== null && Math.abs(resolvedAt - one.resolvedAt) <= withinMs;
}

function expectedOf(
  previewed: readonly PreviewedAlert[],
  { rounds, toldAt, blind, cooldownMs }: Circumstances,
): Expected[] {
  const expected: Expected[] = [];
  for (const { raisedAt: begins, resolvedAt: ends } of previewed.toSorted(
    (a, b) => a.raisedAt - b.raisedAt,
  )) {
    const told = toldAt(begins);
    let raisedAt = firstAtOrAfter(rounds, told);
    let resolvedAt = ends === null ? null : firstAtOrAfter(rounds, toldAt(ends));
    if (resolvedAt !== null && resolvedAt <= raisedAt) {
      resolvedAt = firstAtOrAfter(rounds, toldAt(ends ?? begins) + KEPT_MS);
    }
    let waitsMs = cooldownMs > 0 ? WHOLE_ROUND_MS : 0;
    const unseen = blind.find((one) => raisedAt >= one.from && raisedAt < one.to);
    if (unseen !== undefined) {
      if (resolvedAt !== null && resolvedAt <= unseen.to) continue;
      raisedAt = unseen.to;
      waitsMs = WHOLE_ROUND_MS;
    }
    const last = expected.at(-1);
    const isTogether = raisedAt === last?.raisedAt;
    const goesOn =
      last !== undefined &&
      isBefore(last.ends, begins) &&
      last.resolvedAt !== null &&
      told <= last.resolvedAt;
    if (last === undefined || (!isTogether && !goesOn)) {
      expected.push({ raisedAt, resolvedAt, waitsMs, ends });
      continue;
    }
    last.ends = ends;
    // What an alert that stands is told to begin and end again in one message only ends it.
    const toldEnd = ends === null ? null : firstAtOrAfter(rounds, toldAt(ends));
    last.resolvedAt =
      toldEnd === null || last.resolvedAt === null ? null : Math.max(last.resolvedAt, toldEnd);
  }
  return expected;
}

const isBefore = (one: number | null, other: number) => one !== null && one <= other;

function firstAtOrAfter(times: readonly number[], at: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) < at) low = middle + 1;
    else high = middle;
  }
  return times[low] ?? Number.POSITIVE_INFINITY;
}

const at = (time: number | null) => (time === null ? 'never' : new Date(time).toISOString().slice(5, 19));
const inWords = ({ raisedAt, resolvedAt }: { raisedAt: number; resolvedAt: number | null }) =>
  `${at(raisedAt)} to ${at(resolvedAt)}`;
