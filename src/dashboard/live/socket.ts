import { useEffect, useSyncExternalStore } from 'react';
import type { Socket } from 'socket.io-client';
import { z } from 'zod';
import {
  DASHBOARD_NAMESPACE,
  ErrorAck,
  HUB_PATH,
  HubState,
  type DashboardToHub,
  type HubToDashboard,
} from '../../protocol/index.ts';
import { accessToken, renewToken } from '../api/index.ts';

/**
 * The one connection of this page to the hub. Its state is shown to the person as it is: live, or since when the data on
 * the screen is no longer kept up to date.
 */
export type ConnectionState =
  /** `isWhole`: false while the server does not reach other servers, so that what it knows of their devices grows old. */
  | { state: 'live'; isWhole: boolean }
  /** `since`: when the connection was lost; absent before the first one. */
  | { state: 'connecting'; since: number | undefined }
  | { state: 'stopped' };

type HubSocket = Socket<HubToDashboard, DashboardToHub>;
type Event = keyof DashboardToHub;
type Message<E extends Event> = Parameters<DashboardToHub[E]>[0];

interface UntypedSocket {
  emitWithAck(event: string, message: unknown): Promise<unknown>;
}

const ACK_TIMEOUT_MS = 15_000;
const RECONNECT_MAX_MS = 10_000;

/** A refusal of the hub. */
export class HubError extends Error {
  readonly code: string;
  /** After which time the same message may succeed; absent if it would be refused again. */
  readonly retryAfterMs: number | undefined;

  constructor(code: string, message: string, retryAfterMs?: number) {
    super(message);
    this.name = 'HubError';
    this.code = code;
    this.retryAfterMs = retryAfterMs;
  }
}

const Refusal = z.object({
  data: z.object({ code: z.string(), retryAfterMs: z.number().nonnegative().optional() }),
});
/** If the hub names no time. */
const RETRY_MS = 5_000;

/** A page can be shown before the live part is there. */
export const loadSocket = () => import('socket.io-client');

