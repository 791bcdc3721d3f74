import type { IncomingMessage } from 'node:http';
import type { DefaultEventsMap, Namespace, Server, Socket } from 'socket.io';
import type { z } from 'zod';
import {
  AGENT_EVENTS,
  AGENT_MESSAGE_MAX_BYTES,
  AGENT_NAMESPACE,
  AgentErrorCode,
  AgentHandshake,
  CommandReceipt,
  PROTOCOL_VERSION,
  type AgentEvent,
  type AgentToHub,
  type CommandCancel,
  type CommandFrame,
  type HubReconnect,
  type HubToAgent,
  type OkAck,
  type Refusal,
} from '../protocol/index.ts';
import type { Logger } from '../platform/logger.ts';
import { BUSY, type DeviceLink } from './actor-messages.ts';
import { AgentWire, unanswered, type Answer, type Listener } from './agent-wire.ts';
import type { AskFailure } from './ask.ts';
import type { DeviceActor } from './device-actor.ts';
import { forgetHandshake } from './forget-handshake.ts';
import type { AgentCredentials, AgentIdentity } from './ports.ts';
import { isPlainHeartbeat } from './quick-heartbeat.ts';

interface SocketData {
  identity: AgentIdentity;
  handshake: AgentHandshake;
}
type AgentSocket = Socket<AgentToHub, HubToAgent, DefaultEventsMap, SocketData>;

/** So many messages that cannot be read, one after the other, end the connection. */
const MAX_BAD_MESSAGES = 50;
/** An agent that acknowledges nothing is sent away after so many messages; what it has is sent to it again. */
const MAX_UNACKNOWLEDGED = 200;

export interface AgentTransport {
  namespace: Namespace<AgentToHub, HubToAgent, DefaultEventsMap, SocketData>;
}

interface Door {
  /** Of a request that has passed it before, nothing. */
  refusal(request: IncomingMessage): Refusal | undefined;
  giveBack(): void;
}

/** The only place where agents meet Socket.IO: who connects, and each message parsed before it goes on. */
export function serveAgents(
  io: Server,
  parts: {
    credentials: AgentCredentials;
    log: Logger;
    /** A reason to turn agents away now, such as a shutdown; and who was let in for nothing. */
    door: Door;
    onBadMessage: () => void;
    connected: (options: {
      identity: AgentIdentity;
      handshake: AgentHandshake;
      link: DeviceLink;
      ip: string;
    }) => DeviceActor;
  },
): AgentTransport {
  const namespace: AgentTransport['namespace'] = io.of(AGENT_NAMESPACE);

  namespace.use((socket, next) => {
    admit(socket, parts.credentials, parts.door).then(
      (refusal) => next(refusal === undefined ? undefined : refusalError(refusal)),
      (error: unknown) => {
        parts.log.warn({ err: error }, 'hub.handshake_failed');
        next(refusalError({ code: 'BUSY', retryAfterMs: 5000 }));
      },
    );
  });

  namespace.on('connection', (socket) => {
    const { identity, handshake } = socket.data;
    const ip = socket.handshake.address.replace(/^::ffff:/, '');
    forgetHandshake(socket);
    const wire = new AgentWire(socket, EVENT_NAMES);
    const actor = parts.connected({
      identity,
      handshake,
      link: new SocketLink(socket, wire, parts.onBadMessage),
      ip,
    });
    const inbox = new Inbox(actor, parts.onBadMessage);
    wire.listen(inbox);
    // Takes every event that comes by Socket.IO, and hands none on: there are no listeners behind it.
    socket.use((event) => inbox.receiveArgs(event));
    socket.on('disconnect', (_reason, details) => {
      if (!isTooLarge(details)) return actor.linkClosed();
      parts.log.warn({ deviceId: identity.deviceId }, 'hub.message_too_large');
      actor.linkClosed(TOO_LARGE);
    });
  });
  return { namespace };
}

const EVENT_NAMES: ReadonlySet<string> = new Set(Object.keys(AGENT_EVENTS));

const TOO_LARGE: AskFailure = {
  reason: 'agent',
  code: AgentErrorCode.tooLarge,
  message: `The agent sent more than ${AGENT_MESSAGE_MAX_BYTES} bytes in one message, which ended its connection.`,
};

/** Engine.IO hands on no more of the error of the socket underneath than its text. */
const isTooLarge = (details: unknown) =>
  details instanceof Error && details.message.includes('Max payload size exceeded');

async function admit(
  socket: AgentSocket,
  credentials: AgentCredentials,
  door: Door,
): Promise<Refusal | undefined> {
  const handshake = AgentHandshake.safeParse(socket.handshake.auth);
  if (!handshake.success) return { code: 'UNAUTHENTICATED' };
  if (handshake.data.protocol !== PROTOCOL_VERSION) return { code: 'PROTOCOL_UNSUPPORTED' };
  const closed = door.refusal(socket.request);
  if (closed !== undefined) return closed;
  const verdict = await credentials.verify(handshake.data.token);
  if (!verdict.ok) {
    door.giveBack();
    return { code: verdict.code };
  }
  socket.data = { identity: verdict.identity, handshake: { ...handshake.data, token: '' } };
  return undefined;
}

