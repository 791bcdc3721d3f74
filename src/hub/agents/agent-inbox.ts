import type { z } from 'zod';
import { AGENT_EVENTS, type AgentEvent, type ErrorAck, type OkAck } from '../../protocol/index.ts';
import { BUSY } from '../device/actor-messages.ts';
import { unanswered, type Answer, type Listener } from './agent-socket-fast-path.ts';
import type { DeviceActor } from '../device/device-actor.ts';
import { isPlainHeartbeat } from './heartbeat-fast-path.ts';

/** So many messages that cannot be read, one after the other, end the connection. */
const MAX_BAD_MESSAGES = 50;

/**
 * What one connection may send within a window of time. Far more than an agent of any make has reason to send, and far
 * less than one needs to keep the server from its work.
 */
const WINDOW_MS = 10_000;
/** Messages that nobody has asked for: what is beyond is refused, and comes again. */
const MESSAGES_A_WINDOW = 500;
/** An agent that goes on all the same is sent away. */
const MESSAGES_THAT_END = 2000;
/** Rows and results of live questions, which are as many as people ask for. */
const ANSWERS_THAT_END = 20_000;

type Messages = { [E in AgentEvent]: z.infer<(typeof AGENT_EVENTS)[E]> };

const OK: OkAck = { ok: true };

/** What becomes of each message that could be read. */
const HANDLE: {
  readonly [E in AgentEvent]: (actor: DeviceActor, message: Messages[E], answer: Answer) => void;
} = {
  heartbeat(actor, heartbeat, answer) {
    if (!actor.tell({ kind: 'heartbeat', heartbeat, at: actor.lastHeardAt, ack: answer })) answer(BUSY);
  },
  'command:rows'(actor, rows, answer) {
    answer(actor.tell({ kind: 'rows', rows }) ? OK : BUSY);
  },
  'command:result'(actor, result, answer) {
    // The agent keeps a result until it is safe here.
    const ack = (isKept: boolean) => answer(isKept ? OK : BUSY);
    if (!actor.tell({ kind: 'result', result, ack })) answer(BUSY);
  },
  'command:progress'(actor, progress, answer) {
    answer(actor.tell({ kind: 'progress', progress }) ? OK : BUSY);
  },
  // Upgrades come later; their phases are taken note of.
  'update:status': (_actor, _status, answer) => answer(OK),
};

/** Takes what an agent sends: within bounds, and parsed before its actor gets it. */
export class AgentInbox implements Listener {
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

  /** As Socket.IO hands it on, what the wire has left to it: an event that is none of ours, or a strange packet. */
  receiveArgs(args: readonly unknown[]): void {
    const [event, payload] = args;
    const last = args.at(-1);
    this.receive(event, payload, typeof last === 'function' ? (last as Answer) : unanswered);
  }

  receive(event: unknown, payload: unknown, answer: Answer): void {
    const now = Date.now();
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

  /** @param message  as the schema of its event has it */
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
    if (this.#badInARow === MAX_BAD_MESSAGES) this.#sendAway();
  }

  /** Counts the message. A window that began in the future was begun by another clock. */
  #isTooMuch(event: unknown, payload: unknown, now: number): boolean {
    const elapsed = now - this.#windowStart;
    if (elapsed >= WINDOW_MS || elapsed < 0) {
      this.#windowStart = now;
      this.#messages = 0;
      this.#answers = 0;
    }
    if (event !== 'heartbeat' && this.#actor.hasAsked(idOf(payload))) {
      this.#answers += 1;
      return this.#answers > ANSWERS_THAT_END;
    }
    this.#messages += 1;
    return this.#messages > MESSAGES_A_WINDOW;
  }

  #refuseExcess(answer: Answer, now: number): void {
    this.#meters.onExcess();
    const retryAfterMs = this.#windowStart + WINDOW_MS - now;
    answer({ ok: false, error: { ...BUSY.error, retryAfterMs } } satisfies ErrorAck);
    if (this.#messages >= MESSAGES_THAT_END || this.#answers > ANSWERS_THAT_END) this.#sendAway();
  }

  #sendAway(): void {
    this.#actor.stop({ afterMs: 60_000, reason: 'protocol_violation' }, 'socket_closed');
  }
}

const idOf = (payload: unknown): unknown =>
  typeof payload === 'object' && payload !== null && 'id' in payload ? payload.id : undefined;

function isAgentEvent(event: unknown): event is AgentEvent {
  return typeof event === 'string' && Object.hasOwn(AGENT_EVENTS, event);
}
