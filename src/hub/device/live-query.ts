import type { CommandOutput, CommandPayload, CommandRow, CommandType } from '../../protocol/index.ts';
import { AppError } from '../../platform/errors.ts';

/** A live question to a connected device, and the ways it can end. It is not stored anywhere. */

export const ASK_TIMEOUT_MS = 30_000;
/**
 * What has to be waited for before a device can be asked, within the time of the whole question. Throws `unavailable`
 * where that is over first.
 */
export async function inTimeToAsk<T>(arrivedAt: number, work: PromiseLike<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () =>
        reject(new AppError('unavailable', 'The database took too long. Try again.', { retryAfterMs: 2000 })),
      leftToAsk(arrivedAt),
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** How much is left of the time of a question that came at that moment, by `performance.now()`. */
export const leftToAsk = (arrivedAt: number): number =>
  Math.max(0, arrivedAt + ASK_TIMEOUT_MS - performance.now());

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
        | 'unavailable'
        | 'capability_missing';
    }
  | { reason: 'agent'; code: string; message: string };

export type AskOutcome<T extends CommandType = CommandType> =
  | { ok: true; output: CommandOutput<T> }
  | ({ ok: false } & AskFailure);

/** Asks a connected device, wherever in the cluster it is. Never rejects: how it ended is in the outcome. */
export type Ask = <T extends CommandType>(deviceId: string, question: Question<T>) => Promise<AskOutcome<T>>;

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
    case 'unavailable':
      return new AppError(
        'unavailable',
        'The server that holds the device cannot be reached now. Try again.',
        {
          details,
          retryAfterMs: 2000,
        },
      );
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
