import { DAY_MS } from '../../clock.ts';

/** When a volume will be full, from how full it was. */
export interface Forecast {
  /** From the newest point. */
  fullInDays: number;
  /** From 0 to 1: the share of pairs of points between which the volume has grown. */
  confidence: number;
}

/** One point: time in ms, used and total bytes. */
export interface UsedPoint {
  at: number;
  used: number;
  total: number;
}

/** Less is no trend. */
const SPAN_MIN_MS = 3 * DAY_MS;
const POINTS_MIN = 12;
/** Every pair is compared, so a long history is thinned out. */
const POINTS_MAX = 120;
/** A disk that grows and is cleaned up in turn has pairs of both kinds. */
const CONFIDENCE_MIN = 0.75;
/** Whatever lies further ahead is no forecast. */
const DAYS_MAX = 365;

/**
 * By the median of the slopes between all pairs of points (Theil–Sen), which a few odd points do not change. `null` if
 * there are too few points, or the volume does not grow, or not clearly. If its size has changed, only points of the
 * newest size count.
 */
export function forecastOf(points: readonly UsedPoint[]): Forecast | null {
  const sorted = points.toSorted((a, b) => a.at - b.at);
  const newest = sorted.at(-1);
  if (newest === undefined) return null;
  const lastOther = sorted.findLastIndex(({ total }) => Math.abs(total - newest.total) > newest.total / 1000);
  const same = sorted.slice(lastOther + 1);
  const [oldest] = same;
  if (oldest === undefined || same.length < POINTS_MIN || newest.at - oldest.at < SPAN_MIN_MS) return null;
  const every = Math.ceil(same.length / POINTS_MAX);
  const few = same.filter((_point, at) => (same.length - 1 - at) % every === 0);
  const slopes = few.flatMap((later, at) =>
    few.slice(0, at).map((earlier) => (later.used - earlier.used) / (later.at - earlier.at)),
  );
  slopes.sort((a, b) => a - b);
  const slope = slopes[Math.floor(slopes.length / 2)] ?? 0;
  const confidence = slopes.filter((one) => one > 0).length / Math.max(1, slopes.length);
  if (!(slope > 0) || confidence < CONFIDENCE_MIN) return null;
  // A single odd point at the end must not decide how much is left, so the line through the middle counts.
  const levels = few.map(({ at, used }) => used - slope * (at - newest.at)).sort((a, b) => a - b);
  const level = levels[Math.floor(levels.length / 2)] ?? newest.used;
  const fullInDays = Math.max(0, (newest.total - level) / slope / DAY_MS);
  if (fullInDays > DAYS_MAX) return null;
  return { fullInDays: Math.round(fullInDays * 10) / 10, confidence: Math.round(confidence * 100) / 100 };
}
