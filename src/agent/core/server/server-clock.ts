import { performance } from 'node:perf_hooks';

/** What lies outside is no time that a server can mean, and might not even be one that can be written down. */
const EARLIEST = 0;
const LATEST = Date.UTC(2200, 0, 1);

/**
 * The server's time, as its heartbeat answers tell it: this machine's own clock may be wrong by hours, and may be set
 * while the agent runs. Between two answers a clock that only counts goes on.
 */
export class ServerClock {
  readonly #count: () => number;
  /** The server's time when the count was 0. */
  #base: number | undefined;
  #waiting: (() => void)[] = [];

  constructor(count: () => number = () => performance.now()) {
    this.#count = count;
  }

  /** Call it before asking the server; then tell what the answer says. */
  ask(): (at: string) => void {
    const askedAt = this.#count();
    return (at) => {
      const time = Date.parse(at);
      if (!(time >= EARLIEST && time <= LATEST)) return;
      // The answer was given at some moment in between; what is known already may say more about when.
      const latest = time - askedAt;
      const earliest = time - this.#count();
      this.#base = Math.min(latest, Math.max(earliest, this.#base ?? (earliest + latest) / 2));
      for (const resolve of this.#waiting.splice(0)) resolve();
    };
  }

  /** Until the server has told the time, this machine's own. */
  now(): number {
    return this.#base === undefined ? Date.now() : this.#base + this.#count();
  }

  timestamp(): string {
    return new Date(this.now()).toISOString();
  }

  /** Resolves when the server has told the time, or after `withinMs`. */
  async known(withinMs: number): Promise<void> {
    if (this.#base !== undefined) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, withinMs);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
