import type { LogEntry, LogLevel } from '../../../../protocol/index.ts';

/** An entry as the viewer shows it, whether a device sent it just now or the server has stored it. */
export interface LogRow {
  key: string;
  deviceId: string;
  /** The number of the record in its log. Stored events have none. */
  recordId: number | undefined;
  /** In milliseconds; 0 where the device sent a time that cannot be read. */
  at: number;
  level: LogLevel;
  source: string;
  /** Empty where the entry has none. */
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

/** How many rows the viewer holds. More would make the browser slow, and nobody reads them. */
export const MAX_ROWS = 5_000;

/** Newest first; records of the same time by their number. */
const byAge = (a: LogRow, b: LogRow): number =>
  b.at - a.at || (b.recordId ?? 0) - (a.recordId ?? 0) || (a.key < b.key ? -1 : 1);

/** Adds rows, newest first and each once. Where there are more than `max`, the oldest are dropped. */
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
