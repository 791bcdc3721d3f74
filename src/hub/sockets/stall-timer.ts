/** Measures how long a peer has read nothing, from the number of unread bytes whenever more is sent. */
export class StallTimer {
  #since: number;
  #unread: number;

  /** @param unread  bytes that the peer had not read before this send */
  constructor(now: number, unread: number) {
    this.#since = now;
    this.#unread = unread;
  }

  /**
   * @param unread  bytes that the peer has not read, including those that were sent just now
   * @returns milliseconds since the peer last read something, or since this object was created
   */
  stalledMs(now: number, unread: number, sent: number): number {
    if (unread < this.#unread + sent) this.#since = now;
    this.#unread = unread;
    return now - this.#since;
  }
}
