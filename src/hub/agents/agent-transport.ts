import type { DefaultEventsMap, DisconnectReason, Namespace, Server, Socket } from 'socket.io';
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
  type TerminalControl,
} from '../../protocol/index.ts';
import { clientAddress, type ProxyTrust } from '../../platform/http/client-address.ts';
import type { Metrics } from '../../platform/metrics.ts';
import type { Logger } from '../../platform/logger.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { DeviceLink } from '../device/actor-messages.ts';
import { clock } from '../../clock.ts';
import { AgentInbox } from './agent-inbox.ts';
import type { UpgradeGate } from '../wire/admission.ts';
import { type AgentWire, chooseWire, type WirePath } from '../wire/agent-wire.ts';
import type { LiveQueryFailure } from '../device/live-query.ts';
import type { DeviceActor, LinkLoss } from '../device/device-actor.ts';
import { releaseHandshake } from '../wire/socket-server.ts';
import type { AgentCredentials, AgentIdentity, Claimant } from '../ports.ts';
import type { IdentityGuard } from './identity-guard.ts';

interface SocketData {
  identity: AgentIdentity;
  handshake: AgentHandshake;
  claimant: Claimant;
}
type AgentSocket = Socket<AgentToHub, HubToAgent, DefaultEventsMap, SocketData>;

/** An agent that acknowledges nothing is disconnected after this many messages. Commands are sent to it again. */
const MAX_UNACKNOWLEDGED = 200;
/** How long a replaced connection may take to acknowledge that. */
const NOTICE_MS = 1000;

export interface AgentTransport {
  namespace: Namespace<AgentToHub, HubToAgent, DefaultEventsMap, SocketData>;
}

export interface AgentParts {
  credentials: AgentCredentials;
  guard: IdentityGuard;
  log: Logger;
  metrics: Metrics;
  wirePath: WirePath;
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
    claimant: Claimant;
  }) => DeviceActor;
}

/** Serves agents on their namespace: authenticates each connection and connects it with an actor. */
export function serveAgents(io: Server, parts: AgentParts): AgentTransport {
  const namespace: AgentTransport['namespace'] = io.of(AGENT_NAMESPACE);
  const openWire = chooseWire(io, parts.wirePath, parts);

  namespace.use((socket, next) => {
    const { request } = socket;
    admit(socket, parts).then(
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
    const { identity, handshake, claimant } = socket.data;
    releaseHandshake(socket);
    const wire = openWire(socket, EVENT_NAMES, () => {
      parts.log.warn({ deviceId: identity.deviceId }, 'hub.agent_reads_nothing');
      parts.onUnread();
    });
    const actor = parts.connected({
      identity,
      handshake,
      link: new SocketLink(socket, wire, parts.onBadMessage),
      claimant,
    });
    const inbox = new AgentInbox(actor, parts);
    wire.install(inbox);
    // Receives every event that reaches Socket.IO. It passes none on, because there are no listeners behind it.
    socket.use((event) => inbox.receiveArgs(event));
    socket.on('disconnect', (reason, details) => {
      if (!isTooLarge(details)) return actor.linkClosed(undefined, linkLossOf(reason));
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

/** Engine.IO closes a connection on which no ping is answered, as when the machine has lost its network or its power. */
const linkLossOf = (reason: DisconnectReason): LinkLoss =>
  reason === 'ping timeout' ? 'heartbeat_missed' : 'socket_closed';

/** Engine.IO passes on only the text of the websocket's error. */
const isTooLarge = (details: unknown) =>
  details instanceof Error && details.message.includes('Max payload size exceeded');

async function admit(
  socket: AgentSocket,
  { credentials, gate, guard, proxyTrust }: Pick<AgentParts, 'credentials' | 'gate' | 'guard' | 'proxyTrust'>,
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
  const { identity } = verdict;
  const { bootId, hostname, serialNumber, macAddresses } = handshake.data;
  const { address: peer, headers } = socket.handshake;
  const { ip } = clientAddress({ peer, headers }, proxyTrust);
  const claimant = { bootId, ip, ...omitUndefined({ hostname, serialNumber, macAddresses }) };
  socket.data = { identity, handshake: { ...handshake.data, token: '' }, claimant };
  return guard.refusal(identity, claimant);
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
  IDENTITY_CONFLICT: 'Another running agent uses the identity of this device.',
  PROTOCOL_UNSUPPORTED: `This server speaks protocol ${PROTOCOL_VERSION}.`,
};

// For messages whose receipt has no effect: a live query ends by its result or its deadline.
const ignoreReceipt = () => {};

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

  sendTerminalControl(message: TerminalControl, onAcknowledged: () => void): void {
    this.#emit('terminal:control', message, onAcknowledged);
  }

  /** Limits unacknowledged messages, because their callbacks are kept as long as the connection lasts. */
  #emit(
    event: keyof HubToAgent,
    message: CommandFrame | CommandCancel | TerminalControl,
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

  close(notice: HubReconnect | undefined, onAcknowledged?: () => void): void {
    const disconnect = () => this.#socket.disconnect(true);
    if (notice?.reason !== 'superseded' || onAcknowledged === undefined) {
      if (notice !== undefined) this.#wire.emit('hub:reconnect', notice, ignoreReceipt);
      // The notice is written first.
      setImmediate(disconnect);
      return;
    }
    // Whether it is acknowledged tells a program that runs from a socket that is only left.
    const timer = clock.setTimeout(disconnect, NOTICE_MS);
    this.#wire.emit('hub:reconnect', notice, () => {
      clock.clear(timer);
      onAcknowledged();
      disconnect();
    });
  }

  answers(withinMs: number): Promise<boolean> {
    const { conn } = this.#socket;
    return new Promise((resolve) => {
      const settle = (isAlive: boolean) => {
        clock.clear(timer);
        conn.off('heartbeat', onPong);
        conn.off('close', onClose);
        resolve(isAlive);
      };
      const onPong = () => settle(true);
      const onClose = () => settle(false);
      const timer = clock.setTimeout(onClose, withinMs);
      // Emitted for each answer to a ping, which every Engine.IO client gives by itself, through any proxy.
      conn.on('heartbeat', onPong);
      conn.on('close', onClose);
      if (!this.#wire.ping()) onClose();
    });
  }
}
