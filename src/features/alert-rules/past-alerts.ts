import { MINUTE_MS } from '../../clock.ts';
import type { Turn as PresenceTurn } from '../metrics/index.ts';
import type { ConditionOf } from './alert-rule.schema.ts';
import { inUnit, inWords } from './alert-text.ts';
import { followFigures } from './metric-match.ts';
import type { Figures } from './rule-metrics.ts';

/** The alerts that a rule would have raised about one device, from what happened. Pure; all times are in ms. */

export interface PastAlert {
  raisedAt: number;
  /** Null if the condition is still met at the end. */
  resolvedAt: number | null;
  what: string;
}

/** A change of whether the condition is met, for the device or a part of it, such as a volume. */
export interface Turn {
  at: number;
  key: string;
  isMet: boolean;
  what: string;
}

/**
 * The alerts for changes of a condition. While one part of a device is met, each further one counts as another alert, and
 * all resolve together, as the one alert of the device does. A cause that returns during the cooldown is raised when that
 * is over, if it is still met then.
 * @param turns  in any order
 */
export function alertsOfTurns(
  turns: readonly Turn[],
  { cooldownMinutes, to }: { cooldownMinutes: number; to: number },
): PastAlert[] {
  const alerts: PastAlert[] = [];
  const met = new Map<string, string>();
  let open: PastAlert[] = [];
  let quietUntil = Number.NEGATIVE_INFINITY;
  const raise = (at: number, what: string) => {
    const alert: PastAlert = { raisedAt: at, resolvedAt: null, what };
    open.push(alert);
    alerts.push(alert);
  };
  /** Raises what was met during the cooldown, once that is over. */
  const catchUp = (now: number) => {
    const [what] = met.values();
    if (open.length === 0 && what !== undefined && quietUntil <= now) raise(quietUntil, what);
  };
  for (const { at, key, isMet, what } of turns.toSorted((a, b) => a.at - b.at)) {
    catchUp(at);
    if (isMet) {
      if (met.has(key)) continue;
      met.set(key, what);
      if (at >= quietUntil) raise(at, what);
      continue;
    }
    met.delete(key);
    if (met.size > 0 || open.length === 0) continue;
    for (const alert of open) alert.resolvedAt = at;
    open = [];
    quietUntil = at + cooldownMinutes * MINUTE_MS;
  }
  catchUp(to);
  return alerts;
}

export const metricTurns = (condition: ConditionOf<'metric'>, figures: readonly Figures[]): Turn[] =>
  figures.flatMap(({ label, points }) =>
    followFigures(condition, undefined, points).turns.map(({ at, isMet, value }) => ({
      at,
      key: label,
      isMet,
      what: [label, inUnit(condition.metric, value)].filter((part) => part !== '').join(': '),
    })),
  );

/** A device that comes back for a shorter time is not back, as for the rounds. */
const STABLE_MS = 2 * MINUTE_MS;

/** @param presence  in order */
export function offlineTurns(
  { forMinutes }: ConditionOf<'offline'>,
  presence: readonly PresenceTurn[],
  { from, to }: { from: number; to: number },
): Turn[] {
  const turns: Turn[] = [];
  let isMet = false;
  for (const [place, { at, state, reason }] of presence.entries()) {
    const until = presence[place + 1]?.at ?? to;
    if (state === 'connected') {
      if (isMet && until - at >= STABLE_MS) {
        turns.push({ at: at + STABLE_MS, key: '', isMet: false, what: '' });
        isMet = false;
      }
      continue;
    }
    const due = at + forMinutes * MINUTE_MS;
    if (isMet || due > until || due >= to) continue;
    isMet = true;
    // What was offline before the beginning would have been raised before it.
    turns.push({ at: due, key: '', isMet: true, what: `${reason}, for ${inWords(forMinutes)}` });
  }
  return turns.filter((turn) => turn.at >= from || !turn.isMet);
}

/** @param times  of the events that fit, in order */
export function eventTurns(
  { count, withinMinutes }: ConditionOf<'event'>,
  times: readonly { at: number; what: string }[],
): Turn[] {
  const turns: Turn[] = [];
  const within = withinMinutes * MINUTE_MS;
  let endsAt: number | undefined;
  for (const [place, { at, what }] of times.entries()) {
    if (endsAt !== undefined && at >= endsAt) {
      turns.push({ at: endsAt, key: '', isMet: false, what: '' });
      endsAt = undefined;
    }
    const first = times[place - count + 1];
    if (first === undefined || at - first.at > within) continue;
    if (endsAt === undefined) turns.push({ at, key: '', isMet: true, what });
    endsAt = at + within;
  }
  if (endsAt !== undefined) turns.push({ at: endsAt, key: '', isMet: false, what: '' });
  return turns;
}
