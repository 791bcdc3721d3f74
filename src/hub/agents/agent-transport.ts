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
import type { UpgradeGate } from '../sockets/upgrade-gate.ts';
import { AgentSocketFastPath } from './agent-socket-fast-path.ts';
import type { LiveQueryFailure } from '../device/live-query.ts';
import type { DeviceActor } from '../device/device-actor.ts';
import { releaseHandshake } from '../sockets/release-handshake.ts';
import type { AgentCredentials, AgentIdentity } from '../ports/agent-credentials.ts';

interface SocketData {
  identity: AgentIdentity;
  handshake: AgentHandshake;
}
type AgentSocket = Socket<AgentToHub, HubToAgent, DefaultEventsMap, SocketData>;

/** An agent that acknowledges nothing is disconnected after this many messages. Commands are sent to it again. */
const MAX_UNACKNOWLEDGED = 200;

export interface AgentTransport {
  namespace: Namespace<AgentToHub, HubToAgent, DefaultEventsMap, SocketData>;
}

/** Serves agents on their namespace: authenticates each connection and connects it with an actor. */
export function serveAgents(
  io: Server,
  parts: {
    credentials: AgentCredentials;
    log: Logger;
    gate: Pick<UpgradeGate, 'refusal' | 'refund' | 'refundAttempt'>;
    proxyTrust: ProxyTrust;
    onBadMessage: () => void;
    /** A message was refused because its agent sends too many. */
    onExcess: () => void;
    /** An agent was disconnected because it did not read what it was sent. */
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
    admit(socket, parts.credentials, parts.gate).then(
      (refusal) => {
        // Only an invalid token or an unknown protocol counts as a failed attempt.
        if (refusal === undefined || !FAILURES.has(refusal.code)) parts.gate.refundAttempt(request);
        next(refusal === undefined ? undefined : refusalError(refusal));
      },
      (error: unknown) => {
        parts.gate.refundAttempt(request);
        parts.log.warn({ err: error }, 'hub.handshake_failed');
        next(refusalError({ code: 'BUSY', retryAfterMs: 5000 }));
      },
    );
  });

  namespace.on('connection', (socket) => {
    const { identity, handshake } = socket.data;
    const { address: peer, headers } = socket.handshake;
    const { ip } = clientAddress({ peer, headers }, parts.proxyTrust);
    releaseHandshake(socket);
    const fastPath = new AgentSocketFastPath(socket, EVENT_NAMES, () => {
      parts.log.warn({ deviceId: identity.deviceId }, 'hub.agent_reads_nothing');
      parts.onUnread();
    });
    const actor = parts.connected({
      identity,
      handshake,
      link: new SocketLink(socket, fastPath, parts.onBadMessage),
      ip,
    });
    const inbox = new AgentInbox(actor, parts);
    fastPath.install(inbox);
    // Receives every event that reaches Socket.IO. It passes none on, because there are no listeners behind it.
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

const TOO_LARGE: LiveQueryFailure = {
  reason: 'agent',
  code: AgentErrorCode.tooLarge,
  message: `The agent sent more than ${AGENT_MESSAGE_MAX_BYTES} bytes in one message, which ended its connection.`,
};

/** Engine.IO passes on only the text of the websocket's error. */
const isTooLarge = (details: unknown) =>
  details instanceof Error && details.message.includes('Max payload size exceeded');

async function admit(
  socket: AgentSocket,
  credentials: AgentCredentials,
  gate: Pick<UpgradeGate, 'refusal' | 'refund'>,
): Promise<Refusal | undefined> {
  const handshake = AgentHandshake.safeParse(socket.handshake.auth);
  if (!handshake.success) return { code: 'UNAUTHENTICATED' };
  if (handshake.data.protocol !== PROTOCOL_VERSION) return { code: 'PROTOCOL_UNSUPPORTED' };
  const closed = gate.refusal(socket.request);
  if (closed !== undefined) return closed;
  const verdict = await credentials.verify(handshake.data.token);
  if (!verdict.ok) {
    gate.refund();
    return { code: verdict.code };
  }
  socket.data = { identity: verdict.identity, handshake: { ...handshake.data, token: '' } };
  return undefined;
}

/** Socket.IO passes `data` of the error to the client's `connect_error` event. */
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

// For messages whose receipt has no effect: a live query ends by its result or its deadline.
const ignoreReceipt = () => {};

class SocketLink implements DeviceLink {
  readonly #socket: AgentSocket;
  readonly #fastPath: AgentSocketFastPath;
  readonly #onBadMessage: () => void;

  constructor(socket: AgentSocket, fastPath: AgentSocketFastPath, onBadMessage: () => void) {
    this.#socket = socket;
    this.#fastPath = fastPath;
    this.#onBadMessage = onBadMessage;
  }

  sendCommand(frame: CommandFrame, receipt?: (answer: CommandReceipt) => void): void {
    if (receipt === undefined) return this.#emit('command', frame, ignoreReceipt);
    this.#emit('command', frame, (answer) => {
      const parsed = CommandReceipt.safeParse(answer);
      if (parsed.success) receipt(parsed.data);
      // An invalid receipt counts as none: the result or the next connection shows whether the agent has the command.
      else this.#onBadMessage();
    });
  }

  sendCancel(message: CommandCancel): void {
    this.#emit('command:cancel', message, ignoreReceipt);
  }

  /** Limits unacknowledged messages, because their callbacks are kept as long as the connection lasts. */
  #emit(
    event: keyof HubToAgent,
    message: CommandFrame | CommandCancel,
    receipt: (answer: unknown) => void,
  ): void {
    this.#fastPath.emit(event, message, receipt);
    if (this.#fastPath.unacknowledged > MAX_UNACKNOWLEDGED) {
      this.close({ afterMs: 60_000, reason: 'protocol_violation' });
    }
  }

  endIfUnread(): void {
    this.#fastPath.endIfUnread();
  }

  close(notice: HubReconnect | undefined): void {
    if (notice !== undefined) this.#fastPath.emit('hub:reconnect', notice, ignoreReceipt);
    // The notice is written first.
    setImmediate(() => this.#socket.disconnect(true));
  }
}
