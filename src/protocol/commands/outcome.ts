import { z } from 'zod';

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

/** The error codes that an agent answers a command with; the server reports any other code as `DEVICE_ERROR`. */
export const AgentErrorCode = {
  logNotFound: 'LOG_NOT_FOUND',
  recordNotFound: 'RECORD_NOT_FOUND',
  capabilityMissing: 'CAPABILITY_MISSING',
  invalidPayload: 'INVALID_PAYLOAD',
  cancelled: 'CANCELLED',
  failed: 'FAILED',
  /** The agent or its machine stopped while the command ran; it is not started again. */
  interrupted: 'INTERRUPTED',
  timedOut: 'TIMED_OUT',
  /** The result does not fit into one message. */
  tooLarge: 'RESULT_TOO_LARGE',
  /** A secret that the command refers to cannot be read any more. */
  secretUnavailable: 'SECRET_UNAVAILABLE',
  /** The server could not store the result. */
  notStored: 'RESULT_NOT_STORED',
  /** The agent has accepted as many commands as it holds; the server sends a durable command again later. */
  busy: 'BUSY',
} as const;