/** Socket.IO hands `data` of the error to the client's `connect_error`. */
function refusalError(refusal: Refusal): Error {
  return Object.assign(new Error(REFUSAL_TEXT[refusal.code]), { data: refusal });
}

const REFUSAL_TEXT: Record<Refusal['code'], string> = {
  UNAUTHENTICATED: 'The agent token is not valid.',
  DECOMMISSIONED: 'The device has been decommissioned.',
  TENANT_INACTIVE: 'The organization of this device is not active.',
  BUSY: 'The server is busy. Try again later.',
  DRAINING: 'The server is shutting down. Try again later.',
  PROTOCOL_UNSUPPORTED: `This server speaks protocol ${PROTOCOL_VERSION}.`,
};

// The agent's receipt, where nothing hangs on it: the answer to a live question, or its deadline, decides.
const received = () => {};

class SocketLink implements DeviceLink {
  readonly #socket: AgentSocket;
  readonly #wire: AgentWire;
  readonly #onBadMessage: () => void;

  constructor(socket: AgentSocket, wire: AgentWire, onBadMessage: () => void) {
    this.#socket = socket;
    this.#wire = wire;
    this.#onBadMessage = onBadMessage;
  }

  sendCommand(frame: CommandFrame, receipt?: (answer: CommandReceipt) => void): void {
    if (receipt === undefined) return this.#emit('command', frame, received);
    this.#emit('command', frame, (answer) => {
      const parsed = CommandReceipt.safeParse(answer);
      if (parsed.success) receipt(parsed.data);
      // As good as none: whether the agent has the command, its result or the next connection will show.
      else this.#onBadMessage();
    });
  }

  sendCancel(message: CommandCancel): void {
    this.#emit('command:cancel', message, received);
  }

  /** What waits for an acknowledgement is kept for as long as the connection lasts. */
  #emit(
    event: keyof HubToAgent,
    message: CommandFrame | CommandCancel,
    receipt: (answer: unknown) => void,
  ): void {
    this.#wire.emit(event, message, receipt);
    if (this.#wire.unacknowledged > MAX_UNACKNOWLEDGED) {
      this.close({ afterMs: 60_000, reason: 'protocol_violation' });
    }
  }

  close(notice: HubReconnect | undefined): void {
    if (notice !== undefined) this.#wire.emit('hub:reconnect', notice, received);
    // Behind the notice, which is written first.
    setImmediate(() => this.#socket.disconnect(true));
  }
}

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

/** What an agent says, parsed before its actor hears it. */
class Inbox implements Listener {
  readonly #actor: DeviceActor;
  readonly #onBadMessage: () => void;
  #badInARow = 0;

  constructor(actor: DeviceActor, onBadMessage: () => void) {
    this.#actor = actor;
    this.#onBadMessage = onBadMessage;
  }

  /** As Socket.IO hands it on, what the wire has left to it: an event that is none of ours, or a strange packet. */
  receiveArgs(args: readonly unknown[]): void {
    const [event, payload] = args;
    const last = args.at(-1);
    this.receive(event, payload, typeof last === 'function' ? (last as Answer) : unanswered);
  }

  receive(event: unknown, payload: unknown, answer: Answer): void {
    if (!isAgentEvent(event)) return this.#refuse(answer, 'UNKNOWN_EVENT', 'There is no such event.');
    if (event === 'heartbeat' && isPlainHeartbeat(payload)) return this.#take(event, payload, answer);
    const parsed = AGENT_EVENTS[event].safeParse(payload);
    if (!parsed.success) {
      const issue = parsed.error.issues[0];
      return this.#refuse(
        answer,
        'VALIDATION_FAILED',
        `${issue?.path.join('.') || 'payload'}: ${issue?.message ?? 'not valid'}`,
      );
    }
    this.#take(event, parsed.data, answer);
  }

  /** @param message  as the schema of its event has it */
  #take(event: AgentEvent, message: unknown, answer: Answer): void {
    this.#badInARow = 0;
    this.#actor.heard(Date.now());
    // The table pairs each event with that schema.
    (HANDLE[event] as (actor: DeviceActor, message: unknown, answer: Answer) => void)(
      this.#actor,
      message,
      answer,
    );
  }

  #refuse(answer: Answer, code: string, message: string): void {
    this.#badInARow += 1;
    this.#onBadMessage();
    answer({ ok: false, error: { code, message } });
    if (this.#badInARow === MAX_BAD_MESSAGES) {
      this.#actor.stop({ afterMs: 60_000, reason: 'protocol_violation' }, 'socket_closed');
    }
  }
}

function isAgentEvent(event: unknown): event is AgentEvent {
  return typeof event === 'string' && Object.hasOwn(AGENT_EVENTS, event);
}
