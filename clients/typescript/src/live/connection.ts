import { io, type Socket } from 'socket.io-client';
import { z } from 'zod';
import {
  DASHBOARD_NAMESPACE,
  type DashboardToHub,
  ErrorAck,
  HUB_PATH,
  type HubToDashboard,
} from '../../../../src/protocol/index.ts';
import { MusterError, ownError } from '../error.ts';
import { originOf, type ServerOptions, tokenOf } from '../server-options.ts';

type Request = keyof DashboardToHub;
type Message<R extends Request> = Parameters<DashboardToHub[R]>[0];
type Stop = () => void;

export interface LiveOptions extends ServerOptions {
  /** How long the first connection may take. Default: 20 seconds. */
  connectMs?: number;
  /** Gives up the first connection. A connection that is there is ended by `close`. */
  signal?: AbortSignal | undefined;
}

const CONNECT_MS = 20_000;
/** Longer than the server lets a subscription take. */
const ACK_MS = 45_000;
const AGAIN_MIN_MS = 500;
const AGAIN_MAX_MS = 10_000;

const Refusal = z.object({
  data: z.object({ code: z.string(), retryAfterMs: z.number().nonnegative().optional() }),
});

/** The connection to the hub: it is made again after a loss, until the server refuses the token or `close` is called. */
export class HubConnection {
  readonly #socket: Socket;
  readonly #whenLive = new Set<() => void>();
  readonly #whenEnded = new Set<(error: MusterError) => void>();
  readonly #whenLost = new Set<() => void>();
  #ended: MusterError | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;
  /** Connections that the server has ended or put off since the last one that was of use. */
  #failures = 0;

  constructor({ server, token }: ServerOptions) {
    const socket = io(`${originOf(server)}${DASHBOARD_NAMESPACE}`, {
      path: HUB_PATH,
      transports: ['websocket'],
      forceNew: true,
      reconnectionDelayMax: AGAIN_MAX_MS,
      auth: (give) => {
        tokenOf(token).then(
          (value) => give({ token: value }),
          (error: unknown) => this.#end(ownError('CLOSED', 'There is no token for the server.', error)),
        );
      },
    });
    this.#socket = socket;
    socket.on('connect', () => {
      for (const callback of this.#whenLive) callback();
    });
    socket.on('disconnect', (reason) => {
      for (const callback of this.#whenLost) callback();
      // The hub ends connections whose token has expired or whose rights have changed; Socket.IO leaves those ended.
      if (reason === 'io server disconnect') this.#connectLater();
    });
    socket.on('connect_error', (error) => {
      const refusal = Refusal.safeParse(error);
      // Socket.IO tries again where the server was not reached.
      if (!refusal.success) return;
      const { code, retryAfterMs } = refusal.data.data;
      if (retryAfterMs === undefined) this.#end(new MusterError(0, { code, error: error.message }));
      else this.#connectLater(retryAfterMs);
    });
  }

  /** Resolves with the first connection. */
  async connected(connectMs = CONNECT_MS, signal?: AbortSignal): Promise<void> {
    let stop: Stop = () => undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        const unreachable = (cause?: unknown) =>
          reject(ownError('UNREACHABLE', 'The server could not be reached.', cause));
        const late = setTimeout(unreachable, connectMs);
        const abort = () => reject(signal?.reason as Error);
        const fail = (error: Error) => {
          if (!Refusal.safeParse(error).success) unreachable(error);
        };
        const stops = [this.onLive(resolve), this.onEnd(reject)];
        this.#socket.on('connect_error', fail);
        signal?.addEventListener('abort', abort);
        stop = () => {
          clearTimeout(late);
          for (const each of stops) each();
          this.#socket.off('connect_error', fail);
          signal?.removeEventListener('abort', abort);
        };
        if (signal?.aborted === true) abort();
      });
    } catch (error) {
      this.close();
      throw error;
    } finally {
      stop();
    }
  }

  /** Calls back at each new connection, and at once where there is one. */
  onLive(callback: () => void): Stop {
    this.#whenLive.add(callback);
    if (this.#socket.connected) callback();
    return () => this.#whenLive.delete(callback);
  }

  onLoss(callback: () => void): Stop {
    this.#whenLost.add(callback);
    return () => this.#whenLost.delete(callback);
  }

  /** Calls back when there will be no further connection. */
  onEnd(callback: (error: MusterError) => void): Stop {
    this.#whenEnded.add(callback);
    if (this.#ended !== undefined) callback(this.#ended);
    return () => this.#whenEnded.delete(callback);
  }

  /** Messages of one kind, each parsed. What does not fit is passed to `unfit` as it is. */
  on<S extends z.ZodType>(
    event: keyof HubToDashboard,
    schema: S,
    take: (message: z.output<S>) => void,
    unfit: (message: unknown) => void,
  ): Stop {
    const listener = (message: unknown) => {
      const parsed = schema.safeParse(message);
      if (parsed.success) take(parsed.data);
      else unfit(message);
    };
    this.#socket.on(event, listener);
    return () => void this.#socket.off(event, listener);
  }

  /** Sends a message and waits for its acknowledgement. */
  async ask<R extends Request, S extends z.ZodType>(
    request: R,
    message: Message<R>,
    answer: S,
  ): Promise<z.output<S>> {
    const socket = this.#socket;
    const { id } = socket;
    const disconnected = () => ownError('DISCONNECTED', 'The connection to the server is lost.');
    if (!socket.connected) throw this.#ended ?? disconnected();
    let given: unknown;
    try {
      given = await socket.timeout(ACK_MS).emitWithAck(request, message);
    } catch {
      if (this.#ended !== undefined) throw this.#ended;
      throw socket.id === id ? ownError('NO_ANSWER', 'The server has not answered in time.') : disconnected();
    }
    this.#failures = 0;
    const refused = ErrorAck.safeParse(given);
    if (refused.success) {
      const { message, ...facts } = refused.data.error;
      throw new MusterError(0, { ...facts, error: message });
    }
    const parsed = answer.safeParse(given);
    if (parsed.success) return parsed.data;
    throw notUnderstood(request);
  }

  /** Sends what ends something. Where it does not arrive, the connection is gone, and with it what was to be ended. */
  send<R extends Request>(request: R, message: Message<R>): void {
    if (this.#socket.connected) this.#socket.emit(request, message, () => undefined);
  }

  close(): void {
    this.#end(ownError('CLOSED', 'The connection was closed.'));
  }

  #end(error: MusterError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    clearTimeout(this.#again);
    // First, so that readings end by this error, and not by the loss of the connection.
    for (const callback of this.#whenEnded) callback(error);
    this.#socket.disconnect();
  }

  #connectLater(afterMs = 0): void {
    if (this.#ended !== undefined) return;
    const ownMs = Math.min(AGAIN_MIN_MS * 2 ** this.#failures++, AGAIN_MAX_MS) * (1 + Math.random());
    clearTimeout(this.#again);
    this.#again = setTimeout(() => this.#socket.connect(), Math.max(afterMs, ownMs));
  }
}

export const notUnderstood = (what: string): MusterError =>
  ownError(
    'UNEXPECTED_ANSWER',
    `What the server sends for ${what} is not understood. Is this client as new as the server?`,
  );

/** Whether a message that does not fit its schema may be meant for the one with this id. */
export function mayConcern(message: unknown, key: string, id: string | undefined): boolean {
  const named = z.record(z.string(), z.unknown()).safeParse(message).data?.[key];
  return typeof named !== 'string' || id === undefined || named === id;
}
