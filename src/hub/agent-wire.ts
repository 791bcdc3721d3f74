import type { Socket } from 'socket.io';
import { AGENT_NAMESPACE, type ErrorAck, type OkAck } from '../protocol/index.ts';
import { textFrame } from './text-frame.ts';

export type Answer = (answer: object) => void;

/** Whoever takes what an agent says. */
export interface Listener {
  /** @param answer  does nothing where none was asked for */
  receive(event: string, payload: unknown, answer: Answer): void;
}

const EVENT = '2';
const ACK = '3';
const START = `${AGENT_NAMESPACE},`;
const JSON_AT = 1 + START.length;
/** Past this many digits, Socket.IO may make of an id what it likes. */
const LONGEST_ID = 15;

/**
 * The events and acknowledgements of one agent that is in, read and written here instead of by Socket.IO's packets,
 * emitters and ticks, which are a third of what it costs to answer a heartbeat. The bytes are the same. Everything else
 * stays Socket.IO's: coming in, pings, namespaces, leaving, and each packet that is not plainly one of these.
 */
export class AgentWire {
  readonly #socket: Socket;
  readonly #conn: Socket['conn'];
  readonly #events: ReadonlySet<string>;
  #listener: Listener | undefined;
  #receipts: Map<number, (answer: OkAck | ErrorAck) => void> | undefined;
  #lastId = 0;

  /** @param events  those that the listener is told; of any other Socket.IO hears as ever */
  constructor(socket: Socket, events: ReadonlySet<string>) {
    this.#socket = socket;
    this.#conn = socket.conn;
    this.#events = events;
  }

  /** How much of what was sent has not been acknowledged. */
  get unacknowledged(): number {
    return this.#receipts?.size ?? 0;
  }

  listen(listener: Listener): void {
    this.#listener = listener;
    const inherited = this.#conn.listeners('data');
    this.#conn.removeAllListeners('data');
    this.#conn.on('data', (data: unknown) => {
      if (this.#take(data)) return;
      for (const hear of inherited) hear.call(this.#conn, data);
    });
  }

  /** @param receipt  hears what the agent acknowledges it with; never, if the connection ends before */
  emit(event: string, payload: object, receipt: (answer: OkAck | ErrorAck) => void): void {
    this.#lastId += 1;
    this.#receipts ??= new Map();
    this.#receipts.set(this.#lastId, receipt);
    this.#write(`${EVENT}${START}${this.#lastId}${JSON.stringify([event, payload])}`);
  }

  /** False for what Socket.IO is to make something of. */
  #take(data: unknown): boolean {
    if (typeof data !== 'string' || !this.#socket.connected) return false;
    const type = data[0];
    if ((type !== EVENT && type !== ACK) || !data.startsWith(START, 1)) return false;
    const jsonAt = data.indexOf('[', JSON_AT);
    if (jsonAt === -1 || jsonAt - JSON_AT > LONGEST_ID) return false;
    const id = idIn(data, jsonAt);
    if (Number.isNaN(id)) return false;
    const said = arrayIn(data, jsonAt);
    if (said === undefined) return false;
    return type === ACK ? this.#acknowledged(id, said) : this.#told(id, said);
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
    receipt?.(answer as OkAck | ErrorAck);
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

  #write(text: string): void {
    // As Socket.IO does: what cannot be sent any more is dropped.
    if (this.#conn.readyState !== 'open') return;
    this.#conn.write(text, framed(text));
  }
}

export const unanswered: Answer = () => {};

/** With the frame made here, Engine.IO hands the bytes to the socket in one piece instead of head and text. */
const framed = (text: string): { compress: boolean } =>
  Object.assign({ compress: false }, { wsPreEncodedFrame: [textFrame(`4${text}`)] });

/** The digits before the JSON; `undefined` where there are none, NaN where there is anything else. */
function idIn(data: string, end: number): number | undefined {
  if (end === JSON_AT) return undefined;
  let id = 0;
  for (let at = JSON_AT; at < end; at++) {
    const digit = data.charCodeAt(at) - 0x30;
    if (digit < 0 || digit > 9) return Number.NaN;
    id = id * 10 + digit;
  }
  return id;
}

function arrayIn(data: string, at: number): readonly unknown[] | undefined {
  try {
    const value: unknown = JSON.parse(data.slice(at));
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
