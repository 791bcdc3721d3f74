import { MINUTE_MS } from '../../clock.ts';
import type { Turn as PresenceTurn } from '../metrics/index.ts';
import type { ConditionOf } from './alert-rule.schema.ts';
import { inUnit, inWords } from './alert-text.ts';
import { followFigures } from './metric-match.ts';
import { type Figures, ruleMetric } from './rule-metrics.ts';

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
  /** From then on it is not raised any more, although it is not over: the device was back, but not for long enough. */
  lastsUntil?: number;
}

/**
 * The alerts for changes of a condition. While one part of a device is met, each further one counts as another alert,
 * unless the alert names it already, and all resolve together, as the one alert of the device does. A cause that returns
 * during the cooldown is raised when that is over, if it is still met then.
 * @param turns  in any order
 */
export function alertsOfTurns(
  turns: readonly Turn[],
  { cooldownMinutes, to }: { cooldownMinutes: number; to: number },
): PastAlert[] {
  const alerts: PastAlert[] = [];
  const met = new Map<string, Turn>();
  let open: PastAlert[] = [];
  /** The parts that were met when the alert was raised last. */
  let named: ReadonlySet<string> = new Set();
  let quietUntil = Number.NEGATIVE_INFINITY;
  const raise = (at: number, what: string) => {
    const alert: PastAlert = { raisedAt: at, resolvedAt: null, what };
    open.push(alert);
    alerts.push(alert);
    named = new Set(met.keys());
  };
  /** Raises what was met during the cooldown, once that is over. */
  const catchUp = (now: number) => {
    if (open.length > 0 || quietUntil >= now) return;
    const due = [...met.values()].find(
      ({ lastsUntil = Number.POSITIVE_INFINITY }) => lastsUntil > quietUntil,
    );
    if (due !== undefined) raise(quietUntil, due.what);
  };
  for (const turn of turns.toSorted((a, b) => a.at - b.at)) {
    const { at, key, isMet, what } = turn;
    catchUp(at);
    if (isMet) {
      if (met.has(key)) continue;
      met.set(key, turn);
      const isNamed = open.length > 0 && named.has(key);
      if (at >= quietUntil && !isNamed) raise(at, what);
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

export function metricTurns(condition: ConditionOf<'metric'>, figures: readonly Figures[]): Turn[] {
  const turns: Turn[] = [];
  const sampledAt =
    ruleMetric(condition.metric).isOfVolumes === true
      ? [...new Set(figures.flatMap(({ points }) => points.map(({ at }) => at)))].sort((a, b) => a - b)
      : [];
  for (const { label: key, points: all } of figures) {
    for (const { points, goneAt } of withoutAbsences(all, sampledAt)) {
      const followed = followFigures(condition, undefined, points);
      for (const { at, isMet, value } of followed.turns) {
        const what = [key, inUnit(condition.metric, value)].filter((part) => part !== '').join(': ');
        turns.push({ at, key, isMet, what });
      }
      if (goneAt !== undefined && followed.match?.isMet === true) {
        turns.push({ at: goneAt, key, isMet: false, what: '' });
      }
    }
  }
  return turns;
}

/** Agents send so many samples together. A volume that is in none of them, while others are, is gone. */
const SAMPLES_TOGETHER = 5;

/**
 * The figures of a volume, divided where it was gone.
 * @param sampledAt  when the device gave figures of any volume, in order; empty if nothing can be gone
 */
function withoutAbsences(
  points: Figures['points'],
  sampledAt: readonly number[],
): { points: Figures['points']; goneAt?: number }[] {
  const stretches: { points: Figures['points']; goneAt?: number }[] = [];
  let begin = 0;
  let place = 0;
  let missing = 0;
  for (const at of sampledAt) {
    if (points[place]?.at === at) {
      place += 1;
      missing = 0;
      continue;
    }
    missing += 1;
    if (missing !== SAMPLES_TOGETHER || place === begin) continue;
    stretches.push({ points: points.slice(begin, place), goneAt: at });
    begin = place;
  }
  return [...stretches, { points: points.slice(begin) }];
}

/** A device that is back for no longer than this is not back, as for the rounds: none sees it connected after this time. */
const STABLE_MS = 2 * MINUTE_MS;

/** Rounds give the devices of a lost server this time to connect to another one. */
const LOST_NODE_MINUTES = 10;

/** @param presence  in order */
export function offlineTurns(
  { forMinutes }: ConditionOf<'offline'>,
  presence: readonly PresenceTurn[],
  { to }: { to: number },
): Turn[] {
  const turns: Turn[] = [];
  /** By when they began: after a return that was too short, a further absence counts again. */
  let absences: string[] = [];
  for (const [place, { at, state, reason }] of presence.entries()) {
    const until = presence[place + 1]?.at ?? to;
    if (state === 'connected') {
      if (until - at <= STABLE_MS) continue;
      for (const key of absences) turns.push({ at: at + STABLE_MS, key, isMet: false, what: '' });
      absences = [];
      continue;
    }
    const minutes = reason === 'node_lost' ? Math.max(forMinutes, LOST_NODE_MINUTES) : forMinutes;
    const due = at + minutes * MINUTE_MS;
    if (due >= until) continue;
    const key = String(at);
    absences.push(key);
    turns.push({
      at: due,
      key,
      isMet: true,
      what: `${reason}, for ${inWords(forMinutes)}`,
      lastsUntil: until,
    });
  }
  return turns;
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
