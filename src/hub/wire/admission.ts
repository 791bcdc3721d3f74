import { clock } from '../../clock.ts';
import { type Refusal, AGENT_QUERY, HUB_PATH, REFUSAL_HEADER } from '../../protocol/index.ts';
import type { IncomingMessage, Server as HttpServer } from 'node:http';
import type { Duplex } from 'node:stream';

export interface AddressLimits {
  /** Connections from one address that may be in their handshake at the same time. */
  atOnce: number;
  /** The sustained rate of failed attempts from one address. */
  failuresPerSecond: number;
}

/** More addresses than ever connect at once. Those without failures are dropped first. */
const ADDRESSES_MAX = 20_000;
/** A refused client is asked to return after a random time from this range. */
const ADDRESS_RETRY_MIN_MS = 2000;
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
    return { code: 'BUSY', retryAfterMs: Math.round(ADDRESS_RETRY_MIN_MS + Math.random() * RETRY_SPREAD_MS) };
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

/** Presence that has waited so long for its write shows that the database does not keep up; usual are one to two seconds. */
const LATE_MS = 4000;
/** Each second in which the database is late leaves this share of the rate, down to the least, and another one adds. */
const SLOWER = 2 / 3;
const FASTER = 0.05;
const LEAST_SHARE = 0.05;

/**
 * Accepts agents at a rate that leaves the server time for its other work, and that the database takes: all servers of a
 * cluster see its delay, so together they come to its rate without asking each other. A refused agent is given a time to return: each
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
  /** The share of the full rate that is accepted now. */
  #share = 1;

  constructor(limits: AdmissionLimits, now = clock.monotonic()) {
    this.#limits = limits;
    this.#credit = limits.burst;
    this.#countedAt = now;
    this.#lastReturnAt = now;
  }

  /** The connections per second that are accepted now. */
  get perSecond(): number {
    return this.#limits.perSecond * this.#share;
  }

  /** Adapts the rate to the database. Called once a second. @param lateMs  how long the oldest write has been waiting */
  follow(lateMs: number, now = clock.monotonic()): void {
    this.#settle(now);
    this.#share =
      lateMs > LATE_MS ? Math.max(LEAST_SHARE, this.#share * SLOWER) : Math.min(1, this.#share + FASTER);
  }

  /** Admits a connection and returns `undefined`, or returns why it is refused. */
  refusal(now = clock.monotonic()): Refusal | undefined {
    const { perSecond } = this;
    this.#settle(now);
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

  /** Counts what was earned since the last time, and pays for refusals with it. */
  #settle(now: number): void {
    const earned = ((now - this.#countedAt) / 1000) * this.perSecond;
    const paid = Math.min(this.#owed, earned * REFUSAL_SHARE_MAX);
    this.#owed -= paid;
    this.#credit = Math.min(this.#limits.burst, this.#credit + earned - paid);
    this.#countedAt = now;
  }

  /** Undoes an admission whose credential was not valid, so that a flood of such connections does not lock out agents. */
  refund(): void {
    this.#credit = Math.min(this.#limits.burst, this.#credit + 1);
  }
}

export interface AdmissionRules {
  /** Why no agent is accepted now, if so. */
  closed(): Refusal | undefined;
  /** Admits one connection, or returns why not. */
  refusal(): Refusal | undefined;
  /** Undoes an admission. */
  refund(): void;
  /** The limits of each address, which are checked before the common budget is used. */
  addresses: Pick<AddressAdmission, 'refusal' | 'refund'>;
  /** The origin of a request. Addresses that count as one have the same prefix. */
  prefixOf(request: IncomingMessage): string;
}

/**
 * Refuses agents before their connection becomes a websocket, which costs far less than a refusal in Socket.IO's
 * handshake: when a whole fleet reconnects, most answers are refusals, and people wait behind them. Only connections that
 * declare themselves as agents are refused. Dashboards use the same path and pass as long as their address has attempts.
 */
export class UpgradeGate {
  readonly #rules: AdmissionRules;
  /** Admitted requests that have not reached their namespace yet, with the function that refunds them if they end first. */
  readonly #admitted = new Map<IncomingMessage, () => void>();
  /** The address whose attempt each connection has used. */
  readonly #attempts = new WeakMap<IncomingMessage, string>();

  /** @param httpServer  Socket.IO must already listen on it, because the gate runs before its listeners */
  constructor(httpServer: HttpServer, rules: AdmissionRules) {
    this.#rules = rules;
    const inherited = httpServer.listeners('upgrade');
    httpServer.removeAllListeners('upgrade');
    httpServer.on('upgrade', (request, socket, head) => {
      const refusal = this.#refusalAtUpgrade(request);
      if (refusal !== undefined) return refuse(socket, refusal);
      for (const listener of inherited) listener.call(httpServer, request, socket, head);
    });
  }

  /** Why an agent that has reached its namespace is refused, if so. A connection that the gate admitted counts once. */
  refusal(request: IncomingMessage): Refusal | undefined {
    const refundOnClose = this.#admitted.get(request);
    if (refundOnClose === undefined) return this.#rules.closed() ?? this.#rules.refusal();
    this.#admitted.delete(request);
    request.socket.off('close', refundOnClose);
    return this.#rules.closed();
  }

  refund(): void {
    this.#rules.refund();
  }

  /** Returns the attempt of an address whose connection succeeded, or failed for a reason that is not its own. */
  refundAttempt(request: IncomingMessage): void {
    const prefix = this.#attempts.get(request);
    if (prefix === undefined) return;
    this.#attempts.delete(request);
    this.#rules.addresses.refund(prefix);
  }

  #refusalAtUpgrade(request: IncomingMessage): Refusal | undefined {
    const { url = '' } = request;
    if (!url.startsWith(HUB_PATH)) return undefined;
    const isAgent = declaresAgent(url);
    const closed = isAgent ? this.#rules.closed() : undefined;
    if (closed !== undefined) return closed;
    const prefix = this.#rules.prefixOf(request);
    const refusalOfAddress = this.#rules.addresses.refusal(prefix);
    if (refusalOfAddress !== undefined) return refusalOfAddress;
    this.#attempts.set(request, prefix);
    return isAgent ? this.#admit(request) : undefined;
  }

  #admit(request: IncomingMessage): Refusal | undefined {
    const refusal = this.#rules.refusal();
    if (refusal !== undefined) {
      this.refundAttempt(request);
      return refusal;
    }
    const refundOnClose = () => {
      if (this.#admitted.delete(request)) this.refund();
    };
    this.#admitted.set(request, refundOnClose);
    request.socket.once('close', refundOnClose);
    return undefined;
  }
}

const AGENT_MARK = new URLSearchParams(AGENT_QUERY).toString();

const declaresAgent = (url: string) => (url.split('?', 2)[1] ?? '').split('&').includes(AGENT_MARK);

function refuse(socket: Duplex, refusal: Refusal): void {
  // The client may have disconnected. Without a listener that error would end the process.
  socket.on('error', () => {});
  const seconds = Math.ceil((refusal.retryAfterMs ?? 0) / 1000);
  // The callback runs when the answer was sent. Ending the connection first would cost another system call, and destroying
  // it within the callback an error with its stack trace (19 µs).
  socket.write(
    `HTTP/1.1 503 Service Unavailable\r\nRetry-After: ${seconds}\r\n${REFUSAL_HEADER}: ${JSON.stringify(refusal)}\r\n` +
      'Connection: close\r\nContent-Length: 0\r\n\r\n',
    () => process.nextTick(() => socket.destroy()),
  );
}
