import { MINUTE_MS } from '../../clock.ts';
import type { ConditionOf } from './alert-rule.schema.ts';
import { isBeyond, isCleared, type Point } from './rule-metrics.ts';

/**
 * Whether the condition of a rule about a metric is met, figure by figure. The same for figures that arrive and for those
 * of the past, so that a preview finds what would have been found. Pure.
 */

/** After a longer time without figures, the minutes of a condition that was not met yet count anew. */
export const BREAK_MS = 5 * MINUTE_MS;

/** Figures beyond the threshold, up to now. Times are in ms. */
export interface Match {
  since: number;
  through: number;
  isMet: boolean;
  value: number;
}

/** A change of whether the condition is met, with the figure that made it. */
export interface Turn {
  isMet: boolean;
  at: number;
  since: number;
  value: number;
}

/** @param points  the oldest first; those that are not later than the match were seen before */
export function followFigures(
  condition: ConditionOf<'metric'>,
  before: Match | undefined,
  points: readonly Point[],
): { match: Match | undefined; turns: Turn[] } {
  let match = before;
  const turns: Turn[] = [];
  for (const { at, value } of points) {
    if (match !== undefined && at <= match.through) continue;
    if (match?.isMet === true) {
      if (isCleared(condition, value)) {
        turns.push({ isMet: false, at, since: match.since, value });
        match = undefined;
      } else match = { ...match, through: at, value };
      continue;
    }
    if (!isBeyond(condition, value)) {
      match = undefined;
      continue;
    }
    const since = match === undefined || at - match.through > BREAK_MS ? at : match.since;
    const isMet = at - since >= condition.forMinutes * MINUTE_MS;
    match = { since, through: at, isMet, value };
    if (isMet) turns.push({ isMet, at, since, value });
  }
  return { match, turns };
}
