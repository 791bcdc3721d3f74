import type { Socket } from 'socket.io';
import { clock } from '../../clock.ts';
import { AGENT_NAMESPACE } from '../../protocol/index.ts';
import {
  framed,
  MESSAGE,
  textFrame,
  installFrameFastPath,
  type FrameReader,
  type FrameHandler,
} from './frame-fast-path.ts';

/** Measures how long a peer has read nothing, from the number of unread bytes whenever more is sent. */
export class StallTimer {
  #since: number;
  #unread: number;

  /** @param unread  bytes that the peer had not read before this send */
  constructor(now: number, unread: number) {
    this.#since = now;
    this.#unread = unread;
  }

  /**
   * @param unread  bytes that the peer has not read, including those that were sent just now
   * @returns milliseconds since the peer last read something, or since this object was created
   */
  stalledMs(now: number, unread: number, sent: number): number {
    if (unread < this.#unread + sent) this.#since = now;
    this.#unread = unread;
    return now - this.#since;
  }
}

export type Answer = (answer: object) => void;

/** Receives the events of an agent. */
export interface EventReceiver {
  /** @param answer  does nothing when the agent did not ask for an acknowledgement */
  receive(event: string, payload: unknown, answer: Answer): void;
}

const EVENT = '2';
const ACK = '3';
const START = `${AGENT_NAMESPACE},`;
/** Positions in a packet such as `42/agents,`: Engine.IO's message type, Socket.IO's packet type, the namespace. */
const TYPE_AT = 1;
const START_AT = 2;
const START_BYTES = Buffer.from(START);
const ID_AT = START_AT + START_BYTES.length;
const MESSAGE_BYTE = MESSAGE.charCodeAt(0);
const EVENT_BYTE = EVENT.charCodeAt(0);
const ACK_BYTE = ACK.charCodeAt(0);
const BRACKET = '['.charCodeAt(0);
const ZERO = '0'.charCodeAt(0);
/** Socket.IO handles packets with longer ids. */
const LONGEST_ID = 15;
const WS_OPEN = 1;

/** How much of what one agent was sent may wait in this process, and for how long. */
export interface UnreadLimits {
  /** Above this the agent has to read something within `patienceMs`. */
  stalledBytes: number;
  patienceMs: number;
  /** Above this the connection ends at once. */
  maxBytes: number;
  /** The same limit for packets that Engine.IO holds back. */
  maxPackets: number;
}
/** Far above the size of two commands with the largest scripts. */
const UNREAD: UnreadLimits = {
  stalledBytes: 1_000_000,
  patienceMs: 20_000,
  maxBytes: 8_000_000,
  maxPackets: 20_000,
};

/** Internals of Engine.IO's socket. If one of them is missing, it is not used and Engine.IO does the work as usual. */
interface Underneath {
  writeBuffer?: unknown[];
  pingTimeoutTimer?: unknown;
  hasRefreshedPingTimeout?: boolean;
  sendPacket?(type: 'ping'): void;
  transport?: { socket?: WebSocketInside };
}
interface WebSocketInside {
  readyState: number;
  bufferedAmount: number;
  terminate(): void;
  _sender?: { sendFrame?(parts: Buffer[]): void };
  _receiver?: FrameReader;
  listeners(event: 'message'): MessageListener[];
  removeAllListeners(event: 'message'): void;
  on(event: 'message', listener: MessageListener): void;
}
type MessageListener = (this: unknown, data: Buffer, isBinary: boolean) => void;

/**
 * Reads and writes the events and acknowledgements of a connected agent directly on its websocket. The way through the
 * packets, emitters and ticks of Engine.IO and Socket.IO makes a heartbeat cost a quarter more. The bytes are the same.
 * Connecting, pings, disconnecting, limits and every other packet stay with Engine.IO and Socket.IO, in their order.
 */
export class AgentSocketFastPath implements FrameHandler {
  readonly #socket: Socket;
  readonly #conn: Socket['conn'];
  readonly #inside: Underneath;
  readonly #events: ReadonlySet<string>;
  #receiver: EventReceiver | undefined;
  #receipts: Map<number, (answer: unknown) => void> | undefined;
  #lastId = 0;
  #toEngine: MessageListener | undefined;
  readonly #onUnread: () => void;
  readonly #limits: UnreadLimits;
  /** Bytes of frames that were passed to Engine.IO because it held back earlier ones. */
  #heldBack = 0;
  #stall: StallTimer | undefined;

