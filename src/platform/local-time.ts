import { DAY_MS, HOUR_MS } from '../clock.ts';

/**
 * Times on the clocks of a time zone. They are handled as milliseconds, as if they were times of UTC, so that days can be
 * counted. `nextRun` of the jobs is not used here: it knows no single dates.
 */

/** By the name in small letters: a zone may be spelled in either case, in a million ways. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timezone: string): Intl.DateTimeFormat {
  const key = timezone.toLowerCase();
  let format = formats.get(key);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: timezone,
      calendar: 'iso8601',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    // There are some hundred time zones, so this cannot grow without limit.
    formats.set(key, format);
  }
  return format;
}

/** The time that the clocks of a zone show at an instant. */
export function clocksAt(instantMs: number, timezone: string): number {
  const parts = new Map(
    formatOf(timezone)
      .formatToParts(instantMs)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? 0;
  return Date.UTC(part('year'), part('month') - 1, part('day'), part('hour'), part('minute'), part('second'));
}

const offsetAt = (instantMs: number, timezone: string) =>
  clocksAt(instantMs, timezone) - Math.floor(instantMs / 1000) * 1000;

/**
 * The instant at which the clocks of a zone first show a time. For a time that they skip, it is the first instant after
 * the gap.
 */
export function instantOf(localMs: number, timezone: string): number {
  // Clocks are at most 14 hours ahead of UTC and 12 behind it.
  const [earliest, latest] = [localMs - 15 * HOUR_MS, localMs + 13 * HOUR_MS];
  const [before, after] = [offsetAt(earliest, timezone), offsetAt(latest, timezone)];
  if (before === after) return localMs - before;
  const change = changeBetween(earliest, latest, before, timezone);
  return localMs - before < change ? localMs - before : Math.max(change, localMs - after);
}

/** The first instant at which the clocks have left the offset that they had at `from`. They are set at whole seconds. */
function changeBetween(from: number, to: number, offset: number, timezone: string): number {
  let [same, other] = [Math.floor(from / 1000), Math.ceil(to / 1000)];
  while (other - same > 1) {
    const middle = Math.floor((same + other) / 2);
    if (offsetAt(middle * 1000, timezone) === offset) same = middle;
    else other = middle;
  }
  return other * 1000;
}

/** Days are counted from 1970-01-01. */
export const dayOf = (localMs: number): number => Math.floor(localMs / DAY_MS);

/** A date such as 2026-12-24, or a date and time such as 2026-12-24T22:00; undefined if there is no such day. */
export function parseLocal(text: string): number | undefined {
  const localMs = Date.parse(text.includes('T') ? `${text}:00Z` : `${text}T00:00:00Z`);
  return Number.isNaN(localMs) || !new Date(localMs).toISOString().startsWith(text) ? undefined : localMs;
}
