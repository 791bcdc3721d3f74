import {
  EventLogsEnd,
  EventLogsRows,
  QueryStarted,
  OkAck,
  type EventLogsQuery,
  type EventLogsTail,
  type LogEntry,
  type QueryOutcome,
} from '../../protocol/index.ts';
import { hub } from './socket.ts';

/** A page that has just been opened asks before the connection is there. */
const CONNECT_MS = 10_000;

export interface LogListeners {
  rows(deviceId: string, rows: readonly LogEntry[]): void;
  /** The outcome for each device, at the end of a query or a tail. */
  end(outcomes: readonly QueryOutcome[]): void;
}

/**
 * Starts a live query, or follows a log if the message is a tail's. Rows arrive as the devices send them.
 * @returns a function that cancels the query. What has arrived stays, and `end` is called.
 * @throws {HubError} if the hub refuses the query.
 */
export async function queryEventLogs(
  query: { kind: 'query'; message: EventLogsQuery } | { kind: 'tail'; message: EventLogsTail },
  listeners: LogListeners,
): Promise<() => void> {
  let queryId: string | undefined;
  // Rows may arrive before the acknowledgement that names their query.
  const early: (() => void)[] = [];
  const mine = (id: string, act: () => void) => {
    if (queryId === undefined) early.push(() => id === queryId && act());
    else if (id === queryId) act();
  };
  const stops = [
    hub.on('eventlogs:rows', EventLogsRows, (message) =>
      mine(message.queryId, () => listeners.rows(message.deviceId, message.rows)),
    ),
    hub.on('eventlogs:end', EventLogsEnd, (message) =>
      mine(message.queryId, () => {
        finish();
        listeners.end(message.outcomes);
      }),
    ),
  ];
  const lost = hub.watch(() => {
    if (hub.state.state === 'live' || queryId === undefined) return;
    finish();
    listeners.end([]);
  });
  const finish = () => {
    for (const stop of stops) stop();
    lost();
  };
  try {
    await hub.untilLive(CONNECT_MS);
    const started =
      query.kind === 'query'
        ? await hub.ask('eventlogs:query', query.message, QueryStarted)
        : await hub.ask('eventlogs:tail', query.message, QueryStarted);
    queryId = started.queryId;
  } catch (error) {
    finish();
    throw error;
  }
  for (const act of early) act();
  const id = queryId;
  return () => void hub.ask('eventlogs:cancel', { queryId: id }, OkAck).catch(() => undefined);
}
