import { clock } from '../../clock.ts';
import type { Refusal } from '../../protocol/index.ts';

export interface AddressLimits {
  /** Connections from one address that may be in their handshake at the same time. */
  atOnce: number;
  /** The sustained rate of failed attempts from one address. */
  failuresPerSecond: number;
}

/** More addresses than ever connect at once. Those without failures are dropped first. */
const ADDRESSES_MAX = 20_000;
/** A refused client is asked to return after a random time from this range. */
const RETRY_MIN_MS = 2000;
const RETRY_SPREAD_MS = 4000;

interface Budget {
  attempts: number;
  countedAt: number;
}

/**
 * Limits failed attempts per address, so that one address cannot lock out all others. Each connection uses an attempt of
 * its address, which is refunded when the agent is authenticated. So thousands of agents can share an address, while a
 * client that keeps failing runs out of attempts and is refused before it uses the common budget.
 */
export class AddressAdmission {
  readonly #limits: AddressLimits;
  readonly #budgets = new Map<string, Budget>();

  constructor(limits: AddressLimits) {
    this.#limits = limits;
  }

  /**
   * Uses one attempt.
   * @param prefix  from `countedNetwork`
   * @param now     in milliseconds, by a monotonic clock
   * @returns `undefined`, or the refusal when no attempt is left
   */
  refusal(prefix: string, now = clock.monotonic()): Refusal | undefined {
    const budget = this.#budgetOf(prefix, now);
    if (budget.attempts >= 1) {
      budget.attempts -= 1;
      return undefined;
    }
    return { code: 'BUSY', retryAfterMs: Math.round(RETRY_MIN_MS + Math.random() * RETRY_SPREAD_MS) };
  }

  /** The connection was authenticated, or failed for a reason that is not its own. */
  refund(prefix: string): void {
    const budget = this.#budgets.get(prefix);
    if (budget !== undefined) budget.attempts = Math.min(this.#limits.atOnce, budget.attempts + 1);
  }

  #budgetOf(prefix: string, now: number): Budget {
    const known = this.#budgets.get(prefix);
    if (known !== undefined) {
      this.#refill(known, now);
      return known;
    }
    if (this.#budgets.size >= ADDRESSES_MAX) this.#dropSome(now);
    const budget = { attempts: this.#limits.atOnce, countedAt: now };
    this.#budgets.set(prefix, budget);
    return budget;
  }

  #refill(budget: Budget, now: number): void {
    const earned = ((now - budget.countedAt) / 1000) * this.#limits.failuresPerSecond;
    budget.attempts = Math.min(this.#limits.atOnce, budget.attempts + earned);
    budget.countedAt = now;
  }

  /** Drops budgets that are full, which need not be remembered, and the oldest others if that frees less than half. */
  #dropSome(now: number): void {
    for (const [prefix, budget] of this.#budgets) {
      this.#refill(budget, now);
      if (budget.attempts >= this.#limits.atOnce) this.#budgets.delete(prefix);
    }
    for (const prefix of this.#budgets.keys()) {
      if (this.#budgets.size <= ADDRESSES_MAX / 2) break;
      this.#budgets.delete(prefix);
    }
  }
}
