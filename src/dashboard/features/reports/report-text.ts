import { formatDuration } from '../../ui/index.ts';

/** Months and figures of a report as people read them. Pure. */

const MONTH_NAME = new Intl.DateTimeFormat(undefined, { month: 'long', year: 'numeric', timeZone: 'UTC' });

/** "October 2026", for 2026-10. */
export const monthText = (month: string): string => MONTH_NAME.format(new Date(`${month}-01T00:00:00Z`));

const MONTHS_MAX = 120;

/** The months from the present one back to that of a time, the newest first, with one that is chosen in any case. */
export function monthsSince(since: Date, now: Date, chosen: string | undefined): string[] {
  const months: string[] = [];
  const [first, last] = [since, now].map((at) => at.getUTCFullYear() * 12 + at.getUTCMonth());
  for (let at = last ?? 0; at >= (first ?? 0) && months.length < MONTHS_MAX; at--) {
    months.push(`${Math.floor(at / 12)}-${String((at % 12) + 1).padStart(2, '0')}`);
  }
  return chosen === undefined || months.includes(chosen) ? months : [...months, chosen].sort().reverse();
}

/** "99.95 %". It is never rounded up to the whole: 100 % is what never failed. */
export const shareText = (share: number | null): string =>
  share === null
    ? 'Not known'
    : `${(Math.floor(share * 10_000) / 100).toLocaleString(undefined, { maximumFractionDigits: 2 })} %`;

/** "2 h 5 min"; a dash if there is none. */
export const secondsText = (seconds: number | null): string =>
  seconds === null ? '–' : formatDuration(seconds * 1000);

/** A time on the clocks of the report. */
export const timeIn = (at: string, timezone: string): string =>
  new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short', timeZone: timezone }).format(
    new Date(at),
  );
