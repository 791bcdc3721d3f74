import { DAY_MS } from '../../clock.ts';

/** Times in conditions. All are milliseconds, so that both backends compare plain numbers. */

/** A range of milliseconds, both ends included. */
export interface Span {
  from: number;
  to: number;
}

/** An end of a range: fixed, or relative to the time of evaluation. */
export type Bound = { at: number; open?: true } | { before: Ago };
/** A duration before now. Months are calendar months. */
export type Ago = { ms: number } | { months: number };

const YEAR = '(?!0000)[0-9]{4}';
const LEAP_DAY = '(?:[0-9]{2}(?:[2468][048]|[13579][26]|0[48])|(?:[02468][48]|[13579][26]|[2468]0)00)-02-29';
const DAY = `(?:${LEAP_DAY}|${YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])))`;
const CLOCK = '(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]{1,6})?)?';
const ZONE = '(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])';

/** An ISO 8601 day, or time with zone. JavaScript and Postgres interpret it identically. */
export const INSTANT_PATTERN = `^${DAY}(?:T${CLOCK}${ZONE})?$`;
const INSTANT = new RegExp(INSTANT_PATTERN);

/** A day without a time covers the whole day in UTC. */
export function spanOf(text: string): Span | undefined {
  if (!INSTANT.test(text)) return undefined;
  const from = Date.parse(text);
  return { from, to: text.includes('T') ? from : from + DAY_MS - 1 };
}

const UNIT_MS = { minutes: 60_000, hours: 3_600_000, days: DAY_MS, weeks: 7 * DAY_MS } as const;
export const UNITS = [...Object.keys(UNIT_MS), 'months'] as (keyof typeof UNIT_MS | 'months')[];

export const agoOf = (amount: number, unit: (typeof UNITS)[number]): Ago =>
  unit === 'months' ? { months: amount } : { ms: amount * UNIT_MS[unit] };

/** The durations for comparisons with a number of days, which may be a fraction. */
export function elapsed(days: number): Record<'more' | 'atLeast' | 'less' | 'atMost', Ago> {
  const ms = days * DAY_MS;
  return {
    more: { ms: Math.floor(ms) + 1 },
    atLeast: { ms: Math.ceil(ms) },
    less: { ms: Math.ceil(ms) - 1 },
    atMost: { ms: Math.floor(ms) },
  };
}

/** The end of a range at the time `now`; infinite if it is outside the range of times. */
export function boundAt(bound: Bound, now: number): number {
  if ('at' in bound) return bound.at;
  const { before } = bound;
  if ('ms' in before) return now - before.ms;
  return monthsBefore(now, before.months);
}

/** The same day and time in an earlier month, or the last day of that month if it is shorter. */
function monthsBefore(now: number, months: number): number {
  const then = new Date(now);
  const day = then.getUTCDate();
  then.setUTCDate(1);
  then.setUTCMonth(then.getUTCMonth() - months);
  if (Number.isNaN(then.getTime())) return -Infinity;
  const lastDay = new Date(Date.UTC(2000, then.getUTCMonth() + 1, 0));
  lastDay.setUTCFullYear(then.getUTCFullYear(), then.getUTCMonth() + 1, 0);
  then.setUTCDate(Math.min(day, lastDay.getUTCDate()));
  return then.getTime();
}

const FIRST = Date.parse('0001-01-01T00:00:00Z');
const LAST = Date.parse('9999-12-31T23:59:59.999Z');

/** The time in Postgres syntax. */
export function instantText(ms: number): string {
  if (ms < FIRST) return '-infinity';
  return ms > LAST ? 'infinity' : new Date(ms).toISOString();
}
