import { MINUTE_MS } from '../../clock.ts';
import type { PresenceReason } from '../../protocol/index.ts';

/** A stretch of time without samples, in ms. */
export interface Gap {
  from: number;
  to: number;
}

/** Agents sample each minute; one sample that is late is no gap. */
const SHORTEST_MS = 3 * MINUTE_MS;
/**
 * The gaps between what was sampled.
 * @param sampled  when samples were taken, as stretches of time; in any order
 * @param stepMs   gaps within one step are not shown
 */
export function gapsBetween(sampled: readonly Gap[], { from, to }: Gap, stepMs: number): Gap[] {
  const gaps: Gap[] = [];
  const add = (begin: number, end: number) => {
    if (end - begin >= Math.max(SHORTEST_MS, stepMs)) gaps.push({ from: begin, to: end });
  };
  let covered = from;
  for (const stretch of sampled.toSorted((a, b) => a.from - b.from)) {
    if (stretch.from >= to) break;
    if (stretch.from > covered) add(covered, stretch.from);
    covered = Math.max(covered, stretch.to);
  }
  if (to > covered) add(covered, to);
  return gaps;
}

/** A change of a device's presence: `at` in ms. */
export interface Turn {
  at: number;
  state: 'connected' | 'disconnected';
  reason: PresenceReason;
}

/**
 * Why there are no samples in a gap: the reason of the last time in it that the device disconnected, or else its
 * presence when the gap began. `null` if that is not known.
 * @param turns  in order
 */
export function reasonOf({ from, to }: Gap, turns: readonly Turn[]): PresenceReason | null {
  const within = turns.findLast(({ at, state }) => state === 'disconnected' && at >= from && at < to);
  return (within ?? turns.findLast(({ at }) => at <= from))?.reason ?? null;
}
