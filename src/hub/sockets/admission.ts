import type { Refusal } from '../../protocol/index.ts';
import type { AddressLimits } from './address-admission.ts';

export interface AdmissionLimits {
  /** Connections a second that may come in for long. */
  perSecond: number;
  /** How many may come at once after a quiet time. */
  burst: number;
  /** Of one address, by default 1,000 connections on their way in and ten failures a second. */
  address?: AddressLimits;
}

/** Nobody is told to stay away longer than this. */
const LONGEST_MS = 120_000;
/** What it costs to turn one away, its connection included, of what it costs to take one in: about, by a profile. */
const REFUSAL_COST = 0.2;
/** No more of the pace than this goes to refusals: whoever knocks without end must not keep all others out. */
const MOST_FOR_REFUSALS = 0.8;
/** The most that is owed for refusals, in seconds of the pace. */
const MOST_OWED_SECONDS = 1;
/** Whoever is turned away comes back when that is paid, however many are turned away after them. */
const SOONEST_MS = (MOST_OWED_SECONDS / MOST_FOR_REFUSALS) * 1000;

/**
 * Lets agents in at the pace that the server takes them on while it goes on with everything else. Who comes too soon is
 * told when: each gets a moment of their own behind those who were told before, so that they do not all come back in
 * the same one. Turning away is work as well, and taken from what the pace allows: in the first second of a storm it is
 * most of the work, and people wait behind all of it.
 */
export class Admission {
  readonly #limits: AdmissionLimits;
  #credit: number;
  /** Cost of refusals that is not paid yet. */
  #owed = 0;
  #countedAt: number;
  #taken: number;

  constructor(limits: AdmissionLimits, now = performance.now()) {
    this.#limits = limits;
    this.#credit = limits.burst;
    this.#countedAt = now;
    this.#taken = now;
  }

  /** `undefined`: come in. */
  refusal(now = performance.now()): Refusal | undefined {
    const { perSecond, burst } = this.#limits;
    const earned = ((now - this.#countedAt) / 1000) * perSecond;
    const paid = Math.min(this.#owed, earned * MOST_FOR_REFUSALS);
    this.#owed -= paid;
    this.#credit = Math.min(burst, this.#credit + earned - paid);
    this.#countedAt = now;
    if (this.#credit >= 1) {
      this.#credit -= 1;
      return undefined;
    }
    this.#owed = Math.min(this.#owed + REFUSAL_COST, perSecond * MOST_OWED_SECONDS);
    const before = Math.max(this.#taken, now + SOONEST_MS);
    this.#taken = Math.min(before + 1000 / perSecond, now + LONGEST_MS);
    return { code: 'BUSY', retryAfterMs: Math.ceil(this.#taken - now) };
  }

  /** Who was let in turned out to be nobody of ours: a flood of such must not keep agents out. */
  giveBack(): void {
    this.#credit = Math.min(this.#limits.burst, this.#credit + 1);
  }
}
