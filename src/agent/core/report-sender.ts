import { clock, type Timer } from '../../clock.ts';

/** After a connection, sending begins at a random moment within this time, so that a fleet does not send at once. */
const SPREAD_MS = 10_000;

/**
 * Sends reports of one kind while there is a connection to a server that takes them, one at a time.
 * @typeParam Send  sends a report, and is valid until its connection ends
 */
export class ReportSender<Send> {
  readonly #sendAll: (send: Send) => Promise<void>;
  readonly #random: () => number;
  #send: Send | undefined;
  #isSending = false;
  #spread: Timer | undefined;

  /** @param sendAll  sends what there is; it rejects if the connection ends, and is called again with the next one */
  constructor({ sendAll, random }: { sendAll: (send: Send) => Promise<void>; random: () => number }) {
    this.#sendAll = sendAll;
    this.#random = random;
  }

  /** Must be called with each new connection. */
  connected(send: Send): void {
    this.#send = send;
    clock.clear(this.#spread);
    this.#spread = clock.setTimeout(() => this.wake(), this.#random() * SPREAD_MS).unref();
  }

  /** Must be called when the connection has ended. */
  disconnected(): void {
    this.#send = undefined;
    clock.clear(this.#spread);
  }

  get isConnected(): boolean {
    return this.#send !== undefined;
  }

  isCurrent(send: Send): boolean {
    return this.#send === send;
  }

  /** This server takes no reports of this kind. The next connection may be to another one. */
  refused(send: Send): void {
    if (this.#send === send) this.#send = undefined;
  }

  /** There is more to send. */
  wake(): void {
    const send = this.#send;
    if (send === undefined || this.#isSending) return;
    this.#isSending = true;
    void this.#sendAll(send)
      .catch(() => {
        // The connection has ended. What was not sent is sent over the next one.
      })
      .finally(() => {
        this.#isSending = false;
      });
  }
}
