import { z } from 'zod';
import type { LogEntry, LogLevel } from '../../../../protocol/index.ts';
import { cut } from '../reader.ts';

/** From one JSON line of `journalctl -o json` to an entry. */

/** Text; or bytes where it is not clean UTF-8; or several of either; or null where journalctl left out a long one. */
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

/** `undefined` for a line that is no journal record, such as one that was cut. */
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

/** journalctl orders fields anew in each run; sorted, the same record is the same text in every answer. */
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
