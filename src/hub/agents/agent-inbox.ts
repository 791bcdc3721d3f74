import type { z } from 'zod';
import { clock } from '../../clock.ts';
import {
  AGENT_EVENTS,
  type AgentEvent,
  type ErrorAck,
  type OkAck,
  UpgradableComponent,
} from '../../protocol/index.ts';
import { BUSY } from '../device/actor-messages.ts';
import { noAnswer, type Answer, type EventReceiver } from '../wire/agent-socket-fast-path.ts';
import type { DeviceActor } from '../device/device-actor.ts';
import { isPlainHeartbeat } from '../wire/heartbeat-fast-path.ts';

/** This many invalid messages in a row end the connection. */
const MAX_BAD_MESSAGES = 50;

/**
 * Limits on what one connection may send within a window of time. They are far above what a working agent sends, and far
 * below what would slow the server down.
 */
const WINDOW_MS = 10_000;
/** Unsolicited messages beyond this number are refused, and the agent sends them again. */
const MESSAGES_PER_WINDOW = 500;
/** An agent that continues nevertheless is disconnected at this number. */
const MESSAGES_MAX = 2000;
/** Rows and results of live queries have a limit of their own, because their number depends on the query. */
const ANSWERS_MAX = 20_000;

type Messages = { [E in AgentEvent]: z.infer<(typeof AGENT_EVENTS)[E]> };

/** After this time and up to as long again, an agent reports services again that could not be stored. */
const SERVICES_LATER_MS = 20_000;

const OK: OkAck = { ok: true };
const NO_SUCH_COMPONENT: ErrorAck = {
  ok: false,
  error: {
    code: 'VALIDATION_FAILED',
    message: `component: one of ${UpgradableComponent.options.join(', ')}`,
  },
};

/** Passes each valid message to the actor and acknowledges it. */
const HANDLE: {
  readonly [E in AgentEvent]: (actor: DeviceActor, message: Messages[E], answer: Answer) => void;
} = {
  heartbeat(actor, heartbeat, answer) {
    if (!actor.post({ kind: 'heartbeat', heartbeat, at: actor.lastHeardAt, ack: answer })) answer(BUSY);
  },
  'command:rows'(actor, rows, answer) {
    answer(actor.post({ kind: 'rows', rows }) ? OK : BUSY);
  },
  'command:result'(actor, result, answer) {
    // The agent keeps a result until it is stored.
    const ack = (isStored: boolean) => answer(isStored ? OK : BUSY);
    if (!actor.post({ kind: 'result', result, ack })) answer(BUSY);
  },
  'command:progress'(actor, progress, answer) {
    answer(actor.post({ kind: 'progress', progress }) ? OK : BUSY);
  },
  'update:status'(actor, status, answer) {
    const component = UpgradableComponent.safeParse(status.component);
    if (!component.success) return answer(NO_SUCH_COMPONENT);
    // The agent keeps a report until it is stored.
    const ack = (isStored: boolean) => answer(isStored ? OK : BUSY);
    const reported = { ...status, component: component.data };
    if (!actor.post({ kind: 'upgrade', status: reported, at: actor.lastHeardAt, ack })) answer(BUSY);
  },
  'metrics:samples'(actor, { samples }, answer) {
    // The agent keeps samples until they are stored.
    const ack = (isStored: boolean) => answer(isStored ? OK : BUSY);
    if (!actor.post({ kind: 'samples', samples, ack })) answer(BUSY);
  },
  'services:report'(actor, report, answer) {
    // The agent sends what is not stored again. Complete reports of a fleet must not all be repeated twice a second.
    const later: ErrorAck = {
      ...BUSY,
      error: { ...BUSY.error, retryAfterMs: Math.round(SERVICES_LATER_MS * (1 + Math.random())) },
    };
    const ack = (isStored: boolean) => answer(isStored ? OK : later);
    if (!actor.post({ kind: 'services', report, ack })) answer(later);
  },
};

