import { z } from 'zod';
import { text } from '../primitives.ts';

/**
 * A secret in the payload of a command. The payload is stored by the server and by the agent, and shown to users, so
 * it contains only a reference. The value travels beside the payload in the frame (`CommandFrame.secrets`), and both
 * sides keep it in memory only.
 */
export const SecretRef = z
  .strictObject({ secretRef: z.uuid() })
  .describe('A reference to a secret, whose value is neither stored with the command nor shown.');
export type SecretRef = z.infer<typeof SecretRef>;

export const SECRET_MAX_LENGTH = 4000;

/** The values of the secrets that a payload refers to, by reference. */
export const CommandSecrets = z.record(z.uuid(), text(SECRET_MAX_LENGTH));
export type CommandSecrets = z.infer<typeof CommandSecrets>;

/** A capability: the agent reads the secrets of a command from the frame, and never writes them to disk. */
export const SECRETS_CAPABILITY = 'commands.secrets';

/** All references in a payload, wherever its schema allows them; each once. */
export function secretRefsIn(payload: unknown): string[] {
  const refs = new Set<string>();
  const open: unknown[] = [payload];
  for (let value = open.pop(); value !== undefined || open.length > 0; value = open.pop()) {
    const parsed = SecretRef.safeParse(value);
    if (parsed.success) refs.add(parsed.data.secretRef);
    else if (typeof value === 'object' && value !== null) open.push(...Object.values(value));
  }
  return [...refs];
}

/** The states of a durable command in the server's ledger; the last five are final. */
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

/** The error codes in an agent's result; the server reports any other code as `DEVICE_ERROR`. */
export const AgentErrorCode = {
  logNotFound: 'LOG_NOT_FOUND',
  recordNotFound: 'RECORD_NOT_FOUND',
  /** There is no such process, or it has ended. */
  processNotFound: 'PROCESS_NOT_FOUND',
  /** The number belongs to another process now. */
  processReplaced: 'PROCESS_REPLACED',
  /** The agent never ends this process. */
  processProtected: 'PROCESS_PROTECTED',
  serviceNotFound: 'SERVICE_NOT_FOUND',
  /** The agent does not stop its own service. */
  serviceProtected: 'SERVICE_PROTECTED',
  capabilityMissing: 'CAPABILITY_MISSING',
  invalidPayload: 'INVALID_PAYLOAD',
  cancelled: 'CANCELLED',
  failed: 'FAILED',
  /** The agent or its machine stopped while the command ran; it is not started again. */
  interrupted: 'INTERRUPTED',
  timedOut: 'TIMED_OUT',
  /** The result does not fit into one message. */
  tooLarge: 'RESULT_TOO_LARGE',
  /** A secret that the command refers to can no longer be read. */
  secretUnavailable: 'SECRET_UNAVAILABLE',
  /** The server could not store the result. */
  notStored: 'RESULT_NOT_STORED',
  /** The agent has accepted as many commands as it can hold; the server sends a durable command again later. */
  busy: 'BUSY',
} as const;

/**
 * The lanes that durable commands run in. Each has places of its own, so that a long command of one lane never delays
 * the commands of another. The agent starts at most this many commands of a lane at once, and the server keeps at most
 * this many of a lane at one device.
 *
 * - `interactive`: a technician waits for it, and it ends within about a minute.
 * - `work`: it runs as long as its own time limit allows, such as a script.
 * - `bulk`: it may run for hours, such as a backup.
 */
export const LANE_LIMITS = { interactive: 2, work: 2, bulk: 1 } as const;

/**
 * A capability: the agent runs commands in lanes. An agent without it gets at most two commands at once, whatever
 * their lanes.
 */
export const LANES_CAPABILITY = 'commands.lanes';

export type Lane = keyof typeof LANE_LIMITS;
export const LANES = Object.keys(LANE_LIMITS) as Lane[];

/**
 * The definition of a command: the schema of its request, of its rows (if it streams) and of its output.
 * A command with a `lane` is durable: it is recorded in the server's ledger. The agent stores accepted commands and
 * their results on disk, runs each id once, and sends the result until it is acknowledged. A command without a lane is
 * a live query, which ends with the connection.
 */
export interface CommandShape {
  lane?: Lane;
  /** Only the server sends it: users cannot send it with their own payload. */
  isOfServer?: true;
  payload: z.ZodType;
  row?: z.ZodType;
  output: z.ZodType;
}

export type CommandTable = Readonly<Record<string, CommandShape>>;
