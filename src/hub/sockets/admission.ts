import { clock } from '../../clock.ts';
import type { Refusal } from '../../protocol/index.ts';
import type { AddressLimits } from './address-admission.ts';

export interface AdmissionLimits {
  /** The sustained rate of connections per second. */
  perSecond: number;
  /** The connections that are accepted at once after a quiet time. */
  burst: number;
  /** The limits of one address: by default 1,000 connections at once and ten failures a second. */
  address?: AddressLimits;
}

/** The longest wait that a refusal asks for. */
const RETRY_MAX_MS = 120_000;
/** The cost of a refusal with its connection, relative to that of an accepted connection. Measured with a profiler. */
const REFUSAL_COST = 0.2;
/** The share of the rate that refusals may use up: clients that never stop trying must not lock out all others. */
const REFUSAL_SHARE_MAX = 0.8;
/** The most that is owed for refusals, in seconds of the rate. */
const OWED_SECONDS_MAX = 1;
/** A refused client returns when its refusal is paid for, however many are refused after it. */
const RETRY_MIN_MS = (OWED_SECONDS_MAX / REFUSAL_SHARE_MAX) * 1000;

/**
 * Accepts agents at a rate that leaves the server time for its other work. A refused agent is given a time to return: each
 * gets a time after those that were refused before it, so that they do not all return together. Refusals are work as
 * well and count against the rate: in the first second of a reconnect storm they are most of the work, and people wait
 * behind them.
 */
export class Admission {
  readonly #limits: AdmissionLimits;
  #credit: number;
  /** The cost of refusals that is not paid for yet. */
  #owed = 0;
  #countedAt: number;
  /** The latest time at which a refused agent was asked to return. */
  #lastReturnAt: number;

  constructor(limits: AdmissionLimits, now = clock.monotonic()) {
    this.#limits = limits;
    this.#credit = limits.burst;
    this.#countedAt = now;
    this.#lastReturnAt = now;
  }

  /** Admits a connection and returns `undefined`, or returns why it is refused. */
  refusal(now = clock.monotonic()): Refusal | undefined {
    const { perSecond, burst } = this.#limits;
    const earned = ((now - this.#countedAt) / 1000) * perSecond;
    const paid = Math.min(this.#owed, earned * REFUSAL_SHARE_MAX);
    this.#owed -= paid;
    this.#credit = Math.min(burst, this.#credit + earned - paid);
    this.#countedAt = now;
    if (this.#credit >= 1) {
      this.#credit -= 1;
      return undefined;
    }
    this.#owed = Math.min(this.#owed + REFUSAL_COST, perSecond * OWED_SECONDS_MAX);
    const before = Math.max(this.#lastReturnAt, now + RETRY_MIN_MS);
    // Subtracted before it is limited: the sum of `now` and the limit would be rounded, and could come out above it.
    const wait = Math.min(before - now + 1000 / perSecond, RETRY_MAX_MS);
    this.#lastReturnAt = now + wait;
    return { code: 'BUSY', retryAfterMs: Math.ceil(wait) };
  }

  /** Undoes an admission whose credential was not valid, so that a flood of such connections does not lock out agents. */
  refund(): void {
    this.#credit = Math.min(this.#limits.burst, this.#credit + 1);
  }
}
