import type { QueryOutcome } from '../../../../protocol/index.ts';
import type { LogRow } from '../model/log-row.ts';

/** How a query ended. */
export type EndReason =
  | 'complete'
  | 'cancelled'
  | 'timed_out'
  | 'offline'
  | 'error'
  | 'connection_lost'
  | 'refused';

export type QueryState =
  | { state: 'idle' }
  | { state: 'running'; since: number; arrived: number; isOlder: boolean }
  | {
      state: 'ended';
      reason: EndReason;
      tookMs: number;
      arrived: number;
      message: string | undefined;
      outcomes: readonly QueryOutcome[];
    };

export interface TailState {
  state: 'off' | 'starting' | 'following' | 'paused';
  /** How many entries have come since the pause. */
  waiting: number;
  /** Why it is off, where nobody switched it off. */
  ended: string | undefined;
}

export interface FeedState {
  /** Newest first. */
  rows: readonly LogRow[];
  query: QueryState;
  /** Whether the device may have older entries than those that are loaded. */
  hasOlder: boolean;
  /** How many of the oldest rows were dropped, because no more are held. */
  dropped: number;
  tail: TailState;
}

export const NO_TAIL: TailState = { state: 'off', waiting: 0, ended: undefined };

export const EMPTY_FEED: FeedState = {
  rows: [],
  query: { state: 'idle' },
  hasOlder: false,
  dropped: 0,
  tail: NO_TAIL,
};

/** The outcome of a query to one device as a reason, and the message of the device. */
export function endOf(outcomes: readonly QueryOutcome[]): { reason: EndReason; message: string | undefined } {
  const [first, ...others] = outcomes;
  // Where the connection is lost, nobody reports outcomes.
  if (first === undefined) return { reason: 'connection_lost', message: undefined };
  // A query to many devices has an outcome for each; as a whole it has ended.
  if (others.length > 0) {
    const isCancelled = outcomes.some(({ outcome }) => outcome === 'cancelled');
    return { reason: isCancelled ? 'cancelled' : 'complete', message: undefined };
  }
  const { outcome, message } = first;
  return { reason: outcome === 'answered' || outcome === 'no_match' ? 'complete' : outcome, message };
}
