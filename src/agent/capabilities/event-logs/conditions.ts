import type { LogConditions, LogEntry } from '../../../protocol/index.ts';

/**
 * One predicate for all conditions of a query. Readers may check some of them earlier where that is cheaper.
 *
 * @param searched  where a text is looked for
 */
export function entryMatcher(
  conditions: LogConditions,
  searched: (entry: LogEntry) => string = ({ message }) => message,
): (entry: LogEntry) => boolean {
  const levels = conditions.level === undefined ? undefined : new Set(conditions.level);
  const source = conditions.source?.toLowerCase();
  const text = conditions.text?.toLowerCase();
  const { eventId } = conditions;
  const start = instantMs(conditions.startTime) ?? -Infinity;
  const end = instantMs(conditions.endTime) ?? Infinity;
  const timed = start !== -Infinity || end !== Infinity;
  return (entry) => {
    if (levels !== undefined && !levels.has(entry.level)) return false;
    if (eventId !== undefined && entry.eventId !== eventId) return false;
    if (source !== undefined && entry.source.toLowerCase() !== source) return false;
    if (timed) {
      const at = Date.parse(entry.timeCreated);
      if (at < start || at > end) return false;
    }
    return text === undefined || searched(entry).toLowerCase().includes(text);
  };
}

export function instantMs(instant: string | undefined): number | undefined {
  return instant === undefined ? undefined : Date.parse(instant);
}
