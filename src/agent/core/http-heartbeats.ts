import { clock, type Timer } from '../../clock.ts';
import { type Heartbeat, HeartbeatAck } from '../../protocol/index.ts';
import type { Tokens } from './tokens.ts';
import {
  heartbeatDelay,
  reconnectDelay,
  refusedDelay,
  requestedDelay,
  type ServerAnswer,
  ServerCallError,
  uploadVerdict,
} from './server-call.ts';
import type { ServerClock } from './server-clock.ts';

export interface HttpHeartbeatsOptions {
  /** Throws `ServerCallError` if the server cannot be reached. */
  send: (token: string, heartbeat: Heartbeat, signal: AbortSignal) => Promise<ServerAnswer>;
  tokens: Tokens;
  serverClock: ServerClock;
  heartbeat: () => Promise<Heartbeat>;
  /** Returns when the next heartbeat is due. */
  onHeartbeatAck: (answer: HeartbeatAck) => number;
  /** Called when `delivered` or `refusal` has changed. */
  onChange: () => void;
  random: () => number;
  /** How long the socket must fail before the first heartbeat over HTTP, on average. */
  afterMs: number;
}

/** A single failure can be harmless, such as a restart of the server. */
const FAILURES_BEFORE = 2;
/** Failed heartbeats wait about a minute from the beginning, because the socket is being tried as well. */
const SLOW = 5;

/**
 * Sends heartbeats over HTTP while the socket cannot be opened, as in networks with proxies that block websockets. It
 * sends none while a socket is open.
 */
export class HttpHeartbeats {
  readonly #options: HttpHeartbeatsOptions;
  #socketFailures = 0;
  /** In monotonic time; `undefined` until the socket has failed often enough. */
  #dueAt: number | undefined;
  #timer: Timer | undefined;
  #sending: AbortController | undefined;
  #failures = 0;
  #delivered: { since: string; lastHeartbeatAt: string } | undefined;
  #refusal: string | undefined;
  #stopped = false;

  constructor(options: HttpHeartbeatsOptions) {
    this.#options = options;
  }

  /** Set while heartbeats arrive over HTTP. */
  get delivered(): { since: string; lastHeartbeatAt: string } | undefined {
    return this.#delivered;
  }

  /** Why the server did not accept the last heartbeat. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  /**
   * Must be called when the socket could not be opened, or was lost before a heartbeat was acknowledged, and the hub
   * has not answered. `waitMs`: how long a proxy on the way has asked the agent to wait.
   */
  socketFailed(waitMs = 0): void {
    if (this.#stopped) return;
    this.#socketFailures += 1;
    const { afterMs, random } = this.#options;
    if (this.#socketFailures < FAILURES_BEFORE) return;
    this.#dueAt ??= clock.monotonic() + afterMs * (0.5 + random());
    if (waitMs > 0) this.#dueAt = Math.max(this.#dueAt, clock.monotonic() + requestedDelay(waitMs, random));
    this.#schedule();
  }

  /** Must be called when a socket is open: it may be cut again at once, so the current state is kept. */
  socketOpened(): void {
    clock.clear(this.#timer);
    this.#sending?.abort();
    this.#sending = undefined;
  }

  /** Must be called when the hub has answered on the socket, which proves that the socket is not blocked. */
  socketWorks(): void {
    this.socketOpened();
    this.#socketFailures = 0;
    this.#dueAt = undefined;
    this.#failures = 0;
    this.#delivered = undefined;
    this.#refusal = undefined;
  }

  stop(): void {
    this.#stopped = true;
    this.socketWorks();
  }

  #schedule(): void {
    if (this.#dueAt === undefined || this.#sending !== undefined) return;
    clock.clear(this.#timer);
    this.#timer = clock.setTimeout(
      () => {
        const sending = new AbortController();
        this.#sending = sending;
        // If a heartbeat cannot be built, for example without access to the disk, that counts as a failure.
        this.#send(sending.signal)
          .catch(() => this.#failed(undefined))
          .then(
            (nextInMs) => {
              if (this.#sending !== sending) return;
              this.#sending = undefined;
              this.#dueAt = clock.monotonic() + nextInMs;
              this.#schedule();
              this.#options.onChange();
            },
            () => {},
          );
      },
      Math.max(0, this.#dueAt - clock.monotonic()),
    );
  }

  /** Returns when the next heartbeat is due. */
  async #send(signal: AbortSignal): Promise<number> {
    const { send, tokens, serverClock, heartbeat, onHeartbeatAck, random } = this.#options;
    const token = await tokens.current();
    const message = await heartbeat();
    const setClock = serverClock.startReading();
    let answer: ServerAnswer;
    try {
      answer = await send(token, message, signal);
    } catch (error) {
      if (!(error instanceof ServerCallError)) throw error;
      if (signal.aborted) return 0;
      return this.#failed(undefined);
    }
    if (signal.aborted) return 0;
    const verdict = uploadVerdict(answer, this.#failures + SLOW, random);
    const refusal = `The server refused a heartbeat over HTTP: ${answer.refusal ?? `status ${answer.status}`}`;
    switch (verdict.do) {
      case 'done': {
        const ack = HeartbeatAck.safeParse(answer.body);
        // Another server on the way has answered, such as the sign-in page of a network.
        if (!ack.success) return this.#failed(undefined);
        void tokens.accepted(token);
        setClock(ack.data.at);
        this.#failures = 0;
        this.#refusal = undefined;
        const lastHeartbeatAt = serverClock.timestamp();
        this.#delivered = { since: this.#delivered?.since ?? lastHeartbeatAt, lastHeartbeatAt };
        return heartbeatDelay(onHeartbeatAck(ack.data), random);
      }
      case 'other-token':
        return this.#failed(
          refusal,
          tokens.refused(token) ? reconnectDelay(1, random) : refusedDelay(this.#failures, random),
        );
      case 'wait':
        return this.#failed(refusal, verdict.ms);
      default:
        return this.#failed(refusal, refusedDelay(this.#failures, random));
    }
  }

  #failed(
    refusal: string | undefined,
    waitMs = reconnectDelay(this.#failures + SLOW, this.#options.random),
  ): number {
    this.#failures += 1;
    this.#delivered = undefined;
    this.#refusal = refusal;
    return waitMs;
  }
}
