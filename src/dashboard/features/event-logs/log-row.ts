import type { LogEntry, LogLevel } from '../../../protocol/index.ts';

/** An entry as the viewer shows it, whether a device sent it just now or the server has stored it. */
export interface LogRow {
  key: string;
  deviceId: string;
  /** The number of the record in its log. Stored events have none. */
  recordId: number | undefined;
  /** In milliseconds; 0 if the device sent a time that cannot be read. */
  at: number;
  level: LogLevel;
  source: string;
  /** Empty if the entry has none. */
  eventId: string;
  message: string;
  category: string;
  user: string | null;
  computer: string;
  rawXml?: string | undefined;
  raw?: string | undefined;
}

/** From the gravest to the least. */
export const LEVELS: readonly LogLevel[] = ['critical', 'error', 'warning', 'information', 'verbose'];

export const LEVEL_NAMES: Record<LogLevel, string> = {
  critical: 'Critical',
  error: 'Error',
  warning: 'Warning',
  information: 'Information',
  verbose: 'Verbose',
};

const timeOf = (text: string): number => {
  const at = Date.parse(text);
  return Number.isNaN(at) ? 0 : at;
};

export function rowOfEntry(deviceId: string, entry: LogEntry): LogRow {
  const { recordId, timeCreated, level, source, eventId, message, category, user, computer } = entry;
  return {
    // A text file numbers its records anew when it is rotated, so the number alone does not name a record.
    key: `${deviceId}:${recordId}:${timeCreated}`,
    deviceId,
    recordId,
    at: timeOf(timeCreated),
    level,
    source,
    eventId: String(eventId),
    message,
    category,
    user,
    computer,
    rawXml: entry.rawXml,
    raw: entry.raw,
  };
}

/** How many rows the viewer holds. More would make the browser slow. */
export const MAX_ROWS = 5_000;

/** Newest first; records of the same time by their number. */
const byAge = (a: LogRow, b: LogRow): number =>
  b.at - a.at || (b.recordId ?? 0) - (a.recordId ?? 0) || (a.key < b.key ? -1 : 1);

/** Adds rows, newest first and each once. If there are more than `max`, the oldest are dropped. */
export function mergeRows(
  known: readonly LogRow[],
  arrived: readonly LogRow[],
  max = MAX_ROWS,
): { rows: readonly LogRow[]; dropped: number } {
  const byKey = new Map(known.map((row) => [row.key, row]));
  for (const row of arrived) byKey.set(row.key, row);
  if (byKey.size === known.length) return { rows: known, dropped: 0 };
  const rows = [...byKey.values()].sort(byAge);
  return { rows: rows.slice(0, max), dropped: Math.max(0, rows.length - max) };
}

export function countLevels(rows: readonly LogRow[]): Record<LogLevel, number> {
  const counts = { critical: 0, error: 0, warning: 0, information: 0, verbose: 0 };
  for (const { level } of rows) counts[level]++;
  return counts;
}

/** One line of the list: an entry, or several that repeat it. */
export interface LogLine {
  row: LogRow;
  /** How many entries the line stands for. */
  count: number;
  /** Whether the entry is one of those that an opened line stands for. */
  isRepeat: boolean;
}

/** Numbers differ from one repeat to the next: addresses, process ids, counters. */
const NUMBERS = /\b(?:0x[\da-f]+|[\da-f]{8}-[\da-f-]{27}|[\da-f]*\d[\da-f]*)\b/gi;

/** Kept by row, because only few of thousands of rows are new each time. */
const signatures = new WeakMap<LogRow, string>();

function signatureOf(row: LogRow): string {
  const known = signatures.get(row);
  if (known !== undefined) return known;
  const { deviceId, level, source, eventId, message } = row;
  const signature = [deviceId, level, source, eventId, message.replaceAll(NUMBERS, '#')].join('\0');
  signatures.set(row, signature);
  return signature;
}

/** Each entry as a line of its own. */
export const linesOf = (rows: readonly LogRow[]): LogLine[] =>
  rows.map((row) => ({ row, count: 1, isRepeat: false }));

/**
 * Entries that follow each other and differ in numbers only, as one line: the first of them, and how many they are.
 * @param opened  keys of the lines of which every entry is shown
 */
export function collapsedLines(rows: readonly LogRow[], opened: ReadonlySet<string>): LogLine[] {
  const lines: LogLine[] = [];
  let head: LogLine | undefined;
  let signature = '';
  for (const row of rows) {
    const own = signatureOf(row);
    if (head !== undefined && own === signature) {
      head.count++;
      if (opened.has(head.row.key)) lines.push({ row, count: 1, isRepeat: true });
    } else {
      head = { row, count: 1, isRepeat: false };
      signature = own;
      lines.push(head);
    }
  }
  return lines;
}

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
 * A device returns the newest entries of a range, so those that come after the entry are looked for in a window that
 * grows until it holds enough, and shrinks if it holds more than a page.
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

/** A text as one word of a POSIX shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** The command that reads an address of the API. The token stays out of it, because commands are kept and shared. */
export const curlOf = (url: string): string =>
  `curl --fail-with-body -H "Authorization: Bearer $MUSTER_TOKEN" ${quoted(url)}`;
