import { setMaxListeners } from 'node:events';
import { clock } from '../../clock.ts';
import type { Caller, ClientInfo } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Logger } from '../../platform/logger.ts';
import type { z } from 'zod';
import {
  type DASHBOARD_EVENTS,
  type EventLogsEnd,
  type EventLogsRows,
  QUERY_MAX_DEVICES,
  type QueryStarted,
  type EventLogsQuery,
  type LogEntry,
  type QueryOutcome,
} from '../../protocol/index.ts';
import {
  type RunLiveQuery,
  withinQueryTimeout,
  remainingQueryMs,
  liveQueryError,
  type LiveQueryOutcome,
} from '../device/live-query.ts';
import type { Quota } from './dashboard-limits.ts';
import type { DeviceStore, LogRead, LogReads } from '../ports.ts';

const MAX_QUERIES = 8;

/** The connection of a client, as its live queries use it. */
export interface QueryClient {
  /** The origin of the connection, for the audit trail. */
  client(): ClientInfo;
  rows(message: EventLogsRows): void;
  end(message: EventLogsEnd): void;
  /** Resolves when the client has taken most of what it was sent. */
  ready(): Promise<void>;
  /** Whether the client has stopped reading. */
  isStuck(): boolean;
}

type Message<E extends keyof typeof DASHBOARD_EVENTS> = z.output<(typeof DASHBOARD_EVENTS)[E]>;

interface Parts {
  store: DeviceStore;
  query: RunLiveQuery;
  logReads: LogReads | undefined;
  log: Logger;
  quotas: { queries: Quota };
}

interface OpenQuery {
  controller: AbortController;
  /** The devices that are queried. Empty until it is known which ones the caller may query. */
  deviceIds: readonly string[];
}

/** The live queries of one dashboard connection. They end with it. */
export class DashboardQueries {
  readonly #open = new Map<string, OpenQuery>();
  readonly #client: QueryClient;
  readonly #parts: Parts;

  constructor(client: QueryClient, parts: Parts) {
    this.#client = client;
    this.#parts = parts;
  }

