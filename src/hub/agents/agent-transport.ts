import type { IncomingMessage } from 'node:http';
import type { DefaultEventsMap, Namespace, Server, Socket } from 'socket.io';
import {
  AGENT_EVENTS,
  AGENT_MESSAGE_MAX_BYTES,
  AGENT_NAMESPACE,
  AgentErrorCode,
  AgentHandshake,
  CommandReceipt,
  PROTOCOL_VERSION,
  type AgentToHub,
  type CommandCancel,
  type CommandFrame,
  type HubReconnect,
  type HubToAgent,
  type Refusal,
} from '../../protocol/index.ts';
import { clientAddress, type ProxyTrust } from '../../platform/http/client-address.ts';
import type { Logger } from '../../platform/logger.ts';
import type { DeviceLink } from '../device/actor-messages.ts';
import { AgentInbox } from './agent-inbox.ts';
import { AgentWire } from './agent-socket-fast-path.ts';
import type { AskFailure } from '../device/live-query.ts';
import type { DeviceActor } from '../device/device-actor.ts';
import { forgetHandshake } from '../sockets/release-handshake.ts';
import type { AgentCredentials, AgentIdentity } from '../ports.ts';

interface SocketData {
  identity: AgentIdentity;
  handshake: AgentHandshake;
}
type AgentSocket = Socket<AgentToHub, HubToAgent, DefaultEventsMap, SocketData>;

/** An agent that acknowledges nothing is sent away after so many messages; what it has is sent to it again. */
const MAX_UNACKNOWLEDGED = 200;

export interface AgentTransport {
  namespace: Namespace<AgentToHub, HubToAgent, DefaultEventsMap, SocketData>;
}

interface Door {
  /** Of a request that has passed it before, nothing. */
  refusal(request: IncomingMessage): Refusal | undefined;
  giveBack(): void;
  /** It was no failed try of whoever came by this request. */
  hasNotFailed(request: IncomingMessage): void;
}

/** The only place where agents meet Socket.IO: who connects, and each message parsed before it goes on. */
export function serveAgents(
  io: Server,
  parts: {
    credentials: AgentCredentials;
    log: Logger;
    /** A reason to turn agents away now, such as a shutdown; and who was let in for nothing. */
    door: Door;
    proxyTrust: ProxyTrust;
    onBadMessage: () => void;
    /** A message was refused because its agent sends too many. */
    onExcess: () => void;
    /** An agent was disconnected because it does not read what it is sent. */
    onUnread: () => void;
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
    const { request } = socket;
    admit(socket, parts.credentials, parts.door).then(
      (refusal) => {
        // Only whoever has no token of ours is to blame for it.
        if (refusal === undefined || !FAILURES.has(refusal.code)) parts.door.hasNotFailed(request);
        next(refusal === undefined ? undefined : refusalError(refusal));
      },
      (error: unknown) => {
        parts.door.hasNotFailed(request);
        parts.log.warn({ err: error }, 'hub.handshake_failed');
        next(refusalError({ code: 'BUSY', retryAfterMs: 5000 }));
      },
    );
  });

  namespace.on('connection', (socket) => {
    const { identity, handshake } = socket.data;
    const { address: peer, headers } = socket.handshake;
    const { ip } = clientAddress({ peer, headers }, parts.proxyTrust);
    forgetHandshake(socket);
    const wire = new AgentWire(socket, EVENT_NAMES, () => {
      parts.log.warn({ deviceId: identity.deviceId }, 'hub.agent_reads_nothing');
      parts.onUnread();
    });
    const actor = parts.connected({
      identity,
      handshake,
      link: new SocketLink(socket, wire, parts.onBadMessage),
      ip,
    });
    const inbox = new AgentInbox(actor, parts);
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

const FAILURES: ReadonlySet<Refusal['code']> = new Set(['UNAUTHENTICATED', 'PROTOCOL_UNSUPPORTED']);

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

  endIfUnread(): void {
    this.#wire.endIfUnread();
  }

  close(notice: HubReconnect | undefined): void {
    if (notice !== undefined) this.#wire.emit('hub:reconnect', notice, received);
    // Behind the notice, which is written first.
    setImmediate(() => this.#socket.disconnect(true));
  }
}
