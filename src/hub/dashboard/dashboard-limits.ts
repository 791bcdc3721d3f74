import { AppError } from '../../platform/errors.ts';

/** What one person, or one address, may hold open on this node at once. */
export interface DashboardLimits {
  connectionsPerPerson: number;
  connectionsPerAddress: number;
  subscriptionsPerPerson: number;
  queriesPerPerson: number;
}

export const DASHBOARD_LIMITS: DashboardLimits = {
  connectionsPerPerson: 50,
  // A whole company may come from one address, or be behind a proxy that nobody has configured.
  connectionsPerAddress: 1000,
  subscriptionsPerPerson: 100,
  queriesPerPerson: 32,
};

/** Things of one kind that are open at once, counted by who holds them. */
export class HeldPlaces {
  readonly #held = new Map<string, number>();
  readonly #most: number;
  readonly #refusal: string;

  constructor(most: number, refusal: string) {
    this.#most = most;
    this.#refusal = refusal;
  }

  /** Takes one place, and answers what gives it back. Throws `rate_limited` where all are taken. */
  take(holder: string): () => void {
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

/** The places of all dashboards of this node. An API key counts as the person who made it. */
export class DashboardPlaces {
  readonly connections: HeldPlaces;
  readonly addresses: HeldPlaces;
  readonly subscriptions: HeldPlaces;
  readonly queries: HeldPlaces;

  constructor(limits: Partial<DashboardLimits> = {}) {
    const most = { ...DASHBOARD_LIMITS, ...limits };
    this.connections = new HeldPlaces(
      most.connectionsPerPerson,
      `A person may have ${most.connectionsPerPerson} connections at once.`,
    );
    this.addresses = new HeldPlaces(
      most.connectionsPerAddress,
      `One address may have ${most.connectionsPerAddress} connections at once.`,
    );
    this.subscriptions = new HeldPlaces(
      most.subscriptionsPerPerson,
      `A person may have ${most.subscriptionsPerPerson} subscriptions at once.`,
    );
    this.queries = new HeldPlaces(
      most.queriesPerPerson,
      `A person may have ${most.queriesPerPerson} live queries at once.`,
    );
  }
}

/** So many messages may come at once, and so many a second after that. */
const MESSAGES_AT_ONCE = 100;
const MESSAGES_A_SECOND = 20;

/** How many messages a connection may still send. */
export class MessageBudget {
  readonly #now: () => number;
  #left = MESSAGES_AT_ONCE;
  #at: number;

  /** @param now  in milliseconds that only go forward */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#at = now();
  }

  /** Takes one message. Throws `rate_limited` where there is none left. */
  take(): void {
    const now = this.#now();
    this.#left = Math.min(MESSAGES_AT_ONCE, this.#left + ((now - this.#at) / 1000) * MESSAGES_A_SECOND);
    this.#at = now;
    if (this.#left < 1) {
      throw new AppError('rate_limited', `A connection may send ${MESSAGES_A_SECOND} messages a second.`, {
        retryAfterMs: 1000,
      });
    }
    this.#left -= 1;
  }
}
