import type { LogEntry, LogMetadata, LogQuery, LogQuerySummary, LogTail } from '../../../protocol/index.ts';

/**
 * Where a machine keeps its logs. Names are matched in any case against the listed logs, and only against them;
 * a name that is not listed throws `LOG_NOT_FOUND`.
 *
 * A `query` that is aborted ends early with `truncated: true` and keeps the rows it has given; what the end means
 * (a deadline, a cancellation) is for the caller to say. A `tail` ends when it is aborted.
 */
export interface EventLogReader {
  list(signal: AbortSignal): Promise<LogMetadata[]>;
  get(name: string, signal: AbortSignal): Promise<LogMetadata>;
  query(query: LogQuery, signal: AbortSignal): AsyncGenerator<LogEntry, LogQuerySummary>;
  record(name: string, recordId: number, signal: AbortSignal): Promise<LogEntry>;
  tail(tail: LogTail, signal: AbortSignal): AsyncGenerator<LogEntry, void>;
}

/** Bounds one row, so that every row fits a frame. */
export const MESSAGE_MAX = 32_768;

export function cut(text: string, max = MESSAGE_MAX): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max)}… [${text.length - max} more characters]`;
}
