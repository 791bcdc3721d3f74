/** For how long a peer has read nothing, as can be seen from what it has not read whenever more is sent. */
export class Stall {
  #since: number;
  #unread: number;

  /** @param unread  bytes that it had not read before */
  constructor(now: number, unread: number) {
    this.#since = now;
    this.#unread = unread;
  }

  /**
   * @param unread  bytes that the peer has not read, with those that were sent just now
   * @returns milliseconds since it has read something, or since this began
   */
  lasts(now: number, unread: number, sent: number): number {
    if (unread < this.#unread + sent) this.#since = now;
    this.#unread = unread;
    return now - this.#since;
  }
}
