import type { Socket } from 'socket.io';
import { AGENT_NAMESPACE } from '../../protocol/index.ts';
import { framed, MESSAGE, textFrame } from '../sockets/text-frame.ts';
import { Stall } from '../sockets/stall.ts';
import { hearWholeFrames, type FrameReader, type Hearer } from '../sockets/frame-fast-path.ts';

export type Answer = (answer: object) => void;

/** Whoever takes what an agent says. */
export interface Listener {
  /** @param answer  does nothing where none was asked for */
  receive(event: string, payload: unknown, answer: Answer): void;
}

const EVENT = '2';
const ACK = '3';
const START = `${AGENT_NAMESPACE},`;
/** A message of Engine.IO, the type of a packet of Socket.IO, its namespace: as the bytes of `42/agents,` are. */
const TYPE_AT = 1;
const START_AT = 2;
const START_BYTES = Buffer.from(START);
const ID_AT = START_AT + START_BYTES.length;
const MESSAGE_BYTE = MESSAGE.charCodeAt(0);
const EVENT_BYTE = EVENT.charCodeAt(0);
const ACK_BYTE = ACK.charCodeAt(0);
const BRACKET = '['.charCodeAt(0);
const ZERO = '0'.charCodeAt(0);
/** Past this many digits, Socket.IO may make of an id what it likes. */
const LONGEST_ID = 15;
const WS_OPEN = 1;

/** What may lie in this process of what one agent was sent and has not read: bytes, and how long. */
export interface UnreadLimits {
  /** Beyond this the agent has to read something within `patienceMs`. */
  stalledBytes: number;
  patienceMs: number;
  /** Beyond this its connection ends at once. */
  maxBytes: number;
  /** The same of packets that Engine.IO holds back. */
  maxPackets: number;
}
/** Two commands with the largest scripts fit in many times. */
const UNREAD: UnreadLimits = {
  stalledBytes: 1_000_000,
  patienceMs: 20_000,
  maxBytes: 8_000_000,
  maxPackets: 20_000,
};

/** What lies under Engine.IO's socket. What of it is not there is not used, and Engine.IO does all as ever. */
interface Underneath {
  writeBuffer?: unknown[];
  pingTimeoutTimer?: unknown;
  hasRefreshedPingTimeout?: boolean;
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
 * The events and acknowledgements of one agent that is in, read from its websocket and written to it here instead of by
 * way of Engine.IO's and Socket.IO's packets, emitters and ticks, by which a heartbeat costs a quarter more. The bytes
 * are the same. Everything else stays theirs: coming in, pings, leaving, limits, and each packet that is not plainly one
 * of these, in the order in which they came.
 */
export class AgentWire implements Hearer {
  readonly #socket: Socket;
  readonly #conn: Socket['conn'];
  readonly #inside: Underneath;
  readonly #events: ReadonlySet<string>;
  #listener: Listener | undefined;
  #receipts: Map<number, (answer: unknown) => void> | undefined;
  #lastId = 0;
  #toEngine: MessageListener | undefined;
  readonly #onUnread: () => void;
  readonly #limits: UnreadLimits;
  /** Bytes of frames that were given to Engine.IO, which held back others before them. */
  #heldBack = 0;
  #stall: Stall | undefined;

  /**
   * @param events  those that the listener is told; of any other Socket.IO hears as ever
   * @param onUnread  the connection ends because the agent does not read what it is sent
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
    // Private there, so its types do not say it.
    this.#inside = socket.conn as unknown as Underneath;
    this.#events = events;
  }

  /** How much of what was sent has not been acknowledged. */
  get unacknowledged(): number {
    return this.#receipts?.size ?? 0;
  }

