import {
  type DeviceEvent,
  type EventCategory,
  type EventLevel,
  LOG_MESSAGE_MAX,
  type LogEntry,
  type LogLevel,
} from '../../../protocol/index.ts';
import { firstCharacters } from '../../core/plain-text.ts';

/** Converts log entries of the machine to the events that the server stores. */

const LEVELS: Readonly<Record<LogLevel, EventLevel>> = {
  critical: 'critical',
  error: 'error',
  warning: 'warning',
  information: 'info',
  verbose: 'info',
};

/** @param now  the server's time: an entry that a wrong clock has dated later gets this time */
export function deviceEvent(log: string, entry: LogEntry, now: number): DeviceEvent {
  const at = Date.parse(entry.timeCreated);
  return {
    timestamp: new Date(Number.isNaN(at) ? now : Math.max(0, Math.min(at, now))).toISOString(),
    level: LEVELS[entry.level],
    category: categoryOf(log, entry),
    source: orElse(firstCharacters(entry.source, 255), log),
    // The id of the record, not of the kind of event: two records with the same text are two events.
    eventId: firstCharacters(`${log}:${entry.recordId}`, 100),
    message: firstCharacters(entry.message, LOG_MESSAGE_MAX),
    details: {
      log,
      recordId: entry.recordId,
      eventId: entry.eventId,
      category: firstCharacters(entry.category, 255),
      user: entry.user === null ? null : firstCharacters(entry.user, 255),
      computer: firstCharacters(entry.computer, 255),
    },
  };
}

const orElse = (text: string, other: string) => (text === '' ? other : text);

const SECURITY = /^(security|auth|authpriv|secure|auth\.log)$/i;
const KERNEL = /^(kernel|kern)/i;

function categoryOf(log: string, { category, source }: LogEntry): EventCategory {
  if ([log, category].some((name) => SECURITY.test(name))) return 'security';
  if ([category, source].some((name) => KERNEL.test(name))) return 'hardware';
  return /^application$/i.test(log) ? 'application' : 'system';
}
