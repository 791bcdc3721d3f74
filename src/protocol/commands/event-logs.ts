import { z } from 'zod';
import {
  LogEntry,
  LogMetadata,
  LogNameOnly,
  LogQuery,
  LogQuerySummary,
  LogRecordKey,
  LogTail,
} from '../event-logs.ts';
import type { CommandTable } from './shape.ts';

/** Live queries about the logs of the machine. */
export const EVENT_LOG_COMMANDS = {
  'eventlogs.list': {
    payload: z.object({}),
    output: z.object({ logs: z.array(LogMetadata) }),
  },
  'eventlogs.get': {
    payload: LogNameOnly,
    output: z.object({ log: LogMetadata }),
  },
  'eventlogs.query': {
    payload: LogQuery,
    row: LogEntry,
    output: LogQuerySummary,
  },
  'eventlogs.record': {
    payload: LogRecordKey,
    output: z.object({ entry: LogEntry }),
  },
  'eventlogs.tail': {
    payload: LogTail,
    row: LogEntry,
    output: z.object({}),
  },
} as const satisfies CommandTable;
