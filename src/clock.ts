/**
 * The time of a program: what time it is, and timers. Server, hub, agent and watchdog take all of theirs from `clock`, so
 * that a test moves time instead of waiting for it (`test/support/test-clock.ts`). `test/contract/clock.test.ts` finds
 * code that goes round it.
 *
 * What libraries do with time (pools of connections, heartbeats of Socket.IO, the kernel's own time limits) and `now()` in
 * SQL are not under this clock.
 */

export const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
export const WEEK_MS = 7 * DAY_MS;

/** The part of a timer of Node that programs use. */
export interface Timer {
  /** The program may end while the timer is pending. */
  unref(): this;
  /** Begins its time anew. */
  refresh(): this;
}

/** Where the time comes from. */
export interface TimeSource {
  /** Milliseconds since 1970 UTC, which jump when the machine's clock is set. */
  now(): number;
  /** Milliseconds since some moment, which only go forward. */
  monotonic(): number;
  setTimeout(callback: () => void, ms: number): Timer;
  setInterval(callback: () => void, ms: number): Timer;
  /** Ends a timer of either kind; nothing happens if the timer has fired or there is none. */
  clear(timer: Timer | undefined): void;
}

/** The machine's own clock. */
export const systemTime: TimeSource = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  setInterval: (callback, ms) => setInterval(callback, ms),
  // Node's timers are the only ones that this source returns.
  clear: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
};

export interface SleepOptions {
  /** Ends the sleep early, with the signal's reason as the error. */
  signal?: AbortSignal | undefined;
  /** The program may end meanwhile. */
  unref?: boolean;
}

export class Clock {
  #source: TimeSource;

  constructor(source: TimeSource) {
    this.#source = source;
  }

  /** Takes the time from elsewhere, and returns where it came from until now. Pending timers stay with their source. */
  takeTimeFrom(source: TimeSource): TimeSource {
    const former = this.#source;
    this.#source = source;
    return former;
  }

  /** Milliseconds since 1970 UTC. For spans use `monotonic`: this one jumps when the machine's clock is set. */
  now(): number {
    return this.#source.now();
  }

  /** `now` as a date. */
  date(): Date {
    return new Date(this.#source.now());
  }

  /** Milliseconds since some moment, which only go forward. */
  monotonic(): number {
    return this.#source.monotonic();
  }

  setTimeout(callback: () => void, ms: number): Timer {
    return this.#source.setTimeout(callback, ms);
  }

  setInterval(callback: () => void, ms: number): Timer {
    return this.#source.setInterval(callback, ms);
  }

  /** Ends a timer of either kind; nothing happens if it has fired or there is none. */
  clear(timer: Timer | undefined): void {
    this.#source.clear(timer);
  }

  /** Resolves after that time; rejects with the reason of `signal` when that is aborted. */
  sleep(ms: number, { signal, unref = false }: SleepOptions = {}): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason);
        return;
      }
      const abort = () => {
        this.clear(timer);
        reject(signal?.reason);
      };
      const timer = this.setTimeout(() => {
        signal?.removeEventListener('abort', abort);
        resolve();
      }, ms);
      if (unref) timer.unref();
      signal?.addEventListener('abort', abort, { once: true });
    });
  }

  /** Runs work with a signal that is aborted after a time, or with `signal`. No timer outlives the work. */
  async limit<T>(ms: number, work: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const limit = new AbortController();
    const timer = this.setTimeout(() => limit.abort(timedOut()), ms);
    try {
      return await work(signal === undefined ? limit.signal : AbortSignal.any([signal, limit.signal]));
    } finally {
      this.clear(timer);
    }
  }

  /**
   * As `AbortSignal.timeout`: aborted with a `TimeoutError` after that time, which keeps no program alive. The timer stays
   * until then, so what has an end of its own takes `limit`.
   */
  timeoutSignal(ms: number): AbortSignal {
    const controller = new AbortController();
    this.setTimeout(() => controller.abort(timedOut()), ms).unref();
    return controller.signal;
  }
}

const timedOut = () => new DOMException('The time limit has passed.', 'TimeoutError');

/** The time of this program. */
export const clock = new Clock(systemTime);
