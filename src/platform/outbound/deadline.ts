import { clock, type Timer } from '../../clock.ts';
import { OutboundError } from './outbound-error.ts';

export interface TimeLimits {
  /** Until a name is resolved and a secured connection stands. */
  connectMs: number;
  /** From there until the head of the answer is read. */
  headersMs: number;
  /** Between two pieces of a body that is read as it arrives. */
  pieceMs: number;
  /** For the whole call with all its redirects. */
  totalMs: number;
}

/** The time limits of one call: `signal` is aborted with the failure that the caller sees. */
export class Deadline {
  readonly #limits: TimeLimits;
  readonly #controller = new AbortController();
  readonly #whole: Timer;
  readonly #caller: AbortSignal | undefined;
  readonly #onAbort = () => this.#controller.abort(this.#caller?.reason);
  #phase: Timer | undefined;

  constructor(limits: TimeLimits, caller: AbortSignal | undefined) {
    this.#limits = limits;
    this.#caller = caller;
    this.#whole = this.#abortAfter(limits.totalMs, 'timed_out');
    if (caller?.aborted === true) this.#onAbort();
    caller?.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  connecting(): void {
    this.#begin(this.#limits.connectMs, 'unreachable');
  }

  awaitingHead(): void {
    this.#begin(this.#limits.headersMs, 'timed_out');
  }

  awaitingPiece(): void {
    this.#begin(this.#limits.pieceMs, 'timed_out');
  }

  readingBody(): void {
    clock.clear(this.#phase);
  }

  end(): void {
    clock.clear(this.#whole);
    clock.clear(this.#phase);
    this.#caller?.removeEventListener('abort', this.#onAbort);
  }

  #begin(ms: number, reason: 'unreachable' | 'timed_out'): void {
    clock.clear(this.#phase);
    this.#phase = this.#abortAfter(ms, reason);
  }

  #abortAfter(ms: number, reason: 'unreachable' | 'timed_out'): Timer {
    return clock.setTimeout(() => this.#controller.abort(new OutboundError(reason)), ms);
  }
}
