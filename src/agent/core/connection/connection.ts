import { io, type Socket } from 'socket.io-client';
import {
  AGENT_NAMESPACE,
  AGENT_QUERY,
  CommandCancel,
  CommandFrame,
  HUB_PATH,
  HeartbeatAck,
  HubReconnect,
  PROTOCOL_VERSION,
  Refusal,
  type AgentHandshake,
  isDurable,
  type ErrorAck,
  type Heartbeat,
} from '../../../protocol/index.ts';
import { type AnswerChannel, channelOver } from './answer-channel.ts';
import { requestedDelay, heartbeatDelay, reconnectDelay, refusedDelay } from '../server/back-off.ts';
import { describeError } from '../agent-error.ts';
import { printable } from '../plain-text.ts';
import type { ServerClock } from '../server/server-clock.ts';
import type { Tokens } from '../enrollment/tokens.ts';
import { onHandshakeRefusal } from './handshake-refusal.ts';

/** The state of the agent's connection, for people and for the status file. */
export type ConnectionState =
  | { state: 'connecting' }
  | { state: 'connected'; since: string; lastHeartbeatAt: string | null }
  | { state: 'waiting'; nextTryAt: string; reason: string }
  | { state: 'stopped' };

/** Runs the live queries of the server. They end with the connection. */
export interface LiveQueries {
  run(frame: CommandFrame, channel: AnswerChannel): Promise<void>;
  cancel(id: string): void;
  cancelAll(): void;
}

/** Carries out the commands of the server's ledger, over however many connections that takes. */
export interface DurableCommands {
  /** Resolves when the command is on disk. Rejects with `AgentError` where the agent does not accept it. */
  accept(frame: CommandFrame): Promise<void>;
  /** Resolves when the cancellation outlives a restart. */
  cancel(id: string): Promise<void>;
  attach(channel: AnswerChannel): void;
  detach(): void;
}

export interface ConnectionOptions {
  server: string;
  /** The path of the hub on the server, where it is not the default one. */
  hubPath?: string;
  tokens: Tokens;
  handshake: Omit<AgentHandshake, 'protocol' | 'token'>;
  queries: LiveQueries;
  /** The connection neither starts nor stops it. */
  durable: DurableCommands;
  clock: ServerClock;
  heartbeat: () => Promise<Heartbeat>;
  onState: (state: ConnectionState) => void;
  /** For tests: a number from 0 to 1. */
  random?: () => number;
  /** How long the hub may take to acknowledge a message (default 10 s). */
  ackMs?: number;
}

type Ack = (answer: { ok: true } | ErrorAck) => void;

const CONNECT_MS = 15_000;
const ACK_MS = 10_000;
const MISSED_HEARTBEATS = 2;

