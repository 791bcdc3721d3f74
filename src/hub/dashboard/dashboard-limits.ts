import { clock } from '../../clock.ts';
import { AppError } from '../../platform/errors.ts';

/** What one person or one address may have open on this node at the same time. */
export interface DashboardLimits {
  connectionsPerPerson: number;
  connectionsPerAddress: number;
  subscriptionsPerPerson: number;
  queriesPerPerson: number;
}

export const DASHBOARD_LIMITS: DashboardLimits = {
  connectionsPerPerson: 50,
  // A whole company may use one address, or a proxy that is not configured as trusted.
  connectionsPerAddress: 1000,
  subscriptionsPerPerson: 100,
  queriesPerPerson: 32,
};

/** Limits how many things of one kind each holder has open. */
export class Quota {
  readonly #held = new Map<string, number>();
  readonly #most: number;
  readonly #refusal: string;

  constructor(most: number, refusal: string) {
    this.#most = most;
    this.#refusal = refusal;
  }

  /** Counts one more and returns the function that releases it. Throws `rate_limited` at the limit. */
  acquire(holder: string): () => void {
    const held = this.#held.get(holder) ?? 0;
    if (held >= this.#most) throw new AppError('rate_limited', this.#refusal);
    this.#held.set(holder, held + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const left = (this.#held.get(holder) ?? 1) - 1;
      if (left === 0) this.#held.delete(holder);
      else this.#held.set(holder, left);
    };
  }
}

/** The quotas of all dashboards of this node. An API key counts as the person who created it. */
export class DashboardQuotas {
  readonly connections: Quota;
  readonly addresses: Quota;
  readonly subscriptions: Quota;
  readonly queries: Quota;

  constructor(limits: Partial<DashboardLimits> = {}) {
    const most = { ...DASHBOARD_LIMITS, ...limits };
    this.connections = new Quota(
      most.connectionsPerPerson,
      `A person may have ${most.connectionsPerPerson} connections at once.`,
    );
    this.addresses = new Quota(
      most.connectionsPerAddress,
      `One address may have ${most.connectionsPerAddress} connections at once.`,
    );
    this.subscriptions = new Quota(
      most.subscriptionsPerPerson,
      `A person may have ${most.subscriptionsPerPerson} subscriptions at once.`,
    );
    this.queries = new Quota(
      most.queriesPerPerson,
      `A person may have ${most.queriesPerPerson} live queries at once.`,
    );
  }
}

/** A token bucket: the burst, and the sustained rate. */
const MESSAGE_BURST = 100;
const MESSAGES_PER_SECOND = 20;

/** Limits the messages of one connection. */
export class MessageBudget {
  readonly #now: () => number;
  #left = MESSAGE_BURST;
  #at: number;

  /** @param now  a monotonic clock in milliseconds */
  constructor(now: () => number = () => clock.monotonic()) {
    this.#now = now;
    this.#at = now();
  }

  /** Counts one message. Throws `rate_limited` over the limit. */
  take(): void {
    const now = this.#now();
    this.#left = Math.min(MESSAGE_BURST, this.#left + ((now - this.#at) / 1000) * MESSAGES_PER_SECOND);
    this.#at = now;
    if (this.#left < 1) {
      throw new AppError('rate_limited', `A connection may send ${MESSAGES_PER_SECOND} messages a second.`, {
        retryAfterMs: 1000,
      });
    }
    this.#left -= 1;
  }
}
