import {
  EventLogsEnd,
  type EventLogsQuery,
  EventLogsRows,
  type EventLogsTail,
  type LogEntry,
  type QueryOutcome,
  QueryStarted,
} from '../../../../src/protocol/index.ts';
import { ownError } from '../error.ts';
import { Channel } from './channel.ts';
import { type HubConnection, mayConcern, notUnderstood } from './connection.ts';

/** An entry of a log, or at the end how it went with one of the devices. */
export type EventLogItem =
  | { type: 'entry'; deviceId: string; entry: LogEntry }
  | ({ type: 'outcome' } & QueryOutcome);

export type EventLogRequest =
  | { event: 'eventlogs:query'; message: EventLogsQuery }
  | { event: 'eventlogs:tail'; message: EventLogsTail };

/** Messages with entries that are kept for a slow program; the largest query has half as many. */
const KEPT_MAX = 500_000;

/**
 * The entries as the devices send them, and at the end one outcome for each device. A program that stops reading, or
 * aborts, ends the query on the devices. A lost connection ends it too, with an error behind what has arrived.
 */
export async function* readEventLogs(
  hub: HubConnection,
  request: EventLogRequest,
  signal: AbortSignal | undefined,
): AsyncGenerator<EventLogItem, void> {
  signal?.throwIfAborted();
  const reading = new LogReading(hub, request);
  try {
    for await (const message of reading.messages.read(signal)) {
      if ('outcomes' in message) {
        for (const outcome of message.outcomes) yield { type: 'outcome', ...outcome };
      } else {
        const { deviceId, rows } = message;
        for (const entry of rows) {
          signal?.throwIfAborted();
          yield { type: 'entry', deviceId, entry };
        }
      }
    }
  } finally {
    reading.stop();
  }
}

class LogReading {
  readonly messages = new Channel<EventLogsRows | EventLogsEnd>(KEPT_MAX);
  readonly #hub: HubConnection;
  readonly #stops: (() => void)[];
  #queryId: string | undefined;
  /** Rows may come before the acknowledgement that names their query. */
  #early: (EventLogsRows | EventLogsEnd)[] = [];
  #hasEnded = false;
  #isStopped = false;

  constructor(hub: HubConnection, { event, message }: EventLogRequest) {
    this.#hub = hub;
    const take = (news: EventLogsRows | EventLogsEnd) => this.#take(news);
    const unfit = (news: unknown) => {
      if (mayConcern(news, 'queryId', this.#queryId)) this.messages.fail(notUnderstood(event));
    };
    this.#stops = [
      hub.on('eventlogs:rows', EventLogsRows, take, unfit),
      hub.on('eventlogs:end', EventLogsEnd, take, unfit),
      hub.onEnd((error) => this.messages.fail(error)),
      hub.onLoss(() =>
        this.messages.fail(ownError('DISCONNECTED', 'The connection was lost in the middle of the query.')),
      ),
    ];
    hub.ask(event, message, QueryStarted).then(
      ({ queryId }) => this.#started(queryId),
      (error: unknown) => this.messages.fail(error),
    );
  }

  /** Ends the query on the devices where it has not ended by itself. */
  stop(): void {
    this.#isStopped = true;
    for (const stop of this.#stops) stop();
    // Without an id yet, it is ended as soon as it has one.
    if (this.#queryId !== undefined) this.#cancel(this.#queryId);
  }

  #started(queryId: string): void {
    this.#queryId = queryId;
    if (this.#isStopped) this.#cancel(queryId);
    else for (const news of this.#early.splice(0)) this.#take(news);
  }

  #take(news: EventLogsRows | EventLogsEnd): void {
    if (this.#queryId === undefined) {
      if (this.#early.length < KEPT_MAX) this.#early.push(news);
    } else if (news.queryId === this.#queryId) {
      this.messages.push(news);
      if (!('outcomes' in news)) return;
      this.#hasEnded = true;
      this.messages.end();
    }
  }

  #cancel(queryId: string): void {
    if (!this.#hasEnded) this.#hub.send('eventlogs:cancel', { queryId });
  }
}
