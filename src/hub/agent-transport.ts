import type { DefaultEventsMap, Namespace, Server, Socket } from 'socket.io';
import type { z } from 'zod';
import {
  AGENT_EVENTS,
  AGENT_MESSAGE_MAX_BYTES,
  AGENT_NAMESPACE,
  AgentErrorCode,
  AgentHandshake,
  PROTOCOL_VERSION,
  type AgentEvent,
  type AgentToHub,
  type ErrorAck,
  type HubReconnect,
  type HubToAgent,
  type OkAck,
  type Refusal,
} from '../protocol/index.ts';
import type { Logger } from '../platform/logger.ts';
import { BUSY, type DeviceLink } from './actor-messages.ts';
import type { AskFailure } from './ask.ts';
import type { DeviceActor } from './device-actor.ts';
import type { AgentCredentials, AgentIdentity } from './ports.ts';

interface SocketData {
  identity: AgentIdentity;
  handshake: AgentHandshake;
}
type AgentSocket = Socket<AgentToHub, HubToAgent, DefaultEventsMap, SocketData>;

/** So many messages that cannot be read, one after the other, end the connection. */
const MAX_BAD_MESSAGES = 50;

export interface AgentTransport {
  namespace: Namespace<AgentToHub, HubToAgent, DefaultEventsMap, SocketData>;
}

interface Door {
  refusal(): Refusal | undefined;
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
    const actor = parts.connected({ identity, handshake, link: linkOver(socket), ip });
    receive(socket, actor, parts.onBadMessage);
    socket.on('disconnect', (_reason, details) => {
      if (!isTooLarge(details)) return actor.linkClosed();
      parts.log.warn({ deviceId: identity.deviceId }, 'hub.message_too_large');
      actor.linkClosed(TOO_LARGE);
    });
  });
  return { namespace };
}

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
  const closed = door.refusal();
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

function linkOver(socket: AgentSocket): DeviceLink {
  // The agent's receipt, where nothing hangs on it: the answer to a live question, or its deadline, decides.
  const received = () => {};
  return {
    sendCommand: (frame, receipt = received) => void socket.emit('command', frame, receipt),
    sendCancel: (message) => void socket.emit('command:cancel', message, received),
    close(notice: HubReconnect | undefined) {
      if (notice !== undefined) socket.emit('hub:reconnect', notice, received);
      // Behind the notice, which is written first.
      setImmediate(() => socket.disconnect(true));
    },
  };
}

type Answer = (answer: OkAck | ErrorAck | object) => void;

function receive(socket: AgentSocket, actor: DeviceActor, onBadMessage: () => void): void {
  let badInARow = 0;

  const refuse = (answer: Answer, code: string, message: string) => {
    badInARow += 1;
    onBadMessage();
    answer({ ok: false, error: { code, message } });
    if (badInARow === MAX_BAD_MESSAGES) {
      actor.stop({ afterMs: 60_000, reason: 'protocol_violation' }, 'socket_closed');
    }
  };

  const handle: { [E in AgentEvent]: (message: z.infer<(typeof AGENT_EVENTS)[E]>, answer: Answer) => void } =
    {
      heartbeat(heartbeat, answer) {
        if (!actor.tell({ kind: 'heartbeat', heartbeat, at: Date.now(), ack: answer })) answer(BUSY);
      },
      'command:rows'(rows, answer) {
        answer(actor.tell({ kind: 'rows', rows }) ? OK : BUSY);
      },
      'command:result'(result, answer) {
        // The agent keeps a result until it is safe here.
        const ack = (isKept: boolean) => answer(isKept ? OK : BUSY);
        if (!actor.tell({ kind: 'result', result, ack })) answer(BUSY);
      },
      'command:progress'(progress, answer) {
        answer(actor.tell({ kind: 'progress', progress }) ? OK : BUSY);
      },
      // Upgrades come later; their phases are taken note of.
      'update:status': (_status, answer) => answer(OK),
    };

  socket.onAny((event: string, ...args: unknown[]) => {
    const last = args.at(-1);
    const answer: Answer = typeof last === 'function' ? (last as Answer) : () => {};
    if (!isAgentEvent(event)) return refuse(answer, 'UNKNOWN_EVENT', 'There is no such event.');
    const parsed = AGENT_EVENTS[event].safeParse(args[0]);
    if (!parsed.success) {
      const issue = parsed.error.issues[0];
      return refuse(
        answer,
        'VALIDATION_FAILED',
        `${issue?.path.join('.') || 'payload'}: ${issue?.message ?? 'not valid'}`,
      );
    }
    badInARow = 0;
    actor.heard(Date.now());
    // The table pairs each event with the schema that has just parsed it.
    (handle[event] as (message: unknown, answer: Answer) => void)(parsed.data, answer);
  });
}

const OK: OkAck = { ok: true };

function isAgentEvent(event: string): event is AgentEvent {
  return Object.hasOwn(AGENT_EVENTS, event);
}
