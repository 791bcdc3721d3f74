import { clock } from '../../clock.ts';

/** Times outside this range are wrong, and times far outside cannot be formatted. */
const EARLIEST = 0;
const LATEST = Date.UTC(2200, 0, 1);

/**
 * The server's time, taken from its heartbeat acknowledgements: the clock of this machine may be wrong by hours, and may
 * be set while the agent runs. Between two heartbeats a monotonic clock is used.
 */
export class ServerClock {
  readonly #monotonicMs: () => number;
  /** The server's time when the monotonic clock was 0. */
  #base: number | undefined;
  #waiting: (() => void)[] = [];

  constructor(monotonicMs: () => number = () => clock.monotonic()) {
    this.#monotonicMs = monotonicMs;
  }

  /** Call it before the request, and call the returned function with the time in the answer. */
  startReading(): (at: string) => void {
    const askedAt = this.#monotonicMs();
    return (at) => {
      const time = Date.parse(at);
      if (!(time >= EARLIEST && time <= LATEST)) return;
      // The server has read its clock at an unknown moment during the call. An earlier reading may narrow the range.
      const latest = time - askedAt;
      const earliest = time - this.#monotonicMs();
      this.#base = Math.min(latest, Math.max(earliest, this.#base ?? (earliest + latest) / 2));
      for (const resolve of this.#waiting.splice(0)) resolve();
    };
  }

  /** The time of this machine until the first reading. */
  now(): number {
    return this.#base === undefined ? clock.now() : this.#base + this.#monotonicMs();
  }

  timestamp(): string {
    return new Date(this.now()).toISOString();
  }

  /** The times of what ends now. A reading since its begin may have set the estimate back: then the begin was too late. */
  spanFrom(begin: string | undefined): { startedAt: string; finishedAt: string } {
    const finishedAt = this.timestamp();
    const isBefore = begin !== undefined && Date.parse(begin) < Date.parse(finishedAt);
    return { startedAt: isBefore ? begin : finishedAt, finishedAt };
  }

  /** Resolves after the first reading, or after `withinMs`. */
  async known(withinMs: number): Promise<void> {
    if (this.#base !== undefined) return;
    await new Promise<void>((resolve) => {
      const timer = clock.setTimeout(resolve, withinMs);
      this.#waiting.push(() => {
        clock.clear(timer);
        resolve();
      });
    });
  }
}