  /**
   * @param events    the events for the receiver; all others go to Socket.IO as usual
   * @param onUnread  called when the connection ends because the agent does not read what it is sent
   */
  constructor(
    socket: Socket,
    events: ReadonlySet<string>,
    onUnread: () => void = () => {},
    limits: UnreadLimits = UNREAD,
  ) {
    this.#socket = socket;
    this.#onUnread = onUnread;
    this.#limits = limits;
    this.#conn = socket.conn;
    // These members are private, so they are missing from the types.
    this.#inside = socket.conn as unknown as Underneath;
    this.#events = events;
  }

  /** The number of sent events that were not acknowledged yet. */
  get unacknowledged(): number {
    return this.#receipts?.size ?? 0;
  }

  /** Replaces the listeners of Engine.IO and `ws` on this connection. */
  install(receiver: EventReceiver): void {
    this.#receiver = receiver;
    const webSocket = this.#inside.transport?.socket;
    const [toEngine] = webSocket?.listeners('message') ?? [];
    if (webSocket !== undefined && toEngine !== undefined) {
      this.#toEngine = toEngine;
      webSocket.removeAllListeners('message');
      webSocket.on('message', (data, isBinary) => {
        if (isBinary) toEngine.call(webSocket, data, isBinary);
        else this.onText(data);
      });
      if (webSocket._receiver !== undefined) installFrameFastPath(webSocket._receiver, this);
    }
    const inherited = this.#conn.listeners('data');
    this.#conn.removeAllListeners('data');
    this.#conn.on('data', (data: unknown) => {
      if (typeof data === 'string' && this.#take(Buffer.from(`${MESSAGE}${data}`))) return;
      for (const hear of inherited) hear.call(this.#conn, data);
    });
  }

  /** @param receipt  called with the unparsed acknowledgement, unless the connection ends before it comes */
  emit(event: string, payload: object, receipt: (answer: unknown) => void): void {
    this.#lastId += 1;
    this.#receipts ??= new Map();
    this.#receipts.set(this.#lastId, receipt);
    this.#write(`${EVENT}${START}${this.#lastId}${JSON.stringify([event, payload])}`);
  }

  /** Sends a ping of Engine.IO, whose timers stay as they are. False if that is not possible. */
  ping(): boolean {
    if (this.#conn.readyState !== 'open' || this.#inside.sendPacket === undefined) return false;
    this.#inside.sendPacket('ping');
    return true;
  }

  get isOpen(): boolean {
    return this.#inside.transport?.socket?.readyState === WS_OPEN;
  }

  /** Handles a complete text message. */
  onText(data: Buffer): void {
    if (!this.#engineAwaitsPong && this.#take(data)) return;
    this.#toEngine?.call(this.#inside.transport?.socket, data, false);
  }

  /** While it waits for a pong, Engine.IO accepts any message once as a sign of life, so it has to see the next one. */
  get #engineAwaitsPong(): boolean {
    return this.#inside.pingTimeoutTimer !== null && this.#inside.hasRefreshedPingTimeout !== true;
  }

  /** False for a message that Socket.IO has to handle. */
  #take(data: Buffer): boolean {
    const type = data[TYPE_AT];
    if (data[0] !== MESSAGE_BYTE || (type !== EVENT_BYTE && type !== ACK_BYTE)) return false;
    for (let at = 0; at < START_BYTES.length; at++) {
      if (data[START_AT + at] !== START_BYTES[at]) return false;
    }
    if (!this.#socket.connected || this.#conn.readyState !== 'open') return false;
    let jsonAt = ID_AT;
    let id = 0;
    for (; data[jsonAt] !== BRACKET; jsonAt++) {
      const digit = (data[jsonAt] ?? 0) - ZERO;
      if (digit < 0 || digit > 9 || jsonAt - ID_AT === LONGEST_ID) return false;
      id = id * 10 + digit;
    }
    const content = arrayIn(data.toString('utf8', jsonAt));
    if (content === undefined) return false;
    const givenId = jsonAt === ID_AT ? undefined : id;
    return type === ACK_BYTE ? this.#onAcknowledgement(givenId, content) : this.#onEvent(givenId, content);
  }

  #onEvent(id: number | undefined, [event, payload]: readonly unknown[]): boolean {
    if (typeof event !== 'string' || !this.#events.has(event)) return false;
    this.#receiver?.receive(event, payload, id === undefined ? noAnswer : this.#answerTo(id));
    return true;
  }

  #onAcknowledgement(id: number | undefined, [answer]: readonly unknown[]): boolean {
    if (id === undefined) return false;
    const receipt = this.#receipts?.get(id);
    this.#receipts?.delete(id);
    receipt?.(answer);
    return true;
  }