/** Receives the messages of one agent, limits their number and parses them for the actor. */
export class AgentInbox implements EventReceiver {
  readonly #actor: DeviceActor;
  readonly #meters: { onBadMessage: () => void; onExcess: () => void };
  #badInARow = 0;
  #windowStart = 0;
  #messages = 0;
  #answers = 0;

  constructor(actor: DeviceActor, meters: { onBadMessage: () => void; onExcess: () => void }) {
    this.#actor = actor;
    this.#meters = meters;
  }

  /** Receives what Socket.IO has read: on the direct path unknown events and unusual packets, on the stock path everything. */
  receiveArgs(args: readonly unknown[]): void {
    const [event, payload] = args;
    const last = args.at(-1);
    this.receive(event, payload, typeof last === 'function' ? (last as Answer) : noAnswer);
  }

  receive(event: unknown, payload: unknown, answer: Answer): void {
    const now = clock.now();
    if (this.#isTooMuch(event, payload, now)) return this.#refuseExcess(answer, now);
    if (!isAgentEvent(event)) return this.#refuse(answer, 'UNKNOWN_EVENT', 'There is no such event.');
    if (event === 'heartbeat' && isPlainHeartbeat(payload)) return this.#take(event, payload, answer, now);
    const parsed = AGENT_EVENTS[event].safeParse(payload);
    if (!parsed.success) {
      const issue = parsed.error.issues[0];
      return this.#refuse(
        answer,
        'VALIDATION_FAILED',
        `${issue?.path.join('.') || 'payload'}: ${issue?.message ?? 'not valid'}`,
      );
    }
    this.#take(event, parsed.data, answer, now);
  }

  /** @param message  parsed by the schema of its event */
  #take(event: AgentEvent, message: unknown, answer: Answer, now: number): void {
    this.#badInARow = 0;
    this.#actor.heard(now);
    // The table pairs each event with that schema.
    (HANDLE[event] as (actor: DeviceActor, message: unknown, answer: Answer) => void)(
      this.#actor,
      message,
      answer,
    );
  }

  #refuse(answer: Answer, code: string, message: string): void {
    this.#badInARow += 1;
    this.#meters.onBadMessage();
    answer({ ok: false, error: { code, message } });
    if (this.#badInARow === MAX_BAD_MESSAGES) this.#disconnect();
  }

  /** Counts the message. A window can begin in the future if the clock was set back. */
  #isTooMuch(event: unknown, payload: unknown, now: number): boolean {
    const elapsed = now - this.#windowStart;
    if (elapsed >= WINDOW_MS || elapsed < 0) {
      this.#windowStart = now;
      this.#messages = 0;
      this.#answers = 0;
    }
    if (event !== 'heartbeat' && this.#actor.hasOpenQuery(idOf(payload))) {
      this.#answers += 1;
      return this.#answers > ANSWERS_MAX;
    }
    this.#messages += 1;
    return this.#messages > MESSAGES_PER_WINDOW;
  }

  #refuseExcess(answer: Answer, now: number): void {
    this.#meters.onExcess();
    const retryAfterMs = this.#windowStart + WINDOW_MS - now;
    answer({ ok: false, error: { ...BUSY.error, retryAfterMs } } satisfies ErrorAck);
    if (this.#messages >= MESSAGES_MAX || this.#answers > ANSWERS_MAX) this.#disconnect();
  }

  #disconnect(): void {
    this.#actor.stop({ afterMs: 60_000, reason: 'protocol_violation' }, 'socket_closed');
  }
}

const idOf = (payload: unknown): unknown =>
  typeof payload === 'object' && payload !== null && 'id' in payload ? payload.id : undefined;

function isAgentEvent(event: unknown): event is AgentEvent {
  return typeof event === 'string' && Object.hasOwn(AGENT_EVENTS, event);
}
