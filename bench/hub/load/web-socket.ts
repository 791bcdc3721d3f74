import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { REFUSAL_HEADER, Refusal } from '../../../src/protocol/index.ts';

/** The client side of RFC 6455 as far as the load needs it: complete text frames, masked in advance. */

const MASK = Buffer.from([0x37, 0xfa, 0x21, 0x3d]);
const TEXT = 0x81;
const CLOSE = 0x88;
const MASKED = 0x80;

/** A frame that can be written any number of times, because creating it is the expensive part. */
export function textFrame(text: string): Buffer {
  const payload = Buffer.from(text, 'utf8');
  const { length } = payload;
  const head = length < 126 ? 2 : 4;
  const frame = Buffer.allocUnsafe(head + 4 + length);
  frame[0] = TEXT;
  if (length < 126) frame[1] = MASKED | length;
  else if (length < 65_536) {
    frame[1] = MASKED | 126;
    frame.writeUInt16BE(length, 2);
  } else throw new Error(`The load cannot send ${length} bytes in one frame.`);
  MASK.copy(frame, head);
  for (let at = 0; at < length; at++) frame[head + 4 + at] = (payload[at] ?? 0) ^ (MASK[at & 3] ?? 0);
  return frame;
}

/**
 * Reads the server's unmasked frames and passes on each text without copying it.
 * @returns the offset of the first frame that is not complete, or -1 when the server closes
 */
function readFrames(
  bytes: Buffer,
  end: number,
  onText: (bytes: Buffer, start: number, end: number) => void,
): number {
  let at = 0;
  while (end - at >= 2) {
    const kind = bytes[at];
    let length = bytes[at + 1] ?? 0;
    let start = at + 2;
    if (length === 126) {
      if (end - at < 4) break;
      length = bytes.readUInt16BE(at + 2);
      start = at + 4;
    } else if (length > 126) {
      if (end - at < 10) break;
      length = Number(bytes.readBigUInt64BE(at + 2));
      start = at + 10;
    }
    if (end - start < length) break;
    if (kind === CLOSE) return -1;
    if (kind === TEXT) onText(bytes, start, start + length);
    at = start + length;
  }
  return at;
}

export interface Target {
  port: number;
  path: string;
}

/** The events of connections; one object serves any number of connections, so a connection holds no functions. */
export interface WebSocketEvents<S> {
  opened(self: S): void;
  /** The server refused the upgrade for now. */
  refused?(self: S, refusal: Refusal): void;
  text(self: S, bytes: Buffer, start: number, end: number): void;
  closed(self: S): void;
}

/** The read buffer of every connection in the process; its content is processed before the next read. */
const READ_INTO = Buffer.allocUnsafe(65_536);
const END_OF_HEAD = '\r\n\r\n';
const KEY = randomBytes(16).toString('base64');

/** A websocket on bare TCP, cheap enough that ten thousand of them leave a core mostly idle. */
export class WebSocketClient {
  readonly #socket: Socket;
  #rest: Buffer | undefined;
  #isUpgraded = false;

  constructor(target: Target, localAddress: string, tell: WebSocketEvents<WebSocketClient>) {
    this.#socket = connect({
      host: '127.0.0.1',
      port: target.port,
      localAddress,
      noDelay: true,
      onread: {
        buffer: READ_INTO,
        callback: (length) => {
          this.#read(length, tell);
          return true;
        },
      },
    });
    this.#socket.on('connect', () => {
      this.#socket.write(
        `GET ${target.path} HTTP/1.1\r\nHost: 127.0.0.1:${target.port}\r\nUpgrade: websocket\r\n` +
          `Connection: Upgrade\r\nSec-WebSocket-Key: ${KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n`,
      );
    });
    // The 'close' event follows and is handled.
    this.#socket.on('error', () => {});
    this.#socket.on('end', () => this.#socket.destroy());
    this.#socket.on('close', () => tell.closed(this));
  }

  send(frame: Buffer): void {
    this.#socket.write(frame);
  }

  /** Stops reading. */
  pause(): void {
    this.#socket.pause();
  }

  end(): void {
    this.#socket.destroy();
  }

  #read(length: number, tell: WebSocketEvents<WebSocketClient>): void {
    let bytes: Buffer = READ_INTO;
    let end = length;
    if (this.#rest !== undefined) {
      bytes = Buffer.concat([this.#rest, READ_INTO.subarray(0, length)]);
      end = bytes.length;
      this.#rest = undefined;
    }
    if (!this.#isUpgraded) {
      const head = bytes.toString('latin1', 0, end);
      const headEnds = head.indexOf(END_OF_HEAD);
      if (headEnds === -1) return this.#keep(bytes, 0, end);
      if (!head.startsWith('HTTP/1.1 101')) {
        const refusal = refusalIn(head);
        if (refusal === undefined || tell.refused === undefined) return this.end();
        return tell.refused(this, refusal);
      }
      this.#isUpgraded = true;
      tell.opened(this);
      // Frames that arrived together with the response head follow it and are read from a copy.
      bytes = Buffer.from(bytes.subarray(headEnds + END_OF_HEAD.length, end));
      end = bytes.length;
    }
    const done = readFrames(bytes, end, (from, start, stop) => tell.text(this, from, start, stop));
    if (done === -1) this.end();
    else this.#keep(bytes, done, end);
  }

  #keep(bytes: Buffer, from: number, to: number): void {
    if (from < to) this.#rest = Buffer.from(bytes.subarray(from, to));
  }
}

function refusalIn(head: string): Refusal | undefined {
  if (!head.startsWith('HTTP/1.1 503')) return undefined;
  const line = head.split('\r\n').find((one) => one.startsWith(`${REFUSAL_HEADER}: `));
  return line === undefined ? undefined : Refusal.parse(JSON.parse(line.slice(REFUSAL_HEADER.length + 2)));
}
