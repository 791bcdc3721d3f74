import { z } from 'zod';
import type { LogEntry, LogLevel } from '../../../../protocol/index.ts';
import { cut } from '../reader.ts';

/** Converts a JSON line of `journalctl -o json` to an entry. */

/** Text; bytes where it is not valid UTF-8; a list of either; or null where journalctl has omitted a long value. */
const Field = z.union([z.string(), z.null(), z.array(z.unknown())]);
const JournalRecord = z.record(z.string(), Field);

const LEVELS: readonly LogLevel[] = [
  'critical',
  'critical',
  'critical',
  'error',
  'warning',
  'information',
  'information',
  'verbose',
];

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
  return LEVELS[priority] ?? 'information';
}

/** The range of priorities that covers the levels, for journalctl's `--priority`. */
export function priorityRange(levels: readonly LogLevel[]): { from: number; to: number } {
  const priorities = LEVELS.flatMap((level, priority) => (levels.includes(level) ? [priority] : []));
  return { from: Math.min(...priorities), to: Math.max(...priorities) };
}

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
  const field = (name: string) => fieldText(parsed.data[name]);
  const microseconds = Number(field('__REALTIME_TIMESTAMP'));
  if (!Number.isSafeInteger(microseconds) || microseconds <= 0) return undefined;
  const facility = field('SYSLOG_FACILITY');
  return {
    recordId: microseconds,
    timeCreated: new Date(Math.floor(microseconds / 1000)).toISOString(),
    level: levelOfPriority(Number(field('PRIORITY') ?? 6)),
    source: field('SYSLOG_IDENTIFIER') ?? field('_SYSTEMD_UNIT') ?? field('_COMM') ?? 'journal',
    eventId: 0,
    message: cut(field('MESSAGE') ?? ''),
    category: (facility === undefined ? undefined : FACILITIES[facility]) ?? field('_TRANSPORT') ?? '',
    user: field('_UID') ?? null,
    computer: field('_HOSTNAME') ?? '',
    raw: cut(rawText(parsed.data)),
  };
}

/** journalctl changes the order of fields with each run. Sorting gives the same record the same text each time. */
function rawText(record: z.infer<typeof JournalRecord>): string {
  return JSON.stringify(record, Object.keys(record).sort());
}

function fieldText(value: z.infer<typeof Field> | undefined): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return value;
  if (value.every((item) => typeof item === 'number')) return Buffer.from(value).toString('utf8');
  const first = Field.safeParse(value[0]);
  return first.success ? fieldText(first.data) : undefined;
}
