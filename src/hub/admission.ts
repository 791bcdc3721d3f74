import type { Refusal } from '../protocol/index.ts';

export interface AdmissionLimits {
  /** Connections a second that may come in for long. */
  perSecond: number;
  /** How many may come at once after a quiet time. */
  burst: number;
}

/** Nobody is told to stay away longer than this. */
const LONGEST_MS = 120_000;

/**
 * Lets agents in at the pace that the server takes them on while it goes on with everything else. Who comes too soon is
 * told when: each gets a moment of their own behind those who were told before, so that they do not all come back in
 * the same one.
 */
export class Admission {
  readonly #limits: AdmissionLimits;
  #credit: number;
  #countedAt: number;
  #taken: number;

  constructor(limits: AdmissionLimits, now = Date.now()) {
    this.#limits = limits;
    this.#credit = limits.burst;
    this.#countedAt = now;
    this.#taken = now;
  }

  /** `undefined`: come in. */
  refusal(now = Date.now()): Refusal | undefined {
    const { perSecond, burst } = this.#limits;
    this.#credit = Math.min(burst, this.#credit + ((now - this.#countedAt) / 1000) * perSecond);
    this.#countedAt = now;
    if (this.#credit >= 1) {
      this.#credit -= 1;
      return undefined;
    }
    this.#taken = Math.min(Math.max(this.#taken, now) + 1000 / perSecond, now + LONGEST_MS);
    return { code: 'BUSY', retryAfterMs: Math.ceil(this.#taken - now) };
  }

  /** Who was let in turned out to be nobody of ours: a flood of such must not keep agents out. */
  giveBack(): void {
    this.#credit = Math.min(this.#limits.burst, this.#credit + 1);
  }
}
