import { framed, MESSAGE, textFrame } from './text-frame.ts';

/** `[event, …arguments]` as JSON, of which the end may be the same for many, and is encoded once for them. */
export interface EventJson {
  start: string;
  end: { text: string; bytes: Buffer };
}

/** How far a client is with what it was sent. */
export interface Pace {
  /** Whether it has taken all it was sent: nothing of it lies in this process any more. */
  readonly isReady: boolean;
  /** For how many ms something has waited for it, of which it has taken nothing. */
  readonly stalledMs: number;
  /** Calls once when it is ready; on another turn, also where it is ready now. */
  whenReady(go: () => void): void;
  /** Ends the connection; whoever it is may come back and begin anew. */
  cutOff(): void;
}

/** What is needed of a socket of Socket.IO, and of Engine.IO below it. */
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

/** Who takes nothing for so long is not there any more, or does not read. */
const PATIENCE_MS = 20_000;

/**
 * A client is sent the next message when the network has taken the one before. Socket.IO by itself keeps whatever a
 * client does not read, without a bound (docs/decisions/slow-dashboards.md); here the sender is told to wait, and can
 * put together what is to be sent until then. A client that takes nothing for 20 seconds is cut off.
 */
export class PacedClient implements Pace {
  readonly #conn: SocketOfIo['conn'];
  readonly #namespace: string;
  readonly #onCutOff: () => void;
  readonly #patienceMs: number;
  #waiting: (() => void)[] = [];
  #busySince: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    socket: SocketOfIo,
    { onCutOff, patienceMs = PATIENCE_MS }: { onCutOff: () => void; patienceMs?: number | undefined },
  ) {
    this.#conn = socket.conn;
    this.#namespace = socket.nsp.name;
    this.#onCutOff = onCutOff;
    this.#patienceMs = patienceMs;
    // Behind Engine.IO's own listener, which may have sent more by now.
    this.#conn.transport.on('ready', this.#onTaken);
  }

  get isReady(): boolean {
    // Engine.IO hands on at once what it can: where something waits in it, this is false.
    return this.#conn.transport.writable;
  }

  get stalledMs(): number {
    return this.#busySince === undefined ? 0 : performance.now() - this.#busySince;
  }

  /** As `socket.emit(event, …)`, printed already. */
  emitJson({ start, end }: EventJson): void {
    // A packet of Socket.IO: an event (2) of a namespace. It is in the frame as it is in the text.
    const packet = `2${this.#namespace},${start}`;
    const head = textFrame(`${MESSAGE}${packet}`, end.bytes.length);
    this.#conn.write(`${packet}${end.text}`, framed([head, end.bytes]));
  }

  whenReady(go: () => void): void {
    this.#waiting.push(go);
    if (this.isReady) {
      setImmediate(() => this.#letGo());
      return;
    }
    this.#waitForIt();
  }

  cutOff(): void {
    if (this.#conn.readyState !== 'open') return;
    this.#onCutOff();
    this.close();
    // What it has not taken goes with it, instead of being waited for.
    this.#conn.close(true);
  }

  /** Of a connection that has ended: nobody is called any more. */
  close(): void {
    clearTimeout(this.#timer);
    this.#waiting = [];
    this.#conn.transport.off('ready', this.#onTaken);
  }

  readonly #onTaken = (): void => {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#busySince = undefined;
    if (this.#waiting.length === 0) return;
    if (this.isReady) this.#letGo();
    else this.#waitForIt();
  };

  /** From now on it has its patience's time to take something. */
  #waitForIt(): void {
    this.#busySince ??= performance.now();
    this.#timer ??= setTimeout(() => this.cutOff(), this.#patienceMs);
  }

  /** One may fill the connection again: those behind it wait for the next time. */
  #letGo(): void {
    while (this.isReady) {
      const go = this.#waiting.shift();
      if (go === undefined) return;
      go();
    }
    if (this.#waiting.length > 0) this.#waitForIt();
  }
}
