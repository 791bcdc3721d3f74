import { z } from 'zod';
import { reportedText, text } from './primitives.ts';
import {
  LogEntry,
  LogMetadata,
  LogNameOnly,
  LogQuery,
  LogQuerySummary,
  LogRecordKey,
  LogTail,
} from './event-logs.ts';

export const ScriptLanguage = z.enum(['bash', 'powershell', 'python']);
export type ScriptLanguage = z.infer<typeof ScriptLanguage>;

/** Bytes that a script may have. */
export const SCRIPT_MAX_BYTES = 200_000;
/** Characters of each stream that a result keeps: the last ones. */
export const SCRIPT_OUTPUT_MAX = 100_000;
export const SCRIPT_TIMEOUT_MAX_SECONDS = 86_400;

export const ScriptParameters = z.record(
  z.string().regex(/^[A-Za-z_]\w{0,63}$/, 'must be a name of letters, digits and underscores'),
  text(4000, 0),
);

/**
 * Everything the server can ask of an agent: the shape of the question, of the rows streamed while it works
 * (where it streams) and of the final output. An agent names in its handshake the types that it can do.
 *
 * `durable` work is in the server's ledger: the agent keeps what it has accepted and its result on disk, does the same
 * id once, and sends the result until it is acknowledged. Everything else is a live question, which ends with the
 * connection.
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
  'script.run': {
    durable: true,
    payload: z.object({
      language: ScriptLanguage,
      content: text(SCRIPT_MAX_BYTES),
      parameters: ScriptParameters.optional().describe('Environment variables of the script: PARAM_<name>.'),
      timeoutSeconds: z.number().int().min(1).max(SCRIPT_TIMEOUT_MAX_SECONDS),
    }),
    row: z.object({ stream: z.enum(['stdout', 'stderr']), text: z.string() }),
    output: z.object({
      exitCode: z.number().int().nullable().describe('null where a signal ended it.'),
      stdout: reportedText(SCRIPT_OUTPUT_MAX, 0),
      stderr: reportedText(SCRIPT_OUTPUT_MAX, 0),
      truncated: z.boolean().describe('Only the end of a stream was kept.'),
    }),
  },
  'agent.set-auto-update': {
    durable: true,
    payload: z.object({ enabled: z.boolean() }),
    output: z.object({}),
  },
  'agent.refresh-inventory': { durable: true, payload: z.object({}), output: z.object({}) },
  'agent.reboot': {
    durable: true,
    payload: z.object({ delaySeconds: z.number().int().min(0).max(86_400).optional() }),
    output: z.object({}),
  },
} as const satisfies Record<string, CommandShape>;

interface CommandShape {
  durable?: true;
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

/** How far work of the ledger has come (DESIGN 4.7); the last five are ends. */
export const CommandStatus = z.enum([
  'queued',
  'dispatched',
  'accepted',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'timed_out',
  'expired',
]);
export type CommandStatus = z.infer<typeof CommandStatus>;

/** The work that the ledger carries. */
export type DurableCommandType = {
  [T in CommandType]: (typeof COMMANDS)[T] extends { durable: true } ? T : never;
}[CommandType];

export function isDurable(type: string): type is DurableCommandType {
  return Object.hasOwn(COMMANDS, type) && 'durable' in COMMANDS[type as CommandType];
}
export const DURABLE_COMMAND_TYPES = COMMAND_TYPES.filter(isDurable);

/** Codes an agent answers a command with; others are passed on as `DEVICE_ERROR`. */
export const AgentErrorCode = {
  logNotFound: 'LOG_NOT_FOUND',
  recordNotFound: 'RECORD_NOT_FOUND',
  capabilityMissing: 'CAPABILITY_MISSING',
  invalidPayload: 'INVALID_PAYLOAD',
  cancelled: 'CANCELLED',
  failed: 'FAILED',
  /** The agent or its machine ended while the work ran; it is not begun again. */
  interrupted: 'INTERRUPTED',
  timedOut: 'TIMED_OUT',
  /** More than one message holds. */
  tooLarge: 'RESULT_TOO_LARGE',
  /** The server could not store the result. */
  notStored: 'RESULT_NOT_STORED',
  /** It has as much to do as it takes on; durable work comes again later. */
  busy: 'BUSY',
} as const;
