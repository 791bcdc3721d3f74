import { z } from 'zod';
import { reportedText, text } from '../primitives.ts';
import { SecretRef, type CommandTable } from './shape.ts';
import { EndedProcess, MachineProcess, ProcessSummary, ProcessToEnd } from '../processes.ts';
import { LiveService, LiveServiceSummary, ServiceChange, ServiceOrder } from '../services.ts';
import {
  LogEntry,
  LogMetadata,
  LogNameOnly,
  LogQuery,
  LogQuerySummary,
  LogRecordKey,
  LogTail,
} from '../event-logs.ts';

/** Steps of a recovery plan on a device, besides restores. */

const Port = z.number().int().min(1).max(65_535);
const Host = text(253).describe('The address under which the device reaches it.');

export const CHECK_TIMEOUT_MAX_SECONDS = 3600;

const ServiceCheck = z.discriminatedUnion('type', [
  z.object({ type: z.literal('tcp'), host: Host, port: Port }),
  z.object({
    type: z.literal('http'),
    host: Host,
    port: Port,
    path: text(2000),
    secure: z.boolean().describe('Over TLS. The certificate is not verified.'),
    expectStatus: z.number().int().optional().describe('Default: any from 200 to 399.'),
    contains: text(500).optional().describe('Text in the first 64 KiB of the answer.'),
  }),
]);
export type ServiceCheck = z.infer<typeof ServiceCheck>;

export const RECOVERY_COMMANDS = {
  'recovery.check': {
    lane: 'work',
    isOfServer: true,
    payload: z.object({
      check: ServiceCheck,
      timeoutSeconds: z
        .number()
        .int()
        .min(1)
        .max(CHECK_TIMEOUT_MAX_SECONDS)
        .describe('The check is repeated until it passes or this time has expired.'),
    }),
    output: z.object({
      passed: z.boolean(),
      message: reportedText(500).describe('The result of the last attempt.'),
      attempts: z.number().int().nonnegative(),
      seconds: z.number().nonnegative(),
    }),
  },
  'recovery.discard-restore': {
    lane: 'interactive',
    isOfServer: true,
    payload: z.object({
      restoreId: z.uuid().describe('A restore without a target: its folder of the agent is removed.'),
    }),
    output: z.object({ wasThere: z.boolean() }),
  },
} as const satisfies CommandTable;

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

/**
 * Live queries about processes and services of the machine. What they change is over within their time limit, so it is
 * not in the ledger: a service must not be restarted hours later because its device was offline.
 */
export const SYSTEM_TOOL_COMMANDS = {
  'processes.list': { payload: z.object({}), row: MachineProcess, output: ProcessSummary },
  'processes.end': { payload: ProcessToEnd, output: EndedProcess },
  'services.list': { payload: z.object({}), row: LiveService, output: LiveServiceSummary },
  'services.control': { payload: ServiceOrder, output: ServiceChange },
} as const satisfies CommandTable;

export const UPDATE_COMMANDS = {
  'agent.set-auto-update': {
    lane: 'interactive',
    payload: z.object({ enabled: z.boolean() }),
    output: z.object({}),
  },
} as const satisfies CommandTable;

export const POWER_COMMANDS = {
  'agent.reboot': {
    lane: 'interactive',
    payload: z.object({ delaySeconds: z.number().int().min(0).max(86_400).optional() }),
    output: z.object({}),
  },
} as const satisfies CommandTable;

export const INVENTORY_COMMANDS = {
  'agent.refresh-inventory': { lane: 'interactive', payload: z.object({}), output: z.object({}) },
} as const satisfies CommandTable;

export const ScriptLanguage = z.enum(['bash', 'powershell', 'python', 'cmd']);
export type ScriptLanguage = z.infer<typeof ScriptLanguage>;

/** The languages of stored scripts. Windows commands are run as they are typed, and not stored. */
export const SavedScriptLanguage = ScriptLanguage.exclude(['cmd']);
export type SavedScriptLanguage = z.infer<typeof SavedScriptLanguage>;

/** The largest script, in characters. */
export const SCRIPT_MAX_BYTES = 200_000;
/** How many characters of each stream a result keeps: the last ones. */
export const SCRIPT_OUTPUT_MAX = 100_000;
export const SCRIPT_TIMEOUT_MAX_SECONDS = 86_400;

export const VariableName = z
  .string()
  .regex(/^[A-Za-z_]\w{0,63}$/, 'must be a name of letters, digits and underscores');

export const ScriptParameters = z.record(VariableName, text(4000, 0));

/** The secrets of a script: their values in a request (`text`), references in the payload (`SecretRef`). */
export const scriptSecrets = <V extends z.ZodType>(value: V) => z.record(VariableName, value);

/** The output of a script on one of its streams. */
export const ScriptOutputRow = z.object({ stream: z.enum(['stdout', 'stderr']), text: z.string() });

export const SCRIPT_COMMANDS = {
  'script.run': {
    lane: 'work',
    payload: z.object({
      language: ScriptLanguage,
      content: text(SCRIPT_MAX_BYTES),
      parameters: ScriptParameters.optional().describe('Environment variables of the script: PARAM_<name>.'),
      secrets: scriptSecrets(SecretRef)
        .optional()
        .describe('Environment variables of the script: SECRET_<name>.'),
      timeoutSeconds: z.number().int().min(1).max(SCRIPT_TIMEOUT_MAX_SECONDS),
    }),
    row: ScriptOutputRow,
    output: z.object({
      exitCode: z.number().int().nullable().describe('null if a signal ended the script.'),
      stdout: reportedText(SCRIPT_OUTPUT_MAX, 0),
      stderr: reportedText(SCRIPT_OUTPUT_MAX, 0),
      truncated: z.boolean().describe('True if only the end of a stream was kept.'),
    }),
  },
} as const satisfies CommandTable;