/** Tries again while the server is away, as long as the connection is wanted. */
async function untilLoaded(isWanted: () => boolean) {
  while (isWanted()) {
    const library = await loadSocket().catch(() => undefined);
    if (library !== undefined) return isWanted() ? library : undefined;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
  return undefined;
}

class HubConnection {
  #socket: HubSocket | undefined;
  #state: ConnectionState = { state: 'stopped' };
  #start = 0;
  readonly #watchers = new Set<() => void>();
  readonly #whenLive = new Set<() => void>();
  readonly #events = new EventTarget();

  get state(): ConnectionState {
    return this.#state;
  }

  watch = (callback: () => void): (() => void) => {
    this.#watchers.add(callback);
    return () => this.#watchers.delete(callback);
  };

  /** Calls back at each new connection, and at once if there is one. */
  onLive(callback: () => void): () => void {
    this.#whenLive.add(callback);
    if (this.#state.state === 'live') callback();
    return () => this.#whenLive.delete(callback);
  }

  /** Resolves as soon as there is a connection, and at the latest after the given time. */
  async untilLive(withinMs: number): Promise<void> {
    let stop: () => void = () => undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    await new Promise<void>((resolve) => {
      timer = setTimeout(resolve, withinMs);
      stop = this.onLive(resolve);
    });
    stop();
    clearTimeout(timer);
  }

  async start(): Promise<void> {
    const start = ++this.#start;
    this.#become({ state: 'connecting', since: undefined });
    const library = await untilLoaded(() => start === this.#start);
    if (library === undefined) return;
    const socket: HubSocket = library.io(DASHBOARD_NAMESPACE, {
      path: HUB_PATH,
      transports: ['websocket'],
      reconnectionDelayMax: RECONNECT_MAX_MS,
      auth: (give) => {
        void accessToken().then(
          (token) => give({ token: token ?? '' }),
          () => give({ token: '' }),
        );
      },
    });
    this.#socket = socket;
    socket.on('connect', () => {
      this.#become({ state: 'live', isWhole: true });
      for (const callback of this.#whenLive) callback();
    });
    socket.on('hub:state', (message) => {
      const parsed = HubState.safeParse(message);
      if (parsed.success) this.#become({ state: 'live', isWhole: parsed.data.isWhole });
    });
    socket.on('disconnect', (reason) => {
      this.#become({ state: 'connecting', since: Date.now() });
      // The hub ends connections whose token has expired or whose rights have changed; Socket.IO leaves those ended.
      if (reason === 'io server disconnect') void this.#connectAgain(socket, 500, true);
    });
    socket.on('connect_error', (error) => {
      const refusal = Refusal.safeParse(error);
      if (!refusal.success) return;
      const { code, retryAfterMs = RETRY_MS } = refusal.data.data;
      void this.#connectAgain(socket, retryAfterMs, code === 'UNAUTHENTICATED');
    });
    socket.onAny((event: string, message: unknown) => {
      this.#events.dispatchEvent(new CustomEvent(event, { detail: message }));
    });
  }

  stop(): void {
    this.#start++;
    this.#socket?.disconnect();
    this.#socket = undefined;
    this.#become({ state: 'stopped' });
  }

  /** Messages of the hub that fit the schema; others are dropped. */
  on<S extends z.ZodType>(
    event: keyof HubToDashboard,
    schema: S,
    callback: (message: z.output<S>) => void,
  ): () => void {
    const listener = (raised: globalThis.Event) => {
      const parsed = schema.safeParse(raised instanceof CustomEvent ? raised.detail : undefined);
      if (parsed.success) callback(parsed.data);
    };
    this.#events.addEventListener(event, listener);
    return () => this.#events.removeEventListener(event, listener);
  }

  /** Sends a message and waits for its acknowledgement. Throws a `HubError` if it is refused or does not come. */
  async ask<E extends Event, S extends z.ZodType>(
    event: E,
    message: Message<E>,
    answer: S,
  ): Promise<z.output<S>> {
    const socket = this.#socket;
    if (socket?.connected !== true) {
      throw new HubError('NOT_CONNECTED', 'There is no connection to the server.');
    }
    // Socket.IO cannot infer that each event of the map has exactly one message and one acknowledgement.
    const untyped = socket.timeout(ACK_TIMEOUT_MS) as unknown as UntypedSocket;
    const answered = await untyped.emitWithAck(event, message).catch(() => undefined);
    const refused = ErrorAck.safeParse(answered);
    if (refused.success) {
      const { code, message: why, retryAfterMs } = refused.data.error;
      throw new HubError(code, why, retryAfterMs);
    }
    const parsed = answer.safeParse(answered);
    if (parsed.success) return parsed.data;
    throw new HubError('NO_ANSWER', 'The server did not answer in time.', RETRY_MS);
  }

  /**
   * @param needsToken  the hub has refused or ended the token at hand. A token is renewed for no other reason, so that a busy
   * server is not asked for one by every page that waits.
   */
  async #connectAgain(socket: HubSocket, afterMs: number, needsToken: boolean): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    if (this.#socket !== socket) return;
    const token = needsToken ? await renewToken().catch(() => '') : '';
    if (token === undefined) this.stop();
    else if (this.#socket === socket && !socket.connected) socket.connect();
  }

  #become(state: ConnectionState): void {
    // How long the data has been old counts from the first loss.
    if (state.state === 'connecting' && this.#state.state === 'connecting') return;
    this.#state = state;
    for (const callback of this.#watchers) callback();
  }
}

export const hub = new HubConnection();

/** The state of the connection, for the pill in the header and for pages that show how old their data is. */
export function useConnection(): ConnectionState {
  return useSyncExternalStore(hub.watch, () => hub.state);
}

/** Fetches the live part while the session is still being opened. */
export function useHubSoon(): void {
  useEffect(() => {
    // If this fails, the connection tries again.
    loadSocket().catch(() => undefined);
  }, []);
}

/** Keeps the connection open while the frame of the signed-in person is shown. */
export function useHubConnection(): void {
  useEffect(() => {
    void hub.start();
    return () => hub.stop();
  }, []);
}

/**
 * Calls back when a connection that was lost is there again.
 * @param onReturn  the same function at each rendering
 */
export function useReturnOfConnection(onReturn: () => void): void {
  useEffect(() => {
    let isLost = false;
    return hub.watch(() => {
      const { state } = hub;
      if (state.state === 'connecting' && state.since !== undefined) isLost = true;
      if (state.state !== 'live' || !isLost) return;
      isLost = false;
      onReturn();
    });
  }, [onReturn]);
}
