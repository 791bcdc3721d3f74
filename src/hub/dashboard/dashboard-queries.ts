import { setMaxListeners } from 'node:events';
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
} from '../../protocol/index.ts';
import { type Ask, inTimeToAsk, leftToAsk } from '../device/live-query.ts';
import { queryFleet, pageOfNewest, type AskDevice } from './fleet-query.ts';
import type { HeldPlaces } from './dashboard-limits.ts';
import type { DeviceStore, LogRead, LogReads } from '../ports.ts';

const MAX_QUERIES = 8;

/** What a connection of a person has to offer for streamed answers. */
export interface QueryClient {
  /** Where the connection comes from. */
  client(): ClientInfo;
  rows(message: EventLogsRows): void;
  end(message: EventLogsEnd): void;
  /** Resolves when it has taken most of what it was sent. */
  ready(): Promise<void>;
  /** Whether it takes nothing any more. */
  isStuck(): boolean;
}

type Message<E extends keyof typeof DASHBOARD_EVENTS> = z.output<(typeof DASHBOARD_EVENTS)[E]>;

interface Parts {
  store: DeviceStore;
  ask: Ask;
  logReads: LogReads | undefined;
  log: Logger;
  places: { queries: HeldPlaces };
}

interface OpenQuery {
  controller: AbortController;
  /** The devices that were asked; empty until it is known which may be. */
  asked: readonly string[];
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
    const arrivedAt = performance.now();
    let timeoutMs: number | undefined;
    return this.#start(read, filterId ?? [...new Set(deviceIds)], (deviceId, onRows, signal) =>
      this.#parts.ask(deviceId, {
        type: 'eventlogs.query',
        payload,
        // What was waited for before the first device was asked counts; where many are asked, each has its own turn.
        timeoutMs: (timeoutMs ??= leftToAsk(arrivedAt)),
        maxRows: message.limit,
        onRows,
        signal,
      }),
    );
  }

  async tail(caller: Caller, { deviceId, ...payload }: Message<'eventlogs:tail'>): Promise<QueryStarted> {
    return this.#start({ caller, how: 'tail', conditions: payload }, [deviceId], (id, onRows, signal) =>
      this.#parts.ask(id, { type: 'eventlogs.tail', payload, onRows, signal }),
    );
  }

  cancel(queryId: string): void {
    this.#open.get(queryId)?.controller.abort();
  }

  /** Cancels what asks a device that may not be asked any more. */
  async recheck(caller: Caller): Promise<void> {
    const open = [...this.#open.values()];
    const asked = new Set(open.flatMap((query) => query.asked));
    if (asked.size === 0) return;
    const askable = await this.#parts.store.askable(caller, [...asked]);
    for (const query of open) {
      const isRefused = (id: string) => !askable.has(id) || askable.get(id)?.refusal !== undefined;
      if (query.asked.some(isRefused)) query.controller.abort();
    }
  }

  close(): void {
    for (const { controller } of this.#open.values()) controller.abort();
  }

  /** @param devices  their ids, or the saved filter that finds them */
  async #start(
    read: Pick<LogRead, 'caller' | 'how' | 'conditions'>,
    devices: readonly string[] | string,
    ask: AskDevice,
  ): Promise<QueryStarted> {
    const { caller } = read;
    if (this.#open.size >= MAX_QUERIES) {
      throw new AppError('rate_limited', `At most ${MAX_QUERIES} live queries a connection.`);
    }
    const giveBack = this.#parts.places.queries.take(caller.userId);
    const queryId = newId();
    const controller = new AbortController();
    // Every device that is asked listens to it.
    setMaxListeners(0, controller.signal);
    const query: OpenQuery = { controller, asked: [] };
    this.#open.set(queryId, query);
    const onOver = () => {
      giveBack();
      this.#open.delete(queryId);
    };
    try {
      const { store, logReads } = this.#parts;
      const arrivedAt = performance.now();
      const deviceIds =
        typeof devices === 'string'
          ? await inTimeToAsk(arrivedAt, store.found(caller, devices, QUERY_MAX_DEVICES))
          : devices;
      const askable = await inTimeToAsk(arrivedAt, store.askable(caller, deviceIds));
      const refusals = new Map<string, string>();
      for (const deviceId of deviceIds) {
        const refusal = askable.has(deviceId) ? askable.get(deviceId)?.refusal : 'Device not found';
        if (refusal !== undefined) refusals.set(deviceId, refusal);
      }
      query.asked = deviceIds.filter((id) => !refusals.has(id));
      if (logReads !== undefined && query.asked.length > 0) {
        const client = this.#client.client();
        logReads.record({ ...read, client, deviceIds: query.asked });
      }
      // Behind the answer that tells the client the id.
      setImmediate(() => this.#run(queryId, deviceIds, refusals, ask, controller, onOver));
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
    ask: AskDevice,
    controller: AbortController,
    onOver: () => void,
  ): void {
    const onRows: Parameters<typeof queryFleet>[0]['onRows'] = (deviceId, rows) => {
      if (controller.signal.aborted) return;
      // What it does not take would wait here in memory.
      if (this.#client.isStuck()) controller.abort();
      else this.#client.rows({ queryId, deviceId, rows });
    };
    const ready = () => this.#client.ready();
    queryFleet({ deviceIds, refusals, ready, ask, onRows, signal: controller.signal })
      .then((outcomes) => this.#client.end({ queryId, outcomes }))
      .catch((error: unknown) => this.#parts.log.error({ err: error, queryId }, 'hub.fleet_query_failed'))
      .finally(onOver);
  }
}