/** Keeps one connection to the hub open: reconnects after each loss, at the right time, and sends heartbeats. */
export class AgentConnection {
  readonly #options: ConnectionOptions;
  readonly #random: () => number;
  readonly #ackMs: number;
  #socket: Socket | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #failedAttempts = 0;
  #missedHeartbeats = 0;
  #isBeating = false;
  #beatsAgain = false;
  #notice: HubReconnect | undefined;
  #stopped = false;
  #connectedSince = '';

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.#ackMs = options.ackMs ?? ACK_MS;
  }

  start(): void {
    this.#connect();
  }

  /** Sends a heartbeat at once, to report a change before the next one is due. */
  heartbeatNow(): void {
    if (this.#socket?.connected !== true) return;
    if (this.#isBeating) this.#beatsAgain = true;
    else this.#heartbeatIn(0, this.#socket);
  }

  /** Cancels live queries, closes the connection and does not reconnect. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#heartbeatTimer);
    this.#options.queries.cancelAll();
    this.#options.durable.detach();
    this.#socket?.disconnect();
    this.#options.onState({ state: 'stopped' });
  }

  #connect(): void {
    this.#options.onState({ state: 'connecting' });
    const { tokens, handshake } = this.#options;
    let token = '';
    let handshakeRefusal: Refusal | undefined;
    const socket = io(`${this.#options.server}${AGENT_NAMESPACE}`, {
      path: this.#options.hubPath ?? HUB_PATH,
      transports: ['websocket'],
      query: AGENT_QUERY,
      // This class decides when to reconnect: as the hub has asked, and with a jitter that suits a fleet.
      reconnection: false,
      forceNew: true,
      timeout: CONNECT_MS,
      auth: (send) => {
        void tokens.current().then((current) => {
          token = current;
          send({ ...handshake, token, protocol: PROTOCOL_VERSION } satisfies AgentHandshake);
        });
      },
    });
    onHandshakeRefusal(socket, (refusal) => (handshakeRefusal = refusal));
    this.#socket = socket;
    this.#notice = undefined;
    const { queries, durable } = this.#options;
    const channel = channelOver(socket, this.#ackMs);

    socket.on('connect', () => {
      void tokens.accepted(token);
      this.#failedAttempts = 0;
      this.#missedHeartbeats = 0;
      this.#connectedSince = new Date().toISOString();
      this.#options.onState({ state: 'connected', since: this.#connectedSince, lastHeartbeatAt: null });
      this.#isBeating = false;
      this.#beatsAgain = false;
      this.#heartbeatIn(0, socket);
      durable.attach(channel);
    });
    socket.on('connect_error', (error: Error & { data?: unknown }) => {
      socket.disconnect();
      const refusal = Refusal.safeParse(handshakeRefusal ?? error.data);
      this.#failedAttempts += 1;
      if (refusal.data?.code === 'UNAUTHENTICATED' && tokens.refused(token)) {
        this.#wait(
          reconnectDelay(1, this.#random),
          'The server refused the token. The agent tries its other token.',
        );
      } else if (refusal.success) this.#waitAfterRefusal(refusal.data, error.message);
      else {
        const reason = `The server could not be reached: ${printable(error.message)}.`;
        this.#wait(reconnectDelay(this.#failedAttempts, this.#random), reason);
      }
    });
    socket.on('disconnect', (reason) => {
      clearTimeout(this.#heartbeatTimer);
      queries.cancelAll();
      durable.detach();
      if (this.#notice !== undefined) {
        this.#wait(
          requestedDelay(this.#notice.afterMs, this.#random),
          `The server ended the connection (${this.#notice.reason}).`,
        );
      } else {
        this.#wait(
          reconnectDelay(this.#failedAttempts++, this.#random),
          `The connection was lost (${reason}).`,
        );
      }
    });
    socket.on('command', (message: unknown, last?: unknown) => {
      const ack = ackIn(last);
      const frame = CommandFrame.safeParse(message);
      if (!frame.success) return ack(invalid('The command does not match its schema.'));
      if (isDurable(frame.data.type)) {
        durable.accept(frame.data).then(
          () => ack({ ok: true }),
          (error: unknown) => ack({ ok: false, error: describeError(error) }),
        );
        return;
      }
      ack({ ok: true });
      // Each failure of a query is reported in its result. Without a connection it cannot be reported.
      void queries.run(frame.data, channel).catch(() => {});
    });
    socket.on('command:cancel', (message: unknown, last?: unknown) => {
      const ack = ackIn(last);
      const cancel = CommandCancel.safeParse(message);
      if (!cancel.success) return ack(invalid('The cancellation does not match its schema.'));
      const { id } = cancel.data;
      queries.cancel(id);
      durable.cancel(id).then(
        () => ack({ ok: true }),
        (error: unknown) => ack({ ok: false, error: describeError(error) }),
      );
    });
    socket.on('hub:reconnect', (message: unknown, last?: unknown) => {
      const ack = ackIn(last);
      const notice = HubReconnect.safeParse(message);
      if (!notice.success) return ack(invalid('The notice does not match its schema.'));
      ack({ ok: true });
      this.#notice = notice.data;
      // The hub closes the connection. This is for a hub that ends before it does so.
      setTimeout(() => socket.disconnect(), 1000).unref();
    });
  }

  #waitAfterRefusal({ code, retryAfterMs }: Refusal, message: string): void {
    const reason = `The server refused the connection: ${code}: ${printable(message).replace(/\.$/, '')}.`;
    const needsPeople =
      code === 'UNAUTHENTICATED' ||
      code === 'DECOMMISSIONED' ||
      code === 'PROTOCOL_UNSUPPORTED' ||
      code === 'TENANT_INACTIVE';
    if (retryAfterMs !== undefined) this.#wait(requestedDelay(retryAfterMs, this.#random), reason);
    else if (needsPeople) this.#wait(refusedDelay(this.#failedAttempts, this.#random), reason);
    else this.#wait(reconnectDelay(this.#failedAttempts, this.#random), reason);
  }

  #wait(ms: number, reason: string): void {
    if (this.#stopped) return;
    clearTimeout(this.#retryTimer);
    this.#options.onState({ state: 'waiting', nextTryAt: new Date(Date.now() + ms).toISOString(), reason });
    this.#retryTimer = setTimeout(() => this.#connect(), ms);
  }

  #heartbeatIn(ms: number, socket: Socket): void {
    clearTimeout(this.#heartbeatTimer);
    this.#heartbeatTimer = setTimeout(() => {
      this.#isBeating = true;
      this.#beat(socket).then(
        (nextInMs) => this.#heartbeatAnswered(heartbeatDelay(nextInMs, this.#random), socket),
        () => this.#heartbeatMissed(socket),
      );
    }, ms);
  }

  async #beat(socket: Socket): Promise<number> {
    const heartbeat = await this.#options.heartbeat();
    const setClock = this.#options.clock.startReading();
    const answer = HeartbeatAck.parse(await socket.timeout(this.#ackMs).emitWithAck('heartbeat', heartbeat));
    setClock(answer.at);
    this.#missedHeartbeats = 0;
    const lastHeartbeatAt = this.#options.clock.timestamp();
    this.#options.onState({ state: 'connected', since: this.#connectedSince, lastHeartbeatAt });
    return answer.nextInMs;
  }

  #heartbeatAnswered(nextInMs: number, socket: Socket): void {
    if (!socket.connected || socket !== this.#socket) return;
    this.#isBeating = false;
    this.#heartbeatIn(this.#beatsAgain ? 0 : nextInMs, socket);
    this.#beatsAgain = false;
  }

  /** A hub that misses two heartbeats counts as lost, even where the socket is still open. */
  #heartbeatMissed(socket: Socket): void {
    if (!socket.connected || socket !== this.#socket) return;
    this.#isBeating = false;
    this.#missedHeartbeats += 1;
    if (this.#missedHeartbeats >= MISSED_HEARTBEATS) socket.disconnect();
    else this.#heartbeatIn(1000, socket);
  }
}

const invalid = (message: string): ErrorAck => ({ ok: false, error: { code: 'VALIDATION_FAILED', message } });

/** A server that wants no acknowledgement sends no function. Anything else in its place is ignored. */
function ackIn(last: unknown): Ack {
  return isAck(last) ? last : () => {};
}

const isAck = (value: unknown): value is Ack => typeof value === 'function';
