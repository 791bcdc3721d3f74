import type { CommandOutput, CommandPayload, CommandRow, CommandType } from '../protocol/index.ts';
import { AppError } from '../platform/errors.ts';

/** A live question to a connected device, and the ways it can end. It is not stored anywhere. */

export const ASK_TIMEOUT_MS = 30_000;
/** What follows a log has no end of its own. */
const TAIL_TIMEOUT_MS = 3_600_000;

export const timeoutOf = ({ type, timeoutMs = Number.POSITIVE_INFINITY }: Question): number =>
  Math.min(timeoutMs, type === 'eventlogs.tail' ? TAIL_TIMEOUT_MS : ASK_TIMEOUT_MS);

export interface Question<T extends CommandType = CommandType> {
  type: T;
  payload: CommandPayload<T>;
  /** Milliseconds until it is given up (default and maximum 30 s; of a tail an hour). */
  timeoutMs?: number;
  /** Most rows the asker takes; a device that sends more is stopped. */
  maxRows?: number;
  /** Called for each batch of rows as the device reads them. */
  onRows?: (rows: CommandRow<T>[]) => void;
  /** Aborting it cancels the work on the device. */
  signal?: AbortSignal;
}

export type AskFailure =
  | {
      reason:
        | 'offline'
        | 'disconnected'
        | 'busy'
        | 'timeout'
        | 'cancelled'
        | 'node_lost'
        | 'capability_missing';
    }
  | { reason: 'agent'; code: string; message: string };

export type AskOutcome<T extends CommandType = CommandType> =
  | { ok: true; output: CommandOutput<T> }
  | ({ ok: false } & AskFailure);

/** The failure as an answer to a person. `details` go along where the kind has any. */
export function askError(failure: AskFailure, details?: unknown): AppError {
  switch (failure.reason) {
    case 'offline':
      return new AppError('device_offline', 'The device is not connected.');
    case 'disconnected':
    case 'node_lost':
      return new AppError('device_offline', 'The device lost its connection before it had answered.', {
        details,
      });
    case 'busy':
      return new AppError('device_busy', 'The device has as many questions open as it may have. Try again.', {
        retryAfterMs: 2000,
      });
    case 'timeout':
      return new AppError('device_timeout', 'The device did not answer in time.', { details });
    case 'cancelled':
      return new AppError('device_error', 'The query was cancelled.');
    case 'capability_missing':
      return new AppError('capability_missing', 'The agent on this device cannot do this.');
    case 'agent':
      return new AppError('device_error', 'The device could not do this.', {
        details: { code: failure.code, message: failure.message },
      });
    default:
      return failure satisfies never;
  }
}
