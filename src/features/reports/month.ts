import { DAY_MS } from '../../clock.ts';
import { instantOf } from '../../platform/local-time.ts';

/** Months on the clocks of a time zone. Pure. */

/** A month such as 2026-10, from the year 1970 on. */
export const MONTH = /^(?:19[7-9]\d|[2-9]\d{3})-(?:0[1-9]|1[0-2])$/;

export interface MonthSpan {
  from: Date;
  /** The beginning of the next month. */
  to: Date;
}

/** @param month  as `MONTH` has it */
export function spanOfMonth(month: string, timezone: string): MonthSpan {
  const [year = 1970, number = 1] = month.split('-').map(Number);
  return {
    from: new Date(instantOf(Date.UTC(year, number - 1), timezone)),
    to: new Date(instantOf(Date.UTC(year, number), timezone)),
  };
}

/** The time before which rows may have been removed because of their age; undefined if all of the span is still kept. */
export function removedBefore({ from }: Pick<MonthSpan, 'from'>, keptDays: number, nowMs: number) {
  const kept = nowMs - keptDays * DAY_MS;
  return kept > from.getTime() ? new Date(kept) : undefined;
}
