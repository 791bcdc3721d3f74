import { clock } from '../../../clock.ts';
import { Postponed } from './graph-error.ts';

/** No answer can make a connection wait for longer. */
const LONGEST_MS = 3_600_000;

/**
 * How long the provider wants a connection to wait, for all requests of the connection at once. Other servers learn of it
 * through `hold`, which stores it, and through `until` of the connection when they begin to work for it.
 */
export class Throttle {
  readonly #patienceMs: number;
  readonly #store: (until: Date) => Promise<void>;
  #until = 0;

  constructor(options: { patienceMs: number; until: Date | null; store: (until: Date) => Promise<void> }) {
    this.#patienceMs = options.patienceMs;
    this.#store = options.store;
    this.learn(options.until);
  }

  /** Another server was asked to wait. */
  learn(until: Date | null): void {
    const at = until?.getTime() ?? 0;
    this.#until = Math.max(this.#until, Math.min(at, clock.now() + LONGEST_MS));
  }

  async hold(ms: number): Promise<void> {
    const until = clock.now() + Math.min(Math.max(ms, 0), LONGEST_MS);
    if (until <= this.#until) return;
    this.#until = until;
    await this.#store(new Date(until));
  }

  /** @throws Postponed  where it would take too long; the reason of the signal */
  async pass(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      const waitMs = this.#until - clock.now();
      if (waitMs <= 0) return;
      if (waitMs > this.#patienceMs) throw new Postponed(waitMs);
      await clock.sleep(waitMs, { signal });
    }
  }
}

/** What `Retry-After` says, as seconds or as a date. */
export function retryAfterMs(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^\d{1,9}(\.\d{1,3})?$/.test(header.trim())) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(at - clock.now(), 0);
}
