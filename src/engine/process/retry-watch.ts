/** Fewer lost requests than this can be those of one moment, of which a slow connection tells much later. */
const RETRIES_MIN = 10;

/**
 * Finds out whether restic asks a destination in vain. restic gives each request up after some time, and then begins the
 * next one: with a destination that stays away it goes on like this for as long as it has files to read.
 */
export class RetryWatch {
  readonly #giveUpAfterMs: number;
  #since: number | undefined;
  #count = 0;

  constructor(giveUpAfterMs: number) {
    this.#giveUpAfterMs = giveUpAfterMs;
  }

  /** The work has come further, so the destination takes what it is sent. */
  progressed(): void {
    this.#since = undefined;
    this.#count = 0;
  }

  /** restic is about to make a request again. Returns whether it has done so for too long without getting further. */
  retried(now: number): boolean {
    this.#since ??= now;
    this.#count += 1;
    return this.#count >= RETRIES_MIN && now - this.#since >= this.#giveUpAfterMs;
  }
}
