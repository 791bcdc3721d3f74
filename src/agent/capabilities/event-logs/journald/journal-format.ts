import { z } from 'zod';
import type { LogEntry, LogLevel } from '../../../../protocol/index.ts';
import { decodeText } from '../decode-text.ts';
import { cut } from '../reader.ts';
import { numberOf, timedRecordId } from '../record-id.ts';
import { SYSLOG_LEVELS } from '../syslog-levels.ts';

/** Converts a JSON line of `journalctl -o json` to an entry. */

/** Text; bytes where it is not valid UTF-8; a list of either; or null where journalctl has omitted a long value. */
const Field = z.union([z.string(), z.null(), z.array(z.unknown())]);
const JournalRecord = z.record(z.string(), Field);
type JournalRecord = z.infer<typeof JournalRecord>;

const FACILITIES: Readonly<Record<string, string>> = {
  0: 'kernel',
  1: 'user',
  2: 'mail',
  3: 'daemon',
  4: 'auth',
  5: 'syslog',
  6: 'lpr',
  7: 'news',
  8: 'uucp',
  9: 'cron',
  10: 'authpriv',
  11: 'ftp',
};

export function levelOfPriority(priority: number): LogLevel {
  return SYSLOG_LEVELS[priority] ?? 'information';
}

/** The range of priorities that covers the levels, for journalctl's `--priority`. */
export function priorityRange(levels: readonly LogLevel[]): { from: number; to: number } {
  const priorities = SYSLOG_LEVELS.flatMap((level, priority) => (levels.includes(level) ? [priority] : []));
  return { from: Math.min(...priorities), to: Math.max(...priorities) };
}

/** The source of an entry without any of `SOURCE_FIELDS`. */
export const NO_SOURCE = 'journal';
/** The fields that may name the source of an entry, the first one that it has. */
export const SOURCE_FIELDS = ['SYSLOG_IDENTIFIER', '_SYSTEMD_UNIT', '_COMM'] as const;

/** `undefined` for a line that is not a journal record, such as one that was cut off. */
export function parseJournalLine(line: string): LogEntry | undefined {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    return undefined;
  }
  const parsed = JournalRecord.safeParse(json);
  if (!parsed.success) return undefined;
  const record = parsed.data;
  const field = (name: string) => fieldTexts(record[name])[0];
  const microseconds = Number(field('__REALTIME_TIMESTAMP'));
  if (!Number.isSafeInteger(microseconds) || microseconds <= 0) return undefined;
  const at = Math.floor(microseconds / 1000);
  const facility = field('SYSLOG_FACILITY');
  return {
    recordId: timedRecordId(at, numberWithin(record, microseconds)),
    timeCreated: new Date(at).toISOString(),
    level: levelOfPriority(Number(field('PRIORITY') ?? 6)),
    source: SOURCE_FIELDS.map(field).find((name) => name !== undefined) ?? NO_SOURCE,
    eventId: 0,
    message: cut(fieldTexts(record['MESSAGE']).join('\n')),
    category: (facility === undefined ? undefined : FACILITIES[facility]) ?? field('_TRANSPORT') ?? '',
    user: field('_UID') ?? null,
    computer: field('_HOSTNAME') ?? '',
    raw: cut(rawText(record)),
  };
}

/** A message up to this length is printed whole by each way of calling journalctl. */
const SHORT = 2_000;

/** What tells the entries of a millisecond apart: the sequence number of the journal, which its cursor has. */
function numberWithin(record: JournalRecord, microseconds: number): number {
  const cursor = fieldTexts(record['__CURSOR'])[0] ?? '';
  const sequence = /(?:^|;)i=([0-9a-f]{1,16})(?:;|$)/.exec(cursor)?.[1];
  if (sequence !== undefined) return Number.parseInt(sequence.slice(-8), 16);
  const parts = ['MESSAGE', 'PRIORITY', 'SYSLOG_IDENTIFIER', '_PID'].map((name) =>
    fieldTexts(record[name])
      .filter((text) => text.length <= SHORT)
      .join('\n'),
  );
  return numberOf(cursor, String(microseconds), ...parts);
}

/** journalctl changes the order of fields with each run. Sorting gives the same record the same text each time. */
function rawText(record: JournalRecord): string {
  return JSON.stringify(record, Object.keys(record).sort());
}

/** The values of a field. Most have one. */
function fieldTexts(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) return [];
  if (value.length > 0 && value.every((item) => typeof item === 'number')) {
    return [decodeText(Buffer.from(value))];
  }
  return value.flatMap(fieldTexts);
}
