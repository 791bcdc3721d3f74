import type { EventLogsQuery, EventLogsTail, LogEntry, QueryOutcome } from '../../../protocol/index.ts';
import type { DeviceConditions } from './log-filter.ts';
import { MAX_ROWS, mergeRows, rowOfEntry, type LogRow } from './log-row.ts';

/** How a query ended. */
type EndReason = 'complete' | 'cancelled' | 'timed_out' | 'offline' | 'error' | 'connection_lost' | 'refused';

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
  /** Why it ended, if it was not switched off by the user. */
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

const NO_TAIL: TailState = { state: 'off', waiting: 0, ended: undefined };

const EMPTY_FEED: FeedState = {
  rows: [],
  query: { state: 'idle' },
  hasOlder: false,
  dropped: 0,
  tail: NO_TAIL,
};

/** The outcome of a query to one device as a reason, and the message of the device. */
function endOf(outcomes: readonly QueryOutcome[]): { reason: EndReason; message: string | undefined } {
  const [first, ...others] = outcomes;
  // A lost connection reports no outcomes.
  if (first === undefined) return { reason: 'connection_lost', message: undefined };
  // A query to many devices has an outcome for each; as a whole it has ended.
  if (others.length > 0) {
    const isCancelled = outcomes.some(({ outcome }) => outcome === 'cancelled');
    return { reason: isCancelled ? 'cancelled' : 'complete', message: undefined };
  }
  const { outcome, message } = first;
  return { reason: outcome === 'answered' || outcome === 'no_match' ? 'complete' : outcome, message };
}

/** Asks the hub. Resolves with a function that cancels. */
export type AskLogs = (
  query: { kind: 'query'; message: EventLogsQuery } | { kind: 'tail'; message: EventLogsTail },
  listeners: {
    rows(deviceId: string, rows: readonly LogEntry[]): void;
    end(outcomes: readonly QueryOutcome[]): void;
  },
) => Promise<() => void>;

/** Which log of which devices. */
export interface LogTarget {
  name: string;
  deviceIds: readonly string[];
}

/** A page of one device. */
export const PAGE = 500;
/** Rows that arrive within this time are shown together. */
const FRAME_MS = 120;
const CANCEL_MS = 1_500;

/**
 * The entries of a query and of the tail that continues it, as the page shows them. Rows stay when a query ends early,
 * whatever the reason. Everything that a query leaves behind is dropped as soon as another one begins.
 */
export class LogFeed {
  readonly #ask: AskLogs;
  readonly #now: () => number;
  readonly #watchers = new Set<() => void>();
  #state: FeedState = EMPTY_FEED;
  #target: LogTarget | undefined;
  #conditions: DeviceConditions = {};
  #limit = PAGE;
  #arrived: LogRow[] = [];
  /** The same of the tail, which waits longer while that is paused. */
  #followed: LogRow[] = [];
  /** The entries that came while the tail was paused. */
  #held: readonly LogRow[] = [];
  #frame: ReturnType<typeof setTimeout> | undefined;
  #cancelled: ReturnType<typeof setTimeout> | undefined;
  #query = 0;
  #tail = 0;
  #cancelQuery: (() => void) | undefined;
  #cancelTail: (() => void) | undefined;
  /** How a tail stood that a lost connection has ended: it is taken up again when that is back. */
  #lost: 'following' | 'paused' | undefined;

  constructor(ask: AskLogs, now: () => number = Date.now) {
    this.#ask = ask;
    this.#now = now;
  }

  get state(): FeedState {
    return this.#state;
  }

  watch = (callback: () => void): (() => void) => {
    this.#watchers.add(callback);
    return () => this.#watchers.delete(callback);
  };

  /** Reads the newest entries. A tail continues with the new conditions. */
  start(target: LogTarget, conditions: DeviceConditions, limit = PAGE): void {
    const wasTailing = this.#state.tail.state !== 'off' || this.#lost !== undefined;
    this.close();
    this.#target = target;
    this.#conditions = conditions;
    this.#limit = limit;
    this.#set(EMPTY_FEED);
    if (wasTailing) this.follow();
    void this.#run(conditions, false);
  }

