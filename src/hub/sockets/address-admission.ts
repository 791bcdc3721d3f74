import type { Refusal } from '../../protocol/index.ts';

export interface AddressLimits {
  /** Connections from one address that may be on their way in at the same time. */
  atOnce: number;
  /** Tries a second that may fail from one address for long. */
  failuresPerSecond: number;
}

/** More addresses than ever come in at once; those without a failure are forgotten first. */
const ADDRESSES_MAX = 20_000;
/** Whoever is turned away comes back after a time between these, so that not all come back at once. */
const SOONEST_MS = 2000;
const SPREAD_MS = 4000;

interface Budget {
  tries: number;
  countedAt: number;
}

/**
 * Keeps one address from taking the places of all others. Each connection takes a try of its address, which it gets back
 * when it turns out to be one of our agents; so thousands of them can come from behind one address, while whoever fails
 * over and over again runs out of tries, and is turned away before anything of the common budget is spent on them.
 */
export class AddressAdmission {
  readonly #limits: AddressLimits;
  readonly #budgets = new Map<string, Budget>();

  constructor(limits: AddressLimits) {
    this.#limits = limits;
  }

  /**
   * Takes a try.
   * @param prefix  as `countedNetwork` has it
   * @param now  in milliseconds, by a clock that only goes forward
   * @returns `undefined`, or why there is none
   */
  refusal(prefix: string, now = performance.now()): Refusal | undefined {
    const budget = this.#budgetOf(prefix, now);
    if (budget.tries >= 1) {
      budget.tries -= 1;
      return undefined;
    }
    return { code: 'BUSY', retryAfterMs: Math.round(SOONEST_MS + Math.random() * SPREAD_MS) };
  }

  /** The connection was one of our agents, or was not let in for another reason than its own. */
  giveBack(prefix: string): void {
    const budget = this.#budgets.get(prefix);
    if (budget !== undefined) budget.tries = Math.min(this.#limits.atOnce, budget.tries + 1);
  }

  #budgetOf(prefix: string, now: number): Budget {
    const known = this.#budgets.get(prefix);
    if (known !== undefined) {
      this.#refill(known, now);
      return known;
    }
    if (this.#budgets.size >= ADDRESSES_MAX) this.#forgetSome(now);
    const budget = { tries: this.#limits.atOnce, countedAt: now };
    this.#budgets.set(prefix, budget);
    return budget;
  }

  #refill(budget: Budget, now: number): void {
    const earned = ((now - budget.countedAt) / 1000) * this.#limits.failuresPerSecond;
    budget.tries = Math.min(this.#limits.atOnce, budget.tries + earned);
    budget.countedAt = now;
  }

  /** Those with all their tries, of which there is nothing to remember; where that is not half of them, the oldest too. */
  #forgetSome(now: number): void {
    for (const [prefix, budget] of this.#budgets) {
      this.#refill(budget, now);
      if (budget.tries >= this.#limits.atOnce) this.#budgets.delete(prefix);
    }
    for (const prefix of this.#budgets.keys()) {
      if (this.#budgets.size <= ADDRESSES_MAX / 2) break;
      this.#budgets.delete(prefix);
    }
  }
}