  listen(listener: Listener): void {
    this.#listener = listener;
    const webSocket = this.#inside.transport?.socket;
    const [toEngine] = webSocket?.listeners('message') ?? [];
    if (webSocket !== undefined && toEngine !== undefined) {
      this.#toEngine = toEngine;
      webSocket.removeAllListeners('message');
      webSocket.on('message', (data, isBinary) => {
        if (isBinary) toEngine.call(webSocket, data, isBinary);
        else this.hear(data);
      });
      if (webSocket._receiver !== undefined) hearWholeFrames(webSocket._receiver, this);
    }
    const inherited = this.#conn.listeners('data');
    this.#conn.removeAllListeners('data');
    this.#conn.on('data', (data: unknown) => {
      if (typeof data === 'string' && this.#take(Buffer.from(`${MESSAGE}${data}`))) return;
      for (const hear of inherited) hear.call(this.#conn, data);
    });
  }

  /** @param receipt  is given what the agent acknowledges the event with, unparsed; never, if the connection ends before */
  emit(event: string, payload: object, receipt: (answer: unknown) => void): void {
    this.#lastId += 1;
    this.#receipts ??= new Map();
    this.#receipts.set(this.#lastId, receipt);
    this.#write(`${EVENT}${START}${this.#lastId}${JSON.stringify([event, payload])}`);
  }

  get isOpen(): boolean {
    return this.#inside.transport?.socket?.readyState === WS_OPEN;
  }

  /** A text message, whole. */
  hear(data: Buffer): void {
    if (!this.#engineWaits && this.#take(data)) return;
    this.#toEngine?.call(this.#inside.transport?.socket, data, false);
  }

  /** For a pong, instead of which it takes any other message too, once. */
  get #engineWaits(): boolean {
    return this.#inside.pingTimeoutTimer !== null && this.#inside.hasRefreshedPingTimeout !== true;
  }

  /** False for what Socket.IO is to make something of. */
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
    const said = arrayIn(data.toString('utf8', jsonAt));
    if (said === undefined) return false;
    const given = jsonAt === ID_AT ? undefined : id;
    return type === ACK_BYTE ? this.#acknowledged(given, said) : this.#told(given, said);
  }

  #told(id: number | undefined, [event, payload]: readonly unknown[]): boolean {
    if (typeof event !== 'string' || !this.#events.has(event)) return false;
    this.#listener?.receive(event, payload, id === undefined ? unanswered : this.#answerTo(id));
    return true;
  }

  #acknowledged(id: number | undefined, [answer]: readonly unknown[]): boolean {
    if (id === undefined) return false;
    const receipt = this.#receipts?.get(id);
    this.#receipts?.delete(id);
    receipt?.(answer);
    return true;
  }

  /** Answers once. */
  #answerTo(id: number): Answer {
    let answered = false;
    return (answer) => {
      if (answered) return;
      answered = true;
      this.#write(`${ACK}${START}${id}${jsonOf(answer)}`);
    };
  }

  #write(packet: string): void {
    // As Socket.IO does: what cannot be sent any more is dropped.
    if (this.#conn.readyState !== 'open') return;
    const frame = textFrame(`${MESSAGE}${packet}`);
    const webSocket = this.#inside.transport?.socket;
    // Behind what Engine.IO holds back. It writes frames in the same way that come made, such as a broadcast's.
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
    if (unread > this.#limits.stalledBytes) this.#judgeUnread(unread, frame.length, webSocket);
    else this.#stall = undefined;
  }

  /** Socket.IO by itself keeps whatever a client does not read, without a bound. */
  #judgeUnread(unread: number, sent: number, webSocket: WebSocketInside): void {
    const now = performance.now();
    this.#stall ??= new Stall(now, unread - sent);
    const stalledMs = this.#stall.lasts(now, unread, sent);
    if (stalledMs > this.#limits.patienceMs || unread > this.#limits.maxBytes) this.#cutOff(webSocket);
  }

  /** Ends the connection over what Engine.IO and `ws` themselves have answered and the agent does not read, such as pings. */
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
    // To close it in due form would wait behind all that is not read.
    webSocket.terminate();
  }
}

export const unanswered: Answer = () => {};

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

/** Many agents are given one and the same answer within a millisecond; it is written out once. */
function jsonOf(answer: object): string {
  if (answer !== lastAnswer) {
    lastAnswer = answer;
    lastJson = JSON.stringify([answer]);
  }
  return lastJson;
}
