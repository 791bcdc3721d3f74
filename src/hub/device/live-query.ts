import { clock, type Timer } from '../../clock.ts';
import {
  TERMINAL_LONGEST_MS,
  type CommandOutput,
  type CommandPayload,
  type CommandRow,
  type CommandType,
  type TerminalControl,
} from '../../protocol/index.ts';
import { AppError } from '../../platform/errors.ts';

/** A query to a connected device, and the ways in which it can end. It is not stored. */
export interface LiveQuery<T extends CommandType = CommandType> {
  type: T;
  payload: CommandPayload<T>;
  /** The time limit in milliseconds (default and maximum 30 s; one hour for a tail, eight for a terminal). */
  timeoutMs?: number;
  /** The most rows the sender accepts. A device that sends more is stopped. */
  maxRows?: number;
  /** Called for each batch of rows as the device reads them. */
  onRows?: (rows: CommandRow<T>[]) => void;
  /** Aborting cancels the work on the device. */
  signal?: AbortSignal;
  /** Called before the query is sent, with the function that sends messages to the terminal that it opens. */
  onRoute?: (control: SendTerminalControl) => void;
}

/** Sends a message to the terminal of a query, wherever its device is connected. Without the query, it has no effect. */
export type SendTerminalControl = (control: Omit<TerminalControl, 'id'>) => void;

export type LiveQueryFailure =
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

export type LiveQueryOutcome<T extends CommandType = CommandType> =
  | { ok: true; output: CommandOutput<T> }
  | ({ ok: false } & LiveQueryFailure);

/** Queries a device, whichever node owns it. Never rejects: the outcome says how the query ended. */
export type RunLiveQuery = <T extends CommandType>(
  deviceId: string,
  query: LiveQuery<T>,
) => Promise<LiveQueryOutcome<T>>;

const QUERY_TIMEOUT_MS = 30_000;
/** A tail follows a log, and a terminal its shell, which have no end of their own. */
const LONGER_MS: { readonly [T in CommandType]?: number } = {
  'eventlogs.tail': 3_600_000,
  'terminal.open': TERMINAL_LONGEST_MS,
};

export const timeoutOf = ({ type, timeoutMs = Number.POSITIVE_INFINITY }: LiveQuery): number =>
  Math.min(timeoutMs, LONGER_MS[type] ?? QUERY_TIMEOUT_MS);

/** The time left for a query that arrived at that moment. @param arrivedAt  by `clock.monotonic()` */
export const remainingQueryMs = (arrivedAt: number): number =>
  Math.max(0, arrivedAt + QUERY_TIMEOUT_MS - clock.monotonic());

/** Waits for work that precedes a query, within the query's time limit. Throws `unavailable` when that is exceeded. */
export async function withinQueryTimeout<T>(arrivedAt: number, work: PromiseLike<T>): Promise<T> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = clock.setTimeout(
      () =>
        reject(new AppError('unavailable', 'The database took too long. Try again.', { retryAfterMs: 2000 })),
      remainingQueryMs(arrivedAt),
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clock.clear(timer);
  }
}

/** The failure as an error for a client. `details` are added for failures that can have a partial result. */
export function liveQueryError(failure: LiveQueryFailure, details?: unknown): AppError {
  switch (failure.reason) {
    case 'offline':
      return new AppError('device_offline', 'The device is not connected.');
    case 'disconnected':
    case 'node_lost':
      return new AppError('device_offline', 'The device lost its connection before it answered.', {
        details,
      });
    case 'unavailable':
      return new AppError(
        'unavailable',
        'The server that the device is connected to cannot be reached now. Try again.',
        { details, retryAfterMs: 2000 },
      );
    case 'busy':
      return new AppError(
        'device_busy',
        'The device already has the maximum number of open queries. Try again.',
        {
          retryAfterMs: 2000,
        },
      );
    case 'timeout':
      return new AppError('device_timeout', 'The device did not answer in time.', { details });
    case 'cancelled':
      return new AppError('device_error', 'The query was cancelled.');
    case 'capability_missing':
      return new AppError('capability_missing', 'The agent on this device does not support this query.');
    case 'agent':
      return new AppError('device_error', 'The query failed on the device.', {
        details: { code: failure.code, message: failure.message },
      });
    default:
      return failure satisfies never;
  }
}
