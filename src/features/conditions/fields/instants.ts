/** Times as rules name them. All are kept in milliseconds, so that both backends compare plain numbers. */

const DAY_MS = 86_400_000;

/** Milliseconds from the first to the last, both of them in it. */
export interface Span {
  from: number;
  to: number;
}

/** An end of a range: a fixed one, or one that moves with the time at which the rule is asked. */
export type Bound = { at: number; open?: true } | { before: Ago };
/** How long before now. Months are of the calendar. */
export type Ago = { ms: number } | { months: number };

const YEAR = '(?!0000)[0-9]{4}';
const LEAP_DAY = '(?:[0-9]{2}(?:[2468][048]|[13579][26]|0[48])|(?:[02468][48]|[13579][26]|[2468]0)00)-02-29';
const DAY = `(?:${LEAP_DAY}|${YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])))`;
const CLOCK = '(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]{1,6})?)?';
const ZONE = '(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])';

/** A day, or a time with its zone, in ISO 8601. Read by JavaScript and by Postgres, which mean the same by it. */
export const INSTANT_PATTERN = `^${DAY}(?:T${CLOCK}${ZONE})?$`;
const INSTANT = new RegExp(INSTANT_PATTERN);

/** A bare day is the whole of it, in UTC. */
export function spanOf(text: string): Span | undefined {
  if (!INSTANT.test(text)) return undefined;
  const from = Date.parse(text);
  return { from, to: text.includes('T') ? from : from + DAY_MS - 1 };
}

const UNIT_MS = { minutes: 60_000, hours: 3_600_000, days: DAY_MS, weeks: 7 * DAY_MS } as const;
export const UNITS = [...Object.keys(UNIT_MS), 'months'] as (keyof typeof UNIT_MS | 'months')[];

export const agoOf = (amount: number, unit: (typeof UNITS)[number]): Ago =>
  unit === 'months' ? { months: amount } : { ms: amount * UNIT_MS[unit] };

/** How long ago a number of days is, which may be broken: more than that, at least, less and at most. */
export function elapsed(days: number): Record<'more' | 'atLeast' | 'less' | 'atMost', Ago> {
  const ms = days * DAY_MS;
  return {
    more: { ms: Math.floor(ms) + 1 },
    atLeast: { ms: Math.ceil(ms) },
    less: { ms: Math.ceil(ms) - 1 },
    atMost: { ms: Math.floor(ms) },
  };
}

/** The end of a range at a time. What lies before or behind all times is infinite. */
export function boundAt(bound: Bound, now: number): number {
  if ('at' in bound) return bound.at;
  const { before } = bound;
  if ('ms' in before) return now - before.ms;
  return monthsBefore(now, before.months);
}

/** The same time of that day; where that month has no such day, of its last. */
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

/** As Postgres reads it. */
export function instantText(ms: number): string {
  if (ms < FIRST) return '-infinity';
  return ms > LAST ? 'infinity' : new Date(ms).toISOString();
}
