import { io, type Socket } from 'socket.io-client';
import { clock, type Timer } from '../../clock.ts';
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
  TerminalControl,
  type AgentHandshake,
  isDurable,
  type ErrorAck,
} from '../../protocol/index.ts';
import { channelOver } from './answer-channel.ts';
import { requestedDelay, heartbeatDelay, reconnectDelay, refusedDelay, post } from './server-call.ts';
import { describeError } from './agent-error.ts';
import { printable } from './plain-text.ts';
import {
  reasonOf,
  type HandshakeAnswer,
  onHandshakeAnswer,
  type ConnectionOptions,
  type ConnectionState,
} from './connection-options.ts';
import { HttpHeartbeats } from './http-heartbeats.ts';

type Ack = (answer: { ok: true } | ErrorAck) => void;

const CONNECT_MS = 15_000;
const ACK_MS = 10_000;
const MISSED_HEARTBEATS = 2;
const HTTP_AFTER_MS = 30_000;
/**
 * A server that is completely unreachable is not harmed by frequent tries, and it limits the rate of a returning fleet
 * itself. After about ten minutes the agent tries less often, to save resources of its machine.
 */
const QUICK_CAP_MS = 8000;
const QUICK_TRIES = 150;
/** Once the server answers over HTTP, the socket is tried within this time. */
const ANSWERED_MS = 2000;

/**
 * Keeps one connection to the hub open: sends heartbeats, and reconnects after each loss at the right time. If the
 * socket is blocked, heartbeats are sent over HTTP.
 */
