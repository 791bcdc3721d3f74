import type { LogEntry, LogMetadata, LogQuery, LogQuerySummary, LogTail } from '../../../protocol/index.ts';

/**
 * Reads the logs of a machine. A name must be that of a listed log, in any case; otherwise the methods throw
 * `LOG_NOT_FOUND`.
 *
 * An aborted `query` ends early with `truncated: true`; the rows that it has returned are valid. An aborted `tail` ends.
 */
export interface EventLogReader {
  list(signal: AbortSignal): Promise<LogMetadata[]>;
  get(name: string, signal: AbortSignal): Promise<LogMetadata>;
  query(query: LogQuery, signal: AbortSignal): AsyncGenerator<LogEntry, LogQuerySummary>;
  record(name: string, recordId: number, signal: AbortSignal): Promise<LogEntry>;
  tail(tail: LogTail, signal: AbortSignal): AsyncGenerator<LogEntry, void>;
}

/** The longest message of an entry, so that each row fits into a frame. */
export const MESSAGE_MAX = 32_768;

export function cut(text: string, max = MESSAGE_MAX): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max)}… [${text.length - max} more characters]`;
}

/** Says at the end of a list that it was cut, where it was. */
export function sayOmitted(logs: LogMetadata[], omitted: number): LogMetadata[] {
  if (omitted <= 0) return logs;
  return sayAtEnd(logs, `The list ends here; ${omitted} more logs are not listed and can be read by name.`);
}

/** A list of logs has no place for remarks but those of its logs. */
export function sayAtEnd(logs: LogMetadata[], remark: string): LogMetadata[] {
  const last = logs.at(-1);
  if (last !== undefined) last.note = last.note === undefined ? remark : `${last.note} ${remark}`;
  return logs;
}
