import { AgentErrorCode, type LogEntry, type LogMetadata } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { sayAtEnd, type EventLogReader } from './reader.ts';

/** Offers the logs of two readers. A log that both have is that of the first. */
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

/** A reader says that it has no such log before it returns anything of it. */
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
