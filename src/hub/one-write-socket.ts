import { WebSocket, WebSocketServer, type ServerOptions } from 'ws';

const FINAL_TEXT = 0x81;
/** Up to this many bytes the length stands in the second byte of the head; up to 64 KiB in the two after it. */
const SHORT = 125;
const MEDIUM = 65_535;

/** What `ws` and Engine.IO use between them to write a frame that is ready, without the types saying so. */
interface ReadyFrames {
  readonly _sender: { sendFrame(list: readonly [Buffer], sent?: (error?: Error) => void): void };
}

/**
 * A websocket that writes a text in one piece. `ws` writes the head and the text of a frame apart and gathers them
 * again for the system: for messages as short as ours that is the dearest part of an answer. Without compression, which
 * is off, nothing waits in the sender, so the order stays. All else is `ws`.
 */
class OneWriteSocket extends WebSocket {
  override send(data: unknown, options?: unknown, sent?: unknown): void {
    const frame =
      typeof data === 'string' && this.readyState === WebSocket.OPEN ? textFrame(data) : undefined;
    if (frame === undefined) {
      // As it came: `ws` tells its two forms apart itself.
      (super.send as (...args: unknown[]) => void).call(this, data, options, sent);
      return;
    }
    const then = (typeof options === 'function' ? options : sent) as ((error?: Error) => void) | undefined;
    (this as unknown as ReadyFrames)._sender.sendFrame([frame], then);
  }
}

/** For Socket.IO's `wsEngine`. */
export class OneWriteServer extends WebSocketServer<typeof OneWriteSocket> {
  constructor(options: ServerOptions<typeof OneWriteSocket>) {
    super({ ...options, WebSocket: OneWriteSocket });
  }
}

/** A whole, unmasked text frame, as a server sends it; `undefined` where the text is too long to be copied. */
export function textFrame(text: string): Buffer | undefined {
  const length = Buffer.byteLength(text);
  if (length > MEDIUM) return undefined;
  const head = length <= SHORT ? 2 : 4;
  const frame = Buffer.allocUnsafe(head + length);
  frame[0] = FINAL_TEXT;
  if (head === 2) frame[1] = length;
  else {
    frame[1] = 126;
    frame.writeUInt16BE(length, 2);
  }
  frame.write(text, head);
  return frame;
}