  async query(caller: Caller, message: Message<'eventlogs:query'>): Promise<QueryStarted> {
    const payload = pageOfNewest(message);
    const { filterId, deviceIds = [] } = message;
    const { page: _page, ...conditions } = payload;
    const read = { caller, how: 'live', conditions } as const;
    const arrivedAt = clock.monotonic();
    let timeoutMs: number | undefined;
    return this.#start(read, filterId ?? [...new Set(deviceIds)], (deviceId, onRows, signal) =>
      this.#parts.query(deviceId, {
        type: 'eventlogs.query',
        payload,
        // The wait before the first device counts. Each device has this limit for itself, because they are queried in turn.
        timeoutMs: (timeoutMs ??= remainingQueryMs(arrivedAt)),
        maxRows: message.limit,
        onRows,
        signal,
      }),
    );
  }

  async tail(caller: Caller, { deviceId, ...payload }: Message<'eventlogs:tail'>): Promise<QueryStarted> {
    return this.#start({ caller, how: 'tail', conditions: payload }, [deviceId], (id, onRows, signal) =>
      this.#parts.query(id, { type: 'eventlogs.tail', payload, onRows, signal }),
    );
  }

  cancel(queryId: string): void {
    this.#open.get(queryId)?.controller.abort();
  }

  /** Cancels queries to devices that the caller may no longer query. */
  async recheck(caller: Caller): Promise<void> {
    const open = [...this.#open.values()];
    const queried = new Set(open.flatMap(({ deviceIds }) => deviceIds));
    if (queried.size === 0) return;
    const askable = await this.#parts.store.askable(caller, [...queried]);
    for (const query of open) {
      const isRefused = (id: string) => !askable.has(id) || askable.get(id)?.refusal !== undefined;
      if (query.deviceIds.some(isRefused)) query.controller.abort();
    }
  }

  close(): void {
    for (const { controller } of this.#open.values()) controller.abort();
  }

  /** @param devices  the ids of devices, or the id of a saved filter */
  async #start(
    read: Pick<LogRead, 'caller' | 'how' | 'conditions'>,
    devices: readonly string[] | string,
    queryDevice: QueryDevice,
  ): Promise<QueryStarted> {
    const { caller } = read;
    if (this.#open.size >= MAX_QUERIES) {
      throw new AppError('rate_limited', `A connection may have at most ${MAX_QUERIES} live queries.`);
    }
    const release = this.#parts.quotas.queries.acquire(caller.userId);
    const queryId = newId();
    const controller = new AbortController();
    // Every queried device adds a listener.
    setMaxListeners(0, controller.signal);
    const query: OpenQuery = { controller, deviceIds: [] };
    this.#open.set(queryId, query);
    const onOver = () => {
      release();
      this.#open.delete(queryId);
    };
    try {
      const { store, logReads } = this.#parts;
      const arrivedAt = clock.monotonic();
      const deviceIds =
        typeof devices === 'string'
          ? await withinQueryTimeout(arrivedAt, store.found(caller, devices, QUERY_MAX_DEVICES))
          : devices;
      const askable = await withinQueryTimeout(arrivedAt, store.askable(caller, deviceIds));
      const refusals = new Map<string, string>();
      for (const deviceId of deviceIds) {
        const refusal = askable.has(deviceId) ? askable.get(deviceId)?.refusal : 'Device not found';
        if (refusal !== undefined) refusals.set(deviceId, refusal);
      }
      query.deviceIds = deviceIds.filter((id) => !refusals.has(id));
      if (logReads !== undefined && query.deviceIds.length > 0) {
        const client = this.#client.client();
        logReads.record({ ...read, client, deviceIds: query.deviceIds });
      }
      // The answer with the id of the query goes first.
      setImmediate(() => this.#run(queryId, deviceIds, refusals, queryDevice, controller, onOver));
      return { ok: true, queryId };
    } catch (error) {
      onOver();
      throw error;
    }
  }

  #run(
    queryId: string,
    deviceIds: readonly string[],
    refusals: ReadonlyMap<string, string>,
    queryDevice: QueryDevice,
    controller: AbortController,
    onOver: () => void,
  ): void {
    const onRows: Parameters<typeof queryFleet>[0]['onRows'] = (deviceId, rows) => {
      if (controller.signal.aborted) return;
      // Rows that the client does not take would wait here in memory.
      if (this.#client.isStuck()) controller.abort();
      else this.#client.rows({ queryId, deviceId, rows });
    };
    const ready = () => this.#client.ready();
    queryFleet({ deviceIds, refusals, ready, queryDevice, onRows, signal: controller.signal })
      .then((outcomes) => this.#client.end({ queryId, outcomes }))
      .catch((error: unknown) => this.#parts.log.error({ err: error, queryId }, 'hub.fleet_query_failed'))
      .finally(onOver);
  }
}

const DEVICES_AT_ONCE = 64;

/** Queries one device. Never rejects. */
type QueryDevice = (
  deviceId: string,
  onRows: (rows: LogEntry[]) => void,
  signal: AbortSignal,
) => Promise<LiveQueryOutcome<'eventlogs.query' | 'eventlogs.tail'>>;

/** Runs one live query on many devices, several at a time. Each device has an outcome of its own. */
export async function queryFleet(parts: {
  deviceIds: readonly string[];
  /** Why the caller may not query certain devices, by device. */
  refusals: ReadonlyMap<string, string>;
  /** Awaited before each device, because the client may be slow to take the rows. */
  ready: () => Promise<void>;
  queryDevice: QueryDevice;
  onRows: (deviceId: string, rows: LogEntry[]) => void;
  signal: AbortSignal;
}): Promise<QueryOutcome[]> {
  const { deviceIds, refusals, ready, queryDevice, onRows, signal } = parts;
  const outcomes = new Map<string, QueryOutcome>();
  const waiting = deviceIds.values();
  const worker = async () => {
    for (const deviceId of waiting) {
      const refusal = refusals.get(deviceId);
      let rows = 0;
      const end = (outcome: QueryOutcome['outcome'], details: Partial<QueryOutcome> = {}) =>
        outcomes.set(deviceId, { ...details, deviceId, outcome, rows });
      await ready();
      if (refusal !== undefined) end('error', { message: refusal });
      else if (signal.aborted) end('cancelled');
      else {
        const answer = await queryDevice(
          deviceId,
          (batch) => {
            rows += batch.length;
            onRows(deviceId, batch);
          },
          signal,
        );
        const { outcome, ...details } = describe(answer, rows);
        end(outcome, details);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(DEVICES_AT_ONCE, deviceIds.length) }, worker));
  return deviceIds.map((id) => outcomes.get(id)).filter((outcome) => outcome !== undefined);
}

function describe(
  answer: LiveQueryOutcome<'eventlogs.query' | 'eventlogs.tail'>,
  rows: number,
): Omit<QueryOutcome, 'deviceId' | 'rows'> {
  if (answer.ok) return { ...answer.output, outcome: rows > 0 ? 'answered' : 'no_match' };
  switch (answer.reason) {
    case 'offline':
      return { outcome: 'offline' };
    case 'timeout':
      return { outcome: 'timed_out' };
    case 'cancelled':
      return { outcome: 'cancelled' };
    case 'agent':
      return { outcome: 'error', message: answer.message };
    default:
      return { outcome: 'error', message: liveQueryError(answer).message };
  }
}

/** The payload for one page of the newest entries of a device. */
function pageOfNewest({
  deviceIds: _deviceIds,
  filterId: _filterId,
  ...payload
}: z.output<typeof EventLogsQuery>) {
  return { ...payload, page: 1 };
}