export class AgentConnection {
  readonly #options: ConnectionOptions;
  readonly #random: () => number;
  readonly #ackMs: number;
  readonly #http: HttpHeartbeats;
  #socketState: ConnectionState = { state: 'connecting' };
  #reason = '';
  #socket: Socket | undefined;
  #retryTimer: Timer | undefined;
  /** The current wait was not requested by the server, so it may be shortened. */
  #mayHurry = false;
  #heartbeatTimer: Timer | undefined;
  #failedAttempts = 0;
  #missedHeartbeats = 0;
  #isBeating = false;
  #beatsAgain = false;
  #notice: HubReconnect | undefined;
  #stopped = false;
  #isRenewing = false;
  #connectedSince = '';
  /** Whether the hub has answered a heartbeat on the current socket. */
  #isAcknowledged = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.#ackMs = options.ackMs ?? ACK_MS;
    const { server, network, deviceId, tokens, serverClock, heartbeat, handshake, onHeartbeatAck } = options;
    const path = `/agents/${encodeURIComponent(deviceId)}/heartbeat`;
    const nextBeat = (answer: HeartbeatAck) => this.#nextBeat(answer);
    const reached = () => this.#serverReached();
    this.#http = new HttpHeartbeats({
      send: async (token, body, signal) => post({ server, network }, path, { token, body, signal }),
      tokens,
      serverClock,
      heartbeat: async () => ({ ...(await heartbeat()), bootId: handshake.bootId }),
      onHeartbeatAck(answer) {
        onHeartbeatAck?.(answer);
        reached();
        return nextBeat(answer);
      },
      onChange: () => this.#show(),
      random: this.#random,
      afterMs: options.httpAfterMs ?? HTTP_AFTER_MS,
    });
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

  /** Connects again, so that a new handshake tells the hub what has changed on this machine. */
  renew(): void {
    // If no connection is open, the next handshake has the change anyway.
    if (this.#socket?.connected !== true) return;
    this.#isRenewing = true;
    this.#socket.disconnect();
  }

  /** Cancels live queries, closes the connection and does not reconnect. */
  stop(): void {
    this.#stopped = true;
    clock.clear(this.#retryTimer);
    clock.clear(this.#heartbeatTimer);
    this.#options.queries.cancelAll();
    this.#options.durable.detach();
    this.#http.stop();
    this.#socket?.disconnect();
    this.#socketIs({ state: 'stopped' });
  }

  #connect(): void {
    this.#socketIs({ state: 'connecting' });
    const { tokens, handshake, machine } = this.#options;
    let token = '';
    let answered: HandshakeAnswer | undefined;
    this.#isAcknowledged = false;
    const socket = io(`${this.#options.server}${AGENT_NAMESPACE}`, {
      path: this.#options.hubPath ?? HUB_PATH,
      transports: ['websocket'],
      query: AGENT_QUERY,
      // This class decides when to reconnect: as the hub has asked, and with jitter suited to a fleet.
      reconnection: false,
      forceNew: true,
      agent: this.#agent(),
      timeout: CONNECT_MS,
      auth: (send) => {
        void Promise.all([tokens.current(), machine?.() ?? {}]).then(([current, identity]) => {
          token = current;
          send({ ...handshake, ...identity, token, protocol: PROTOCOL_VERSION } satisfies AgentHandshake);
        });
      },
    });
    onHandshakeAnswer(socket, (answer) => (answered = answer));
    this.#socket = socket;
    this.#notice = undefined;
    this.#isRenewing = false;
    const { queries, durable } = this.#options;
    const { answers: channel, reports } = channelOver(socket, this.#ackMs);

    socket.on('connect', () => {
      void tokens.accepted(token);
      this.#http.socketOpened();
      this.#missedHeartbeats = 0;
      this.#connectedSince = clock.date().toISOString();
      this.#socketIs({ state: 'connected', since: this.#connectedSince, lastHeartbeatAt: null });
      this.#isBeating = false;
      this.#beatsAgain = false;
      this.#heartbeatIn(0, socket);
      durable.attach(channel);
      this.#options.onConnected?.(reports);
    });
    socket.on('connect_error', (error: Error & { data?: unknown }) => {
      socket.disconnect();
      const refusal = Refusal.safeParse(answered?.refusal ?? error.data);
      this.#failedAttempts += 1;
      if (refusal.success && answered?.isOfHub !== false) this.#http.socketWorks();
      else this.#http.socketFailed(refusal.data?.retryAfterMs);
      if (refusal.data?.code === 'UNAUTHENTICATED' && tokens.refused(token)) {
        this.#wait(
          reconnectDelay(1, this.#random),
          'The server refused the token. The agent tries its other token.',
        );
      } else if (refusal.success) this.#waitAfterRefusal(refusal.data, error.message);
      else {
        this.#wait(
          this.#reconnectDelay({ isAnswered: answered !== undefined }),
          reasonOf(error, answered, this.#options),
        );
        this.#mayHurry = true;
      }
    });
    socket.on('disconnect', (reason) => {
      clock.clear(this.#heartbeatTimer);
      // If the hub has answered no heartbeat, something on the way cuts connections as soon as they are open.
      const isExpected = this.#notice !== undefined || this.#isRenewing;
      if (!this.#isAcknowledged && !isExpected) this.#http.socketFailed();
      queries.cancelAll();
      durable.detach();
      if (this.#isRenewing) {
        this.#wait(requestedDelay(0, this.#random), 'What the agent can do has changed.');
      } else if (this.#notice !== undefined) {
        this.#wait(
          requestedDelay(this.#notice.afterMs, this.#random),
          `The server ended the connection (${this.#notice.reason}).`,
        );
      } else {
        this.#wait(this.#reconnectDelay({ isAnswered: false }), `The connection was lost (${reason}).`);
        this.#failedAttempts += 1;
        this.#mayHurry = true;
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
    socket.on('terminal:control', (message: unknown, last?: unknown) => {
      const ack = ackIn(last);
      const control = TerminalControl.safeParse(message);
      if (!control.success) return ack(invalid('The message to the terminal does not match its schema.'));
      this.#options.onTerminalControl?.(control.data);
      ack({ ok: true });
    });
    socket.on('hub:reconnect', (message: unknown, last?: unknown) => {
      const ack = ackIn(last);
      const notice = HubReconnect.safeParse(message);
      if (!notice.success) return ack(invalid('The notice does not match its schema.'));
      ack({ ok: true });
      this.#notice = notice.data;
      // The hub closes the connection. This covers a hub that ends before it has done so.
      clock.setTimeout(() => socket.disconnect(), 1000).unref();
    });
  }

  /** Socket.IO's type accepts only browser agents. In Node, it passes this agent to `ws`. */
  #agent(): never {
    return this.#options.network.socketAgent(new URL(this.#options.server)) as never;
  }

  #socketIs(state: ConnectionState): void {
    this.#socketState = state;
    this.#show();
  }

  #show(): void {
    const { onState } = this.#options;
    const { state } = this.#socketState;
    const { delivered, refusal } = this.#http;
    if (state === 'connected' || state === 'stopped') onState(this.#socketState);
    else if (delivered !== undefined) onState({ state: 'http_only', ...delivered, reason: this.#reason });
    else if (state === 'waiting' && refusal !== undefined) {
      onState({ ...this.#socketState, reason: `${this.#reason} ${refusal}` });
    } else onState(this.#socketState);
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
    else this.#wait(this.#reconnectDelay({ isAnswered: true }), reason);
  }

  /** @param isAnswered  by the hub, or by a proxy on the way, which may be overloaded */
  #reconnectDelay({ isAnswered }: { isAnswered: boolean }): number {
    // A release on trial is judged by its socket.
    const isOnTrial = this.#options.beatAtMostMs?.() !== undefined;
    const isQuick = isOnTrial || (!isAnswered && this.#failedAttempts < QUICK_TRIES);
    return reconnectDelay(this.#failedAttempts, this.#random, isQuick ? QUICK_CAP_MS : undefined);
  }

  /** A heartbeat has arrived over HTTP, so the next try of the socket need not wait long. */
  #serverReached(): void {
    if (this.#socketState.state !== 'waiting' || !this.#mayHurry) return;
    const waitMs = Math.round(this.#random() * ANSWERED_MS);
    if (Date.parse(this.#socketState.nextTryAt) - clock.now() > waitMs) this.#wait(waitMs, this.#reason);
  }

  #wait(ms: number, reason: string): void {
    if (this.#stopped) return;
    clock.clear(this.#retryTimer);
    this.#mayHurry = false;
    this.#reason = reason;
    this.#socketIs({ state: 'waiting', nextTryAt: new Date(clock.now() + ms).toISOString(), reason });
    this.#retryTimer = clock.setTimeout(() => this.#connect(), ms);
  }

  #heartbeatIn(ms: number, socket: Socket): void {
    clock.clear(this.#heartbeatTimer);
    this.#heartbeatTimer = clock.setTimeout(() => {
      this.#isBeating = true;
      this.#beat(socket).then(
        (nextInMs) => this.#heartbeatAnswered(heartbeatDelay(nextInMs, this.#random), socket),
        () => this.#heartbeatMissed(socket),
      );
    }, ms);
  }

  async #beat(socket: Socket): Promise<number> {
    const heartbeat = await this.#options.heartbeat();
    const setClock = this.#options.serverClock.startReading();
    const answer = HeartbeatAck.parse(await socket.timeout(this.#ackMs).emitWithAck('heartbeat', heartbeat));
    setClock(answer.at);
    this.#missedHeartbeats = 0;
    this.#isAcknowledged = true;
    this.#failedAttempts = 0;
    this.#http.socketWorks();
    const lastHeartbeatAt = this.#options.serverClock.timestamp();
    const isPending = answer.isPending === true ? { isPending: true as const } : {};
    this.#socketIs({ state: 'connected', since: this.#connectedSince, lastHeartbeatAt, ...isPending });
    this.#options.onHeartbeatAck?.(answer);
    return this.#nextBeat(answer);
  }

  #nextBeat({ nextInMs }: HeartbeatAck): number {
    return Math.min(nextInMs, this.#options.beatAtMostMs?.() ?? nextInMs);
  }

  #heartbeatAnswered(nextInMs: number, socket: Socket): void {
    if (!socket.connected || socket !== this.#socket) return;
    this.#isBeating = false;
    this.#heartbeatIn(this.#beatsAgain ? 0 : nextInMs, socket);
    this.#beatsAgain = false;
  }

  /** A hub that misses two heartbeats counts as lost, even if the socket is still open. */
  #heartbeatMissed(socket: Socket): void {
    if (!socket.connected || socket !== this.#socket) return;
    this.#isBeating = false;
    this.#missedHeartbeats += 1;
    if (this.#missedHeartbeats >= MISSED_HEARTBEATS) socket.disconnect();
    else this.#heartbeatIn(1000, socket);
  }
}

const invalid = (message: string): ErrorAck => ({ ok: false, error: { code: 'VALIDATION_FAILED', message } });

/** If the server wants no acknowledgement, it sends no function. Any other value is ignored. */
function ackIn(last: unknown): Ack {
  return isAck(last) ? last : () => {};
}

const isAck = (value: unknown): value is Ack => typeof value === 'function';
