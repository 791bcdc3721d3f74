import { clock, type Timer } from '../../clock.ts';
import { framed, MESSAGE, textFrame } from './frame-fast-path.ts';

/** `[event, …arguments]` as JSON, in two parts. The end may be the same for many clients and is encoded once for them. */
export interface EventJson {
  start: string;
  end: { text: string; bytes: Buffer };
}

/** How much of what it was sent a client has received. */
export interface FlowControl {
  /** Whether everything was handed to the network: nothing waits in this process. */
  readonly isReady: boolean;
  /** For how many ms data has waited of which the client has taken nothing. */
  readonly stalledMs: number;
  /** Calls once when the client is ready, never synchronously. */
  whenReady(go: () => void): void;
  /** Ends the connection. The client may reconnect and start again. */
  cutOff(): void;
}

/** The parts of a socket of Socket.IO, and of Engine.IO below it, that are used here. */
interface SocketOfIo {
  readonly nsp: { readonly name: string };
  readonly conn: {
    readonly readyState: string;
    readonly transport: {
      readonly writable: boolean;
      on(event: 'ready', listener: () => void): unknown;
      off(event: 'ready', listener: () => void): unknown;
    };
    write(text: string, options: { compress: boolean }): unknown;
    close(discard: boolean): unknown;
  };
}

/** A client that takes nothing for this long is gone or does not read. */
const PATIENCE_MS = 20_000;

/**
 * Sends a client the next message when the network has taken the one before. Socket.IO by itself keeps everything that a
 * client does not read, without a limit (docs/decisions/slow-dashboards.md). Here the sender waits and can merge what it
 * has to send until then. A client that takes nothing for 20 seconds is disconnected.
 */
export class FlowControlledClient implements FlowControl {
  readonly #conn: SocketOfIo['conn'];
  readonly #namespace: string;
  readonly #onCutOff: () => void;
  readonly #patienceMs: number;
  #waiting: (() => void)[] = [];
  #busySince: number | undefined;
  #timer: Timer | undefined;

  constructor(
    socket: SocketOfIo,
    { onCutOff, patienceMs = PATIENCE_MS }: { onCutOff: () => void; patienceMs?: number | undefined },
  ) {
    this.#conn = socket.conn;
    this.#namespace = socket.nsp.name;
    this.#onCutOff = onCutOff;
    this.#patienceMs = patienceMs;
    // Engine.IO's own listener runs first and may already have sent more.
    this.#conn.transport.on('ready', this.#onTaken);
  }

  get isReady(): boolean {
    // Engine.IO sends at once what it can, so this is false while something waits in it.
    return this.#conn.transport.writable;
  }

  get stalledMs(): number {
    return this.#busySince === undefined ? 0 : clock.monotonic() - this.#busySince;
  }

  /** Does the same as `socket.emit(event, …)` with JSON that is already serialized. */
  emitJson({ start, end }: EventJson): void {
    // A packet of Socket.IO: an event (2) of a namespace. The frame contains it unchanged.
    const packet = `2${this.#namespace},${start}`;
    const head = textFrame(`${MESSAGE}${packet}`, end.bytes.length);
    this.#conn.write(`${packet}${end.text}`, framed([head, end.bytes]));
  }

  whenReady(go: () => void): void {
    this.#waiting.push(go);
    if (this.isReady) {
      setImmediate(() => this.#callWaiting());
      return;
    }
    this.#startPatience();
  }

  cutOff(): void {
    if (this.#conn.readyState !== 'open') return;
    this.#onCutOff();
    this.close();
    // `true` discards the unsent data instead of waiting for it.
    this.#conn.close(true);
  }

  /** The connection has ended: no waiting function is called any more. */
  close(): void {
    clock.clear(this.#timer);
    this.#waiting = [];
    this.#conn.transport.off('ready', this.#onTaken);
  }

  readonly #onTaken = (): void => {
    clock.clear(this.#timer);
    this.#timer = undefined;
    this.#busySince = undefined;
    if (this.#waiting.length === 0) return;
    if (this.isReady) this.#callWaiting();
    else this.#startPatience();
  };

  /** Starts the time within which the client has to take something. */
  #startPatience(): void {
    this.#busySince ??= clock.monotonic();
    this.#timer ??= clock.setTimeout(() => this.cutOff(), this.#patienceMs);
  }

  /** A function may fill the connection again. Those after it wait for the next time. */
  #callWaiting(): void {
    while (this.isReady) {
      const go = this.#waiting.shift();
      if (go === undefined) return;
      go();
    }
    if (this.#waiting.length > 0) this.#startPatience();
  }
}
