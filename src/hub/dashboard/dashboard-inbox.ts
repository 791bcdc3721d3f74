import type { z } from 'zod';
import { DASHBOARD_EVENTS, type ErrorAck } from '../../protocol/index.ts';
import { AppError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/logger.ts';
import { MessageBudget } from './dashboard-limits.ts';

/** This many refused messages in a row end the connection. */
const MAX_REFUSED_IN_A_ROW = 50;
/** Limits how much of a client's message an error repeats. */
const MAX_MESSAGE_CHARS = 500;

type Events = typeof DASHBOARD_EVENTS;
export type DashboardEvent = keyof Events;

/** Handles each parsed message and returns its acknowledgement. */
export type Handlers = { [E in DashboardEvent]: (message: z.output<Events[E]>) => Promise<object> };

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
      this.#budget.take();
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