  /**
   * Reads the entries before the oldest one.
   * @param before  the time up to which the device has looked, if it found nothing on the last part of its way
   */
  older(before?: string): void {
    const oldest = this.#state.rows.at(-1);
    const endTime = before ?? (oldest === undefined ? undefined : new Date(oldest.at).toISOString());
    if (endTime === undefined || this.#state.query.state === 'running') return;
    void this.#run({ ...this.#conditions, endTime }, true);
  }

  /** Ends the query. What has arrived stays. */
  cancel(): void {
    if (this.#state.query.state !== 'running' || this.#cancelled !== undefined) return;
    const cancel = this.#cancelQuery;
    if (cancel === undefined) return this.#endQuery('cancelled', []);
    cancel();
    // The server answers with the outcome of each device. If it does not, the wait ends.
    this.#cancelled = setTimeout(() => this.#endQuery('cancelled', []), CANCEL_MS);
  }

  /** Follows a log again if its tail ended because the connection was lost. */
  followAgain(): void {
    const lost = this.#lost;
    if (lost !== undefined) this.follow(lost);
  }

  /** Follows new entries, including those written since the tail ended. */
  follow(as: 'following' | 'paused' = 'following'): void {
    const target = this.#target;
    const deviceId = target?.deviceIds[0];
    if (target === undefined || deviceId === undefined || this.#state.tail.state !== 'off') return;
    const tail = ++this.#tail;
    this.#set({ tail: { ...NO_TAIL, state: 'starting' } });
    const { startTime: _start, endTime: _end, ...conditions } = this.#conditions;
    const listeners = {
      rows: (id: string, rows: readonly LogEntry[]) => {
        if (tail === this.#tail) this.#takeTail(rows.map((row) => rowOfEntry(id, row)));
      },
      end: (outcomes: readonly QueryOutcome[]) => {
        if (tail === this.#tail) this.#endTail(outcomes);
      },
    };
    const message = { deviceId, name: target.name, ...conditions };
    this.#ask({ kind: 'tail', message }, listeners).then(
      (cancel) => {
        if (tail !== this.#tail) return cancel();
        this.#cancelTail = cancel;
        this.#lost = undefined;
        if (this.#state.tail.state === 'starting') this.#set({ tail: { ...NO_TAIL, state: as } });
        this.#catchUp();
      },
      (error: unknown) => {
        if (tail === this.#tail) this.#set({ tail: { ...NO_TAIL, ended: messageOf(error) } });
      },
    );
  }

  /** Holds new entries back, so that the rows do not move while being read. */
  pause(): void {
    if (this.#state.tail.state === 'following') this.#set({ tail: { ...NO_TAIL, state: 'paused' } });
  }

  resume(): void {
    if (this.#state.tail.state !== 'paused') return;
    this.#flush();
    const held = this.#held;
    this.#held = [];
    this.#set({ tail: { ...NO_TAIL, state: 'following' } });
    this.#show(held);
  }

  unfollow(): void {
    this.#lost = undefined;
    this.#flush();
    this.#tail++;
    this.#cancelTail?.();
    this.#cancelTail = undefined;
    const held = this.#held;
    this.#held = [];
    this.#set({ tail: NO_TAIL });
    this.#show(held);
  }

  /** Ends everything that is open on the device. */
  close(): void {
    this.#query++;
    this.#tail++;
    this.#cancelQuery?.();
    this.#cancelTail?.();
    this.#cancelQuery = undefined;
    this.#cancelTail = undefined;
    this.#arrived = [];
    this.#followed = [];
    this.#held = [];
    clearTimeout(this.#frame);
    clearTimeout(this.#cancelled);
    this.#frame = undefined;
    this.#cancelled = undefined;
    if (this.#state.tail.state !== 'off') this.#set({ tail: NO_TAIL });
    if (this.#state.query.state === 'running') this.#set({ query: { state: 'idle' } });
  }

  /** Reads what was written between the newest row and the start of the tail. */
  #catchUp(): void {
    const newest = this.#state.rows[0];
    if (newest === undefined || this.#state.query.state === 'running') return;
    const { endTime: _end, ...conditions } = this.#conditions;
    const startTime = new Date(newest.at).toISOString();
    const tail = this.#tail;
    const listeners = {
      rows: (id: string, rows: readonly LogEntry[]) => {
        if (tail === this.#tail) this.#takeTail(rows.map((row) => rowOfEntry(id, row)));
      },
      end: () => undefined,
    };
    // If this fails, the tail still follows; "Refresh" reads the rest.
    this.#ask({ kind: 'query', message: { ...this.#message(), ...conditions, startTime } }, listeners).catch(
      () => undefined,
    );
  }

  async #run(conditions: DeviceConditions, isOlder: boolean): Promise<void> {
    const query = ++this.#query;
    const since = this.#now();
    this.#set({ query: { state: 'running', since, arrived: 0, isOlder } });
    const listeners = {
      rows: (deviceId: string, rows: readonly LogEntry[]) => {
        if (query !== this.#query) return;
        for (const row of rows) this.#arrived.push(rowOfEntry(deviceId, row));
        this.#flushSoon();
      },
      end: (outcomes: readonly QueryOutcome[]) => {
        if (query !== this.#query) return;
        this.#endQuery(this.#cancelled === undefined ? undefined : 'cancelled', outcomes);
      },
    };
    try {
      const cancel = await this.#ask(
        { kind: 'query', message: { ...this.#message(), ...conditions } },
        listeners,
      );
      // Another query has begun meanwhile, or the wait was abandoned.
      if (query !== this.#query) cancel();
      else if (this.#state.query.state === 'running') this.#cancelQuery = cancel;
    } catch (error) {
      if (query === this.#query) this.#endQuery('refused', [], messageOf(error));
    }
  }

  #message(): EventLogsQuery {
    const target = this.#target;
    if (target === undefined) throw new Error('A log is read before it is chosen.');
    return { deviceIds: [...target.deviceIds], name: target.name, limit: this.#limit };
  }

  /** @param reason  if it is known here; otherwise the outcomes have it */
  #endQuery(
    reason: 'cancelled' | 'refused' | undefined,
    outcomes: readonly QueryOutcome[],
    text?: string,
  ): void {
    const { query } = this.#state;
    if (query.state !== 'running') return;
    // Drop rows that arrive later.
    this.#query++;
    clearTimeout(this.#cancelled);
    this.#cancelled = undefined;
    this.#cancelQuery = undefined;
    const before = this.#state.rows.length;
    const arrived = query.arrived + this.#arrived.length;
    this.#flush();
    const known = endOf(outcomes);
    const ended = reason === undefined ? known : { reason, message: text };
    const isFull = this.#state.rows.length >= MAX_ROWS;
    // The page was full, or the device stopped half-way: there may be more. A page of nothing new ends the search.
    const mayHaveMore =
      ended.reason === 'complete'
        ? arrived >= this.#limit && (!query.isOlder || this.#state.rows.length > before - query.arrived)
        : this.#state.rows.length > 0;
    this.#set({
      query: { state: 'ended', ...ended, tookMs: this.#now() - query.since, arrived, outcomes },
      hasOlder: mayHaveMore && !isFull && outcomes.length <= 1,
    });
  }

  #takeTail(rows: readonly LogRow[]): void {
    this.#followed.push(...rows);
    this.#flushSoon();
  }

  #endTail(outcomes: readonly QueryOutcome[]): void {
    const [outcome] = outcomes;
    const lost = this.#state.tail.state === 'paused' ? 'paused' : 'following';
    this.unfollow();
    if (outcome === undefined || outcome.outcome === 'offline') this.#lost = lost;
    const ended =
      outcome === undefined
        ? 'The connection to the server was lost. They are followed again when it is back.'
        : (outcome.message ?? TAIL_ENDS[outcome.outcome]);
    this.#set({ tail: { ...NO_TAIL, ended } });
  }

  /** A page that is hidden is woken up rarely, and is sent as much as ever. */
  #flushSoon(): void {
    if (this.#arrived.length + this.#followed.length >= MAX_ROWS) this.#flush();
    else this.#frame ??= setTimeout(() => this.#flush(), FRAME_MS);
  }

  #flush(): void {
    clearTimeout(this.#frame);
    this.#frame = undefined;
    const [arrived, followed] = [this.#arrived, this.#followed];
    this.#arrived = [];
    this.#followed = [];
    const isPaused = this.#state.tail.state === 'paused';
    this.#show(isPaused ? arrived : [...arrived, ...followed]);
    if (isPaused) this.#hold(followed);
  }

  #hold(followed: readonly LogRow[]): void {
    if (followed.length === 0) return;
    const shown = new Set(this.#state.rows.slice(0, PAGE).map(({ key }) => key));
    const { rows } = mergeRows(
      this.#held,
      followed.filter(({ key }) => !shown.has(key)),
    );
    this.#held = rows;
    this.#set({ tail: { ...this.#state.tail, waiting: rows.length } });
  }

  #show(arrived: readonly LogRow[]): void {
    if (arrived.length === 0) return;
    const { rows, dropped } = mergeRows(this.#state.rows, arrived);
    const { query } = this.#state;
    this.#set({
      rows,
      dropped: this.#state.dropped + dropped,
      ...(query.state === 'running' ? { query: { ...query, arrived: query.arrived + arrived.length } } : {}),
    });
  }

  #set(change: Partial<FeedState>): void {
    this.#state = { ...this.#state, ...change };
    for (const callback of this.#watchers) callback();
  }
}

const TAIL_ENDS: Record<QueryOutcome['outcome'], string> = {
  answered: 'The device stopped following the log.',
  no_match: 'The device stopped following the log.',
  offline: 'The device is not connected. They are followed again when it is back.',
  timed_out: 'A log is followed for an hour at most.',
  error: 'The device could not follow the log.',
  cancelled: 'The server ended it.',
};

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : 'The server did not answer.';
