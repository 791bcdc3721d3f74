import { z } from 'zod';
import type { LogConditions, LogEntry, LogLevel } from '../../../../protocol/index.ts';
import { cut } from '../reader.ts';
import { numberOf, timedRecordId } from '../record-id.ts';

/** Converts lines of `log show --style ndjson` to entries, and conditions to a predicate. */

export interface UnifiedLog {
  name: string;
  displayName: string;
  predicate: string | undefined;
}

export const UNIFIED_LOGS: readonly UnifiedLog[] = [
  { name: 'System', displayName: 'Unified log', predicate: undefined },
  { name: 'Faults', displayName: 'Faults', predicate: 'messageType == fault' },
  {
    name: 'Errors',
    displayName: 'Errors and faults',
    predicate: '(messageType == error OR messageType == fault)',
  },
  { name: 'Kernel', displayName: 'Kernel', predicate: 'process == "kernel"' },
  {
    name: 'Auth',
    displayName: 'Sign-ins and rights',
    predicate: '(process == "loginwindow" OR process == "sudo" OR process == "authd" OR process == "sshd")',
  },
  {
    name: 'Install',
    displayName: 'Installs and updates',
    predicate: '(process == "installd" OR process == "softwareupdated" OR process == "installer")',
  },
];

const LEVEL_OF_TYPE: Readonly<Record<string, LogLevel>> = {
  Fault: 'critical',
  Error: 'error',
  Default: 'information',
  Info: 'information',
  Debug: 'verbose',
};

const TYPES_OF_LEVEL: Readonly<Record<LogLevel, readonly string[]>> = {
  critical: ['fault'],
  error: ['error'],
  warning: [],
  information: ['default', 'info'],
  verbose: ['debug'],
};

const UnifiedRecord = z.object({
  timestamp: z.string(),
  eventMessage: z.string().nullish(),
  messageType: z.string().nullish(),
  subsystem: z.string().nullish(),
  category: z.string().nullish(),
  processImagePath: z.string().nullish(),
  userID: z.number().nullish(),
  threadID: z.number().nullish(),
});

/** `undefined` for a line that is not an entry, such as the last one, which holds their number. */
export function parseUnifiedLine(line: string, computer: string): LogEntry | undefined {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    return undefined;
  }
  const parsed = UnifiedRecord.safeParse(json);
  if (!parsed.success) return undefined;
  const record = parsed.data;
  const microseconds = parseTimestamp(record.timestamp);
  if (microseconds === undefined) return undefined;
  const process = record.processImagePath?.split('/').at(-1);
  const at = Math.floor(microseconds / 1000);
  return {
    recordId: timedRecordId(
      at,
      numberOf(record.timestamp, String(record.threadID), record.eventMessage ?? ''),
    ),
    timeCreated: new Date(at).toISOString(),
    level: LEVEL_OF_TYPE[record.messageType ?? 'Default'] ?? 'information',
    source: nonEmpty(record.subsystem) ?? nonEmpty(process) ?? 'system',
    eventId: 0,
    message: cut(record.eventMessage ?? ''),
    category: record.category ?? '',
    user: record.userID == null ? null : String(record.userID),
    computer,
    raw: cut(line),
  };
}

function nonEmpty(text: string | null | undefined): string | undefined {
  return text == null || text === '' ? undefined : text;
}

/** Converts `2026-01-31 08:00:00.123456+0100` to microseconds since 1970. */
export function parseTimestamp(text: string): number | undefined {
  const found = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\.(\d{6})([+-]\d\d)(\d\d)$/.exec(text);
  if (found === null) return undefined;
  const seconds = Date.parse(`${found[1]}T${found[2]}${found[4]}:${found[5]}`) / 1000;
  return Number.isNaN(seconds) ? undefined : seconds * 1_000_000 + Number(found[3]);
}

/** A predicate for the conditions that the log can check. Text is escaped, so that it stays within its quotes. */
export function predicateOf(log: UnifiedLog, conditions: LogConditions): string | undefined {
  const terms = log.predicate === undefined ? [] : [log.predicate];
  if (conditions.level !== undefined) {
    const types = conditions.level.flatMap((level) => TYPES_OF_LEVEL[level]);
    // The log has no warnings. Asking for them alone returns nothing, because the entries are checked as well.
    if (types.length > 0) terms.push(`(${types.map((type) => `messageType == ${type}`).join(' OR ')})`);
  }
  if (conditions.text !== undefined) terms.push(`eventMessage CONTAINS[c] ${quoted(conditions.text)}`);
  return terms.length === 0 ? undefined : terms.join(' AND ');
}

export function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, '\\$&').replace(/\r?\n/g, '\\n')}"`;
}

/** The spans to read, from the newest back. The first ones are short, because most queries are about the last minutes. */
export function* spansBack(end: number, start: number): Generator<{ from: number; to: number }> {
  let length = 10 * 60_000;
  let to = end;
  while (to > start) {
    const from = Math.max(start, to - length);
    yield { from, to };
    to = from;
    length = Math.min(length * 2, 6 * 3_600_000);
  }
}
