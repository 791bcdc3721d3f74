import { z } from 'zod';
import {
  LogEntry,
  LogMetadata,
  LogNameOnly,
  LogQuery,
  LogQuerySummary,
  LogRecordKey,
  LogTail,
} from './event-logs.ts';

/**
 * Everything the server can ask of an agent: the shape of the question, of the rows streamed while it works
 * (where it streams) and of the final output. An agent names in its handshake the types that it can do.
 */
export const COMMANDS = {
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
} as const satisfies Record<string, CommandShape>;

interface CommandShape {
  payload: z.ZodType;
  row?: z.ZodType;
  output: z.ZodType;
}

export type CommandType = keyof typeof COMMANDS;
export const COMMAND_TYPES = Object.keys(COMMANDS) as CommandType[];
export type CommandPayload<T extends CommandType> = z.infer<(typeof COMMANDS)[T]['payload']>;
export type CommandOutput<T extends CommandType> = z.infer<(typeof COMMANDS)[T]['output']>;
export type CommandRow<T extends CommandType> = (typeof COMMANDS)[T] extends {
  row: infer R extends z.ZodType;
}
  ? z.infer<R>
  : never;

/** The row schema of a command that streams, `undefined` for one that does not. */
export function rowSchema(type: CommandType): z.ZodType | undefined {
  const shape: CommandShape = COMMANDS[type];
  return shape.row;
}

/** Codes an agent answers a command with; others are passed on as `DEVICE_ERROR`. */
export const AgentErrorCode = {
  logNotFound: 'LOG_NOT_FOUND',
  recordNotFound: 'RECORD_NOT_FOUND',
  capabilityMissing: 'CAPABILITY_MISSING',
  invalidPayload: 'INVALID_PAYLOAD',
  cancelled: 'CANCELLED',
  failed: 'FAILED',
} as const;