  /** Returns a function that answers once. */
  #answerTo(id: number): Answer {
    let answered = false;
    return (answer) => {
      if (answered) return;
      answered = true;
      this.#write(`${ACK}${START}${id}${jsonOf(answer)}`);
    };
  }

  #write(packet: string): void {
    // As in Socket.IO, a packet for a closed connection is dropped.
    if (this.#conn.readyState !== 'open') return;
    const frame = textFrame(`${MESSAGE}${packet}`);
    const webSocket = this.#inside.transport?.socket;
    // If Engine.IO holds packets back, this one has to follow them. Engine.IO also writes complete frames, as for broadcasts.
    const waiting = this.#inside.writeBuffer?.length;
    if (waiting !== 0 || webSocket?._sender?.sendFrame === undefined) {
      this.#heldBack = (waiting === 0 ? 0 : this.#heldBack) + frame.length;
      this.#conn.write(packet, framed([frame]));
    } else if (webSocket.readyState === WS_OPEN) {
      this.#heldBack = 0;
      webSocket._sender.sendFrame([frame]);
    }
    if (webSocket?.readyState !== WS_OPEN) return;
    const unread = webSocket.bufferedAmount + this.#heldBack;
    if (unread > this.#limits.stalledBytes) this.#checkUnread(unread, frame.length, webSocket);
    else this.#stall = undefined;
  }

  /** Socket.IO by itself keeps everything that a client does not read, without a limit. */
  #checkUnread(unread: number, sent: number, webSocket: WebSocketInside): void {
    const now = clock.monotonic();
    this.#stall ??= new StallTimer(now, unread - sent);
    const stalledMs = this.#stall.stalledMs(now, unread, sent);
    if (stalledMs > this.#limits.patienceMs || unread > this.#limits.maxBytes) this.#cutOff(webSocket);
  }

  /** Ends the connection if the agent leaves unread what Engine.IO and `ws` themselves have sent, such as pings. */
  endIfUnread(): void {
    const { writeBuffer, transport } = this.#inside;
    const webSocket = transport?.socket;
    if (webSocket?.readyState !== WS_OPEN) return;
    const { maxBytes, maxPackets } = this.#limits;
    const packets = writeBuffer?.length ?? 0;
    if (webSocket.bufferedAmount > maxBytes || packets > maxPackets) this.#cutOff(webSocket);
  }

  #cutOff(webSocket: WebSocketInside): void {
    this.#onUnread();
    // A regular close would wait for the unread data.
    webSocket.terminate();
  }
}

export const noAnswer: Answer = () => {};

function arrayIn(json: string): readonly unknown[] | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

let lastAnswer: object | undefined;
let lastJson = '';

/** Many agents get the same answer object within a millisecond, so its JSON is kept. */
function jsonOf(answer: object): string {
  if (answer !== lastAnswer) {
    lastAnswer = answer;
    lastJson = JSON.stringify([answer]);
  }
  return lastJson;
}
