import type { LogRow } from './log-row.ts';
import { mergeRows } from './log-row.ts';

/** Reads the newest entries between two times, newest first. */
export type ReadBetween = (ends: { startTime?: string; endTime: string; limit: number }) => Promise<LogRow[]>;

export const CONTEXT_SIZE = 20;
/** A page of the device. */
const PAGE = 500;
const FIRST_WINDOW_MS = 60_000;
const GROWTH = 8;
const MOST_READS = 8;

/**
 * The entries around one, without any filter: up to 20 before it and 20 after it, newest first, with the entry itself.
 *
 * A device answers the newest entries of a range, so those that come after the entry are looked for in a window that
 * grows until it holds enough, and shrinks where it holds more than a page.
 */
export async function readContext(row: LogRow, read: ReadBetween, now: number): Promise<readonly LogRow[]> {
  const before = await read({ endTime: new Date(row.at).toISOString(), limit: CONTEXT_SIZE * 2 + 1 });
  let after: LogRow[] = [];
  let span = FIRST_WINDOW_MS;
  let longEnough = 0;
  let tooLong = Infinity;
  for (let reads = 0; reads < MOST_READS; reads++) {
    const end = row.at + span;
    const found = await read({
      startTime: new Date(row.at).toISOString(),
      endTime: new Date(end).toISOString(),
      limit: PAGE,
    });
    if (found.length >= PAGE) tooLong = span;
    else {
      after = found;
      if (found.length > CONTEXT_SIZE || end >= now) break;
      longEnough = span;
    }
    const next =
      tooLong === Infinity ? span * GROWTH : Math.floor((longEnough * (GROWTH - 1) + tooLong) / GROWTH);
    if (next === span || next <= longEnough) break;
    span = next;
  }
  const rows = mergeRows([], [...before, ...after, row]).rows;
  const place = rows.findIndex(({ key }) => key === row.key);
  return rows.slice(Math.max(0, place - CONTEXT_SIZE), place + CONTEXT_SIZE + 1);
}
