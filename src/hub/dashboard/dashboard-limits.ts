import { clock } from '../../clock.ts';
import { AppError } from '../../platform/errors.ts';
import type { z } from 'zod';
import { DASHBOARD_EVENTS, type ErrorAck } from '../../protocol/index.ts';
import type { Logger } from '../../platform/logger.ts';

/** The limits of what one person or one address may have open on this node at the same time. */
export interface DashboardLimits {
  connectionsPerPerson: number;
  connectionsPerAddress: number;
  subscriptionsPerPerson: number;
  queriesPerPerson: number;
}

const DASHBOARD_LIMITS: DashboardLimits = {
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
/** What is typed into terminals, and the confirmations of their output, have a budget of their own. */
const TERMINAL_MESSAGES = { burst: 400, perSecond: 150 };

/** Limits the messages of one connection. */
export class MessageBudget {
  readonly #now: () => number;
  #left: number;
  #at: number;

  readonly #burst: number;
  readonly #perSecond: number;

  /** @param now  a monotonic clock in milliseconds */
  constructor(
    now: () => number = () => clock.monotonic(),
    { burst, perSecond } = { burst: MESSAGE_BURST, perSecond: MESSAGES_PER_SECOND },
  ) {
    this.#now = now;
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#left = burst;
    this.#at = now();
  }

  /** Counts one message. Throws `rate_limited` over the limit. */
  take(): void {
    const now = this.#now();
    this.#left = Math.min(this.#burst, this.#left + ((now - this.#at) / 1000) * this.#perSecond);
    this.#at = now;
    if (this.#left < 1) {
      throw new AppError('rate_limited', `A connection may send ${this.#perSecond} messages a second.`, {
        retryAfterMs: 1000,
      });
    }
    this.#left -= 1;
  }
}

/** This many refused messages in a row end the connection. */
const MAX_REFUSED_IN_A_ROW = 50;
/** Limits how much of a client's message an error repeats. */
const MAX_MESSAGE_CHARS = 500;

type Events = typeof DASHBOARD_EVENTS;
type DashboardEvent = keyof Events;

/** Handles each parsed message and returns its acknowledgement. */
type Handlers = { [E in DashboardEvent]: (message: z.output<Events[E]>) => Promise<object> };

interface Parts {
  handlers: Handlers;
  log: Logger;
  onRefused: () => void;
  /** Called when a stream of refused messages ends the connection. */
  onTooMany: () => void;
}

/** Receives the messages of one dashboard connection. Each is parsed by the schema of its event and acknowledged once. */
export class DashboardInbox {
  readonly #parts: Parts;
  readonly #budget = new MessageBudget();
  readonly #terminalBudget = new MessageBudget(undefined, TERMINAL_MESSAGES);
  #refusedInARow = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Receives an event from Socket.IO. The client may have left out the payload or the acknowledgement. */
  receive(event: string, args: readonly unknown[]): void {
    const last = args.at(-1);
    const answer = typeof last === 'function' ? (last as (value: unknown) => void) : () => {};
    let done: Promise<object>;
    try {
      (event === 'terminal:data' || event === 'terminal:resize' ? this.#terminalBudget : this.#budget).take();
      done = this.#handle(event, args[0]);
    } catch (error) {
      answer(errorAck(error));
      return this.#refuse();
    }
    done.then(
      (value) => {
        this.#refusedInARow = 0;
        answer(value);
      },
      (error: unknown) => {
        if (!(error instanceof AppError)) {
          this.#parts.log.error({ err: error, socketEvent: event }, 'hub.dashboard_event_failed');
        }
        answer(errorAck(error));
        // Conditions are parsed by the feature that defines them, so invalid ones are found only here.
        if (error instanceof AppError && error.code === 'validation_failed') this.#refuse();
        else this.#refusedInARow = 0;
      },
    );
  }

  #handle(event: string, payload: unknown): Promise<object> {
    if (!isEvent(event)) throw new AppError('not_found', 'There is no such event.');
    const schema: z.ZodType = DASHBOARD_EVENTS[event];
    const message = parse(schema, payload);
    // The table pairs each handler with the schema of its event.
    return (this.#parts.handlers[event] as (message: unknown) => Promise<object>)(message);
  }

  #refuse(): void {
    this.#refusedInARow += 1;
    this.#parts.onRefused();
    if (this.#refusedInARow === MAX_REFUSED_IN_A_ROW) this.#parts.onTooMany();
  }
}

function isEvent(event: string): event is DashboardEvent {
  return Object.hasOwn(DASHBOARD_EVENTS, event);
}

function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const text = `${issue?.path.join('.') || 'payload'}: ${issue?.message ?? 'not valid'}`;
  throw new AppError('validation_failed', text.slice(0, MAX_MESSAGE_CHARS));
}

export function errorAck(error: unknown): ErrorAck {
  const known =
    error instanceof AppError ? error : new AppError('internal', 'Something went wrong on the server.');
  const { wireCode: code, message, details } = known;
  return { ok: false, error: { code, message, ...(details === undefined ? {} : { details }) } };
}
