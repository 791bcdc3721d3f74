import { AgentErrorCode, type LogEntry, type LogMetadata } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { hasJournal, journaldReader } from './journald-reader.ts';
import { type EventLogReader, sayAtEnd } from './log-reader.ts';
import { macosReader } from './macos-reader.ts';
import { textReader } from './text/text-reader.ts';
import type { UnpackSpace } from './text/unpack-space.ts';
import { windowsReader } from './windows-reader.ts';

export interface EventLogs {
  reader: EventLogReader;
  /** Whether the machine has a journal of systemd. Then the system's text files repeat its entries. */
  hasJournal: boolean;
}

/** The logs of this machine. Linux has a journal and text files of applications, or text files only. */
export async function openEventLogs(unpackSpace?: UnpackSpace): Promise<EventLogs> {
  if (process.platform === 'win32') return { reader: windowsReader(), hasJournal: false };
  if (process.platform === 'darwin') return { reader: macosReader(), hasJournal: false };
  const options = unpackSpace === undefined ? {} : { unpackSpace };
  if (!(await hasJournal())) return { reader: textReader(options), hasJournal: false };
  const reader = combinedReader(journaldReader(), textReader({ ...options, besideJournal: true }));
  return { reader, hasJournal: true };
}

/** Combines the logs of two readers. A log that both have is read by the first. */
export function combinedReader(first: EventLogReader, second: EventLogReader): EventLogReader {
  return {
    async list(signal) {
      const [ours, theirs] = await Promise.allSettled([first.list(signal), second.list(signal)]);
      if (ours.status === 'rejected' && theirs.status === 'rejected') throw ours.reason;
      const logs: LogMetadata[] = ours.status === 'fulfilled' ? ours.value : [];
      const names = new Set(logs.map(({ name }) => name.toLowerCase()));
      const others = theirs.status === 'fulfilled' ? theirs.value : [];
      const all = [...logs, ...others.filter(({ name }) => !names.has(name.toLowerCase()))];
      const failure = [ours, theirs].find((one) => one.status === 'rejected');
      if (failure === undefined) return all;
      return sayAtEnd(
        all,
        `Other logs are missing, because they could not be read: ${messageOf(failure.reason)}.`,
      );
    },
    async get(name, signal) {
      return orElse(
        () => first.get(name, signal),
        () => second.get(name, signal),
      );
    },
    async *query(query, signal) {
      try {
        return yield* first.query(query, signal);
      } catch (error) {
        if (!isLogNotFound(error)) throw error;
        return yield* second.query(query, signal);
      }
    },
    async record(name, recordId, signal): Promise<LogEntry> {
      return orElse(
        () => first.record(name, recordId, signal),
        () => second.record(name, recordId, signal),
      );
    },
    async *tail(tail, signal) {
      try {
        yield* first.tail(tail, signal);
      } catch (error) {
        if (!isLogNotFound(error)) throw error;
        yield* second.tail(tail, signal);
      }
    },
  };
}

/** A reader throws LOG_NOT_FOUND before it returns the first row. */
const isLogNotFound = (error: unknown) =>
  error instanceof AgentError && error.code === AgentErrorCode.logNotFound;

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

async function orElse<T>(work: () => Promise<T>, other: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isLogNotFound(error)) throw error;
    return other();
  }
}
