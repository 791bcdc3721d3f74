import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Socket } from 'socket.io-client';
import {
  type AgentHandshake,
  type CommandFrame,
  type Heartbeat,
  type HeartbeatAck,
  type MachineIdentity,
  type TerminalControl,
  REFUSAL_HEADER,
  Refusal,
} from '../../protocol/index.ts';
import type { Network } from '../os/network/network.ts';
import type { AnswerChannel, ReportChannel } from './answer-channel.ts';
import { printable } from './plain-text.ts';
import type { ServerAccess } from './server-call.ts';
import type { ServerClock } from './server-clock.ts';
import type { Tokens } from './tokens.ts';

/** The state of the agent's connection, for people and for the status file. */
export type ConnectionState =
  | { state: 'connecting' }
  /** `isPending`: the device waits for approval. */
  | { state: 'connected'; since: string; lastHeartbeatAt: string | null; isPending?: true }
  /** The socket is blocked, and heartbeats arrive over HTTP. `reason`: why the socket is not open. */
  | { state: 'http_only'; since: string; lastHeartbeatAt: string; reason: string }
  | { state: 'waiting'; nextTryAt: string; reason: string }
  | { state: 'stopped' };

/** Message for people about the state `http_only`. */
export const HTTP_ONLY = 'connected over HTTP only: live queries and commands are not possible';

/** Message for people about a device that waits for approval. */
export const PENDING =
  'waits for approval: another connected machine has the same machine id. A technician has to approve this device in Muster; until then it is given no work';

/** Whether the server answers HTTP requests, such as uploads of logs, at present. */
export const reachesServer = ({ state }: ConnectionState): boolean =>
  state === 'connected' || state === 'http_only';

/** Runs the live queries of the server. They end with the connection. */
export interface LiveQueries {
  run(frame: CommandFrame, channel: AnswerChannel): Promise<void>;
  cancel(id: string): void;
  cancelAll(): void;
}

/** Runs the commands of the server's ledger, over any number of connections. */
export interface DurableCommands {
  /** Resolves when the command is on disk. Rejects with `AgentError` if the agent does not accept it. */
  accept(frame: CommandFrame): Promise<void>;
  /** Resolves when the cancellation outlives a restart. */
  cancel(id: string): Promise<void>;
  attach(channel: AnswerChannel): void;
  detach(): void;
}

export interface ConnectionOptions {
  server: string;
  network: Network;
  /** The path of the hub on the server, if it differs from the default. */
  hubPath?: string;
  tokens: Tokens;
  deviceId: string;
  handshake: Omit<AgentHandshake, 'protocol' | 'token' | keyof MachineIdentity>;
  /** What identifies the machine, read for each connection. */
  machine?: () => Promise<MachineIdentity>;
  queries: LiveQueries;
  /** Called with what viewers send to the terminals that live queries have opened. */
  onTerminalControl?: (control: TerminalControl) => void;
  /** The connection neither starts nor stops it. */
  durable: DurableCommands;
  serverClock: ServerClock;
  heartbeat: () => Promise<Heartbeat>;
  /** Called with each answer to a heartbeat: offered upgrades, changed configuration. Must not throw. */
  onHeartbeatAck?: (answer: HeartbeatAck) => void;
  onState: (state: ConnectionState) => void;
  /** Called with each new connection; its channel is valid until the connection ends. */
  onConnected?: (reports: ReportChannel) => void;
  /** The longest heartbeat interval, whatever the server asks for; `undefined`: as the server asks. */
  beatAtMostMs?: () => number | undefined;
  /** For tests: a number from 0 to 1. */
  random?: () => number;
  /** How long the hub may take to acknowledge a message (default 10 s). */
  ackMs?: number;
  /** How long the socket has to fail before heartbeats are sent over HTTP (default 30 s, varied by half of it). */
  httpAfterMs?: number;
}

/** An HTTP answer in place of a websocket. */
export interface HandshakeAnswer {
  status: number;
  /** Set if the hub has answered, or a proxy in front of it that sends only `Retry-After`. */
  refusal: Refusal | undefined;
  isOfHub: boolean;
}

/**
 * Calls `onAnswer` when the websocket that this socket has just begun to open gets an HTTP response instead.
 * Socket.IO's client reports only that the handshake failed. Its websocket (of the package `ws`) exists from the start
 * and has read the response, so the reason is taken from there.
 */
export function onHandshakeAnswer(socket: Socket, onAnswer: (answer: HandshakeAnswer) => void): void {
  const { ws } = (socket.io.engine as unknown as { transport?: { ws?: WebSocketOfNode } }).transport ?? {};
  ws?.once('unexpected-response', (_request, { statusCode = 0, headers }) => {
    const refusal = refusalIn(statusCode, headers);
    onAnswer({ status: statusCode, refusal, isOfHub: refusal !== undefined && REFUSAL_HEADER in headers });
    // This listener replaces the default one, which would report a connection error. Closing has the same effect.
    ws.terminate();
  });
}

interface WebSocketOfNode {
  once(
    event: 'unexpected-response',
    listener: (request: unknown, response: IncomingMessage) => void,
  ): unknown;
  terminate(): void;
}

const SERVICE_UNAVAILABLE = 503;

/** The refusal of the hub, or of a proxy in front of it that sends only `Retry-After`. */
export function refusalIn(status: number, headers: IncomingHttpHeaders): Refusal | undefined {
  if (status !== SERVICE_UNAVAILABLE) return undefined;
  const refusal = Refusal.safeParse(jsonIn(headers[REFUSAL_HEADER]));
  if (refusal.success) return refusal.data;
  const seconds = Number(headers['retry-after']);
  return Number.isFinite(seconds) && seconds >= 0
    ? { code: 'BUSY', retryAfterMs: Math.ceil(seconds * 1000) }
    : undefined;
}

function jsonIn(text: string | string[] | undefined): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}

/** Why a socket could not be opened, for people. `answered`: the HTTP answer in place of a websocket. */
export function reasonOf(
  error: Error,
  answered: HandshakeAnswer | undefined,
  { network, server }: ServerAccess,
): string {
  if (answered !== undefined) {
    return `The WebSocket was refused with status ${answered.status}, perhaps by a proxy that does not support WebSockets.`;
  }
  const cause = causeOf(error);
  if (cause !== undefined) return printable(network.explain(cause, new URL(server)).message, 600);
  return `The server could not be reached: ${printable(error.message)}.`;
}

/** The error that Node has reported to the websocket, below the errors of `ws` and of Socket.IO. */
function causeOf(error: Error): Error | undefined {
  const event = 'description' in error ? error.description : undefined;
  if (typeof event !== 'object' || event === null || !('error' in event)) return undefined;
  const cause = event.error;
  return cause instanceof Error && 'code' in cause ? cause : undefined;
}

/** Log lines about the states of a connection: one for each change. */
export class StateLines {
  #last = '';

  /** `undefined` if the state has not changed. */
  next(state: ConnectionState): { level: 'info' | 'warn'; message: string } | undefined {
    if (state.state === 'connecting' || state.state === 'stopped') return undefined;
    const message = textOf(state);
    if (message === this.#last) return undefined;
    this.#last = message;
    return { level: state.state === 'connected' ? 'info' : 'warn', message };
  }
}

function textOf(state: Exclude<ConnectionState, { state: 'connecting' | 'stopped' }>): string {
  if (state.state === 'connected') {
    return `connected since ${state.since}${state.isPending === true ? `; the device ${PENDING}` : ''}`;
  }
  return state.state === 'http_only' ? `${HTTP_ONLY}. ${state.reason}` : state.reason;
}
