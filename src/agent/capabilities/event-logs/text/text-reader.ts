import type { LogEntry, LogMetadata, LogQuery } from '../../../../protocol/index.ts';
import { recordNotFound } from '../../../core/agent-error.ts';
import { entryMatcher, instantMs } from '../conditions.ts';
import { findLog } from '../find-log.ts';
import { DISORDER_MS, pageOf, type ScanEnd } from '../page.ts';
import type { EventLogReader } from '../reader.ts';
import { findTextLogs, type TextLog } from './log-files.ts';
import { splitRecordId } from './open-part.ts';
import { COUNT_BYTES_MAX, describeTextLog } from './text-metadata.ts';
import { entriesBackward, entryAt, readPart } from './text-part.ts';
import { followText } from './text-tail.ts';
import { temporarySpace, type UnpackSpace } from './unpack-space.ts';

export interface TextReaderOptions {
  root?: string;
  pollMs?: number;
  /** The space in which compressed parts are unpacked. */
  unpackSpace?: UnpackSpace;
}

/** Reads logs from the text files below a folder, for machines without a journal. */
export function textReader(options: TextReaderOptions = {}): EventLogReader {
  const root = options.root ?? '/var/log';
  const space = options.unpackSpace ?? temporarySpace();
  return {
    async list(signal) {
      const budget = { bytes: COUNT_BYTES_MAX };
      const described: LogMetadata[] = [];
      for (const log of await findTextLogs(root)) {
        // A log that was removed meanwhile must not hide the others.
        const metadata = await describeTextLog(log, budget, signal, space).catch(() => undefined);
        if (metadata !== undefined) described.push(metadata);
      }
      return described;
    },
    async get(name, signal) {
      return describeTextLog(
        findLog(await findTextLogs(root), name),
        { bytes: COUNT_BYTES_MAX },
        signal,
        space,
      );
    },
    async *query(query, signal) {
      const log = findLog(await findTextLogs(root), query.name);
      return yield* pageOf(newestFirst(log, query, signal, space), query, signal);
    },
    async record(name, recordId, signal) {
      const log = findLog(await findTextLogs(root), name);
      const { idBase, offset } = splitRecordId(recordId);
      for (const file of log.parts) {
        const part = await readPart(log, file, signal, space);
        try {
          const entry = part.context.idBase === idBase ? await entryAt(part, offset) : undefined;
          if (entry !== undefined) return entry;
        } finally {
          await part.open.close();
        }
      }
      throw recordNotFound(log.name, recordId);
    },
    async *tail(tail, signal) {
      const log = findLog(await findTextLogs(root), tail.name);
      const matches = entryMatcher(tail);
      for await (const entry of followText(log, signal, options.pollMs)) if (matches(entry)) yield entry;
    },
  };
}

async function* newestFirst(
  log: TextLog,
  query: LogQuery,
  signal: AbortSignal,
  space: UnpackSpace,
): AsyncGenerator<LogEntry[], ScanEnd> {
  const oldest = (instantMs(query.startTime) ?? -Infinity) - DISORDER_MS;
  let incomplete = false;
  for (const [index, file] of log.parts.entries()) {
    if (signal.aborted) break;
    // No entry of a rotated part is newer than its last write.
    if (index > 0 && file.writtenAt < oldest) break;
    const part = await readPart(log, file, signal, space).catch((error: unknown) => {
      // A damaged old part must not hide the others. The result is marked as incomplete.
      if (index === 0) throw error;
      incomplete = true;
    });
    if (part === undefined) continue;
    try {
      incomplete ||= !part.complete;
      yield* entriesBackward(part, signal);
    } finally {
      await part.open.close();
    }
  }
  return { incomplete };
}
