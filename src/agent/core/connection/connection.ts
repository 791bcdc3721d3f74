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
import { channelOver } from './answer-channel.ts';
import { askedDelay, heartbeatDelay, reconnectDelay, refusedDelay } from '../server/back-off.ts';
import { describeError } from '../../work/bound-handler.ts';
import type { CommandRunner } from '../../work/live-runner.ts';
import type { DurableRunner } from '../../work/durable-runner.ts';
import { printable } from '../plain-text.ts';
import type { ServerClock } from '../server/server-clock.ts';
import type { Tokens } from '../enrollment/tokens.ts';
import { onTurnedAway } from './handshake-refusal.ts';

/** How the agent stands with its server, for people and for the status file. */
export type ConnectionState =
  | { state: 'connecting' }
  | { state: 'connected'; since: string; lastHeartbeatAt: string | null }
  | { state: 'waiting'; nextTryAt: string; reason: string }
  | { state: 'stopped' };

export interface ConnectionOptions {
  server: string;
  /** Where the hub listens there, if not where it always does. */
  hubPath?: string;
  tokens: Tokens;
  handshake: Omit<AgentHandshake, 'protocol' | 'token'>;
  /** For live questions, which end with the connection. */
  runner: CommandRunner;
  /** For the work of the server's ledger, which does not. Started and stopped by whoever made it. */
  durable: DurableRunner;
  clock: ServerClock;
  heartbeat: () => Promise<Heartbeat>;
  onState: (state: ConnectionState) => void;
  /** Between 0 and 1, for tests. */
  random?: () => number;
  /** How long the hub may take to acknowledge (default 10 s). */
  ackMs?: number;
}

type Ack = (answer: { ok: true } | ErrorAck) => void;

const CONNECT_MS = 15_000;
const ACK_MS = 10_000;
const MISSED_HEARTBEATS = 2;

/** Keeps one connection to the hub: comes back after each loss, when it should, and tells of the machine meanwhile. */
export class AgentConnection {
  readonly #options: ConnectionOptions;
  readonly #random: () => number;
  readonly #ackMs: number;
  #socket: Socket | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #failedTries = 0;
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

  /** The server is told of a change before the next heartbeat is due. */
  heartbeatNow(): void {
    if (this.#socket?.connected !== true) return;
    if (this.#isBeating) this.#beatsAgain = true;
    else this.#heartbeatIn(0, this.#socket);
  }

  /** Cancels live questions, closes the connection and stays away. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#heartbeatTimer);
    this.#options.runner.cancelAll();
    this.#options.durable.detach();
    this.#socket?.disconnect();
    this.#options.onState({ state: 'stopped' });
  }

  #connect(): void {
    this.#options.onState({ state: 'connecting' });
    const { tokens, handshake } = this.#options;
    let token = '';
    let turnedAway: Refusal | undefined;
    const socket = io(`${this.#options.server}${AGENT_NAMESPACE}`, {
      path: this.#options.hubPath ?? HUB_PATH,
      transports: ['websocket'],
      query: AGENT_QUERY,
      // When to come back is decided here: by what the hub said, and with a spread that suits a fleet.
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
    onTurnedAway(socket, (refusal) => (turnedAway = refusal));
    this.#socket = socket;
    this.#notice = undefined;
    const { runner, durable } = this.#options;
    const channel = channelOver(socket, this.#ackMs);

    socket.on('connect', () => {
      void tokens.accepted(token);
      this.#failedTries = 0;
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
      const refusal = Refusal.safeParse(turnedAway ?? error.data);
      this.#failedTries += 1;
      if (refusal.data?.code === 'UNAUTHENTICATED' && tokens.refused(token)) {
        this.#wait(reconnectDelay(1, this.#random), 'The server refused the token; the other one is tried.');
      } else if (refusal.success) this.#waitAfterRefusal(refusal.data, error.message);
      else {
        const reason = `The server was not reached: ${printable(error.message)}.`;
        this.#wait(reconnectDelay(this.#failedTries, this.#random), reason);
      }
    });
    socket.on('disconnect', (reason) => {
      clearTimeout(this.#heartbeatTimer);
      runner.cancelAll();
      durable.detach();
      if (this.#notice !== undefined) {
        this.#wait(
          askedDelay(this.#notice.afterMs, this.#random),
          `The server ended the connection (${this.#notice.reason}).`,
        );
      } else {
        this.#wait(reconnectDelay(this.#failedTries++, this.#random), `The connection was lost (${reason}).`);
      }
    });
    socket.on('command', (message: unknown, last?: unknown) => {
      const ack = ackOf(last);
      const frame = CommandFrame.safeParse(message);
      if (!frame.success) return ack(refused('The command does not have the agreed form.'));
      if (isDurable(frame.data.type)) {
        durable.accept(frame.data).then(
          () => ack({ ok: true }),
          (error: unknown) => ack({ ok: false, error: describeError(error) }),
        );
        return;
      }
      ack({ ok: true });
      // Every failure of a question ends in its result; without a connection there is nobody to tell.
      void runner.run(frame.data, channel).catch(() => {});
    });
    socket.on('command:cancel', (message: unknown, last?: unknown) => {
      const ack = ackOf(last);
      const cancel = CommandCancel.safeParse(message);
      if (!cancel.success) return ack(refused('The cancellation does not have the agreed form.'));
      const { id } = cancel.data;
      runner.cancel(id);
      durable.cancel(id).then(
        () => ack({ ok: true }),
        (error: unknown) => ack({ ok: false, error: describeError(error) }),
      );
    });
    socket.on('hub:reconnect', (message: unknown, last?: unknown) => {
      const ack = ackOf(last);
      const notice = HubReconnect.safeParse(message);
      if (!notice.success) return ack(refused('The notice does not have the agreed form.'));
      ack({ ok: true });
      this.#notice = notice.data;
      // The hub closes the connection; if it does not come to that, we do.
      setTimeout(() => socket.disconnect(), 1000).unref();
    });
  }

  #waitAfterRefusal({ code, retryAfterMs }: Refusal, words: string): void {
    const reason = `The server refused the connection: ${code}: ${printable(words).replace(/\.$/, '')}.`;
    const onlyPeopleCanMend =
      code === 'UNAUTHENTICATED' ||
      code === 'DECOMMISSIONED' ||
      code === 'PROTOCOL_UNSUPPORTED' ||
      code === 'TENANT_INACTIVE';
    if (retryAfterMs !== undefined) this.#wait(askedDelay(retryAfterMs, this.#random), reason);
    else if (onlyPeopleCanMend) this.#wait(refusedDelay(this.#failedTries, this.#random), reason);
    else this.#wait(reconnectDelay(this.#failedTries, this.#random), reason);
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
    const told = this.#options.clock.ask();
    const answer = HeartbeatAck.parse(await socket.timeout(this.#ackMs).emitWithAck('heartbeat', heartbeat));
    told(answer.at);
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

  /** A hub that does not answer twice is not there, whatever the socket says. */
  #heartbeatMissed(socket: Socket): void {
    if (!socket.connected || socket !== this.#socket) return;
    this.#isBeating = false;
    this.#missedHeartbeats += 1;
    if (this.#missedHeartbeats >= MISSED_HEARTBEATS) socket.disconnect();
    else this.#heartbeatIn(1000, socket);
  }
}

const refused = (message: string): ErrorAck => ({ ok: false, error: { code: 'VALIDATION_FAILED', message } });

/** A server that wants no answer sends no function; whatever stands in its place is not called. */
function ackOf(last: unknown): Ack {
  return isAck(last) ? last : () => {};
}

const isAck = (value: unknown): value is Ack => typeof value === 'function';
