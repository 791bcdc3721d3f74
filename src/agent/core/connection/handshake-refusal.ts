import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Socket } from 'socket.io-client';
import { REFUSAL_HEADER, Refusal } from '../../../protocol/index.ts';

/** An HTTP answer in place of a websocket. */
export interface HandshakeAnswer {
  status: number;
  /** Present where the hub has answered, or a proxy in front of it that sends `Retry-After` only. */
  refusal: Refusal | undefined;
  isOfHub: boolean;
}

/**
 * Calls `onAnswer` when the websocket that this socket has just begun to open gets an HTTP answer instead.
 * Socket.IO's client reports only that the handshake failed. Its websocket (of the package `ws`) exists from the start
 * and has read the response, so the reason is taken from there.
 */
export function onHandshakeAnswer(socket: Socket, onAnswer: (answer: HandshakeAnswer) => void): void {
  const { ws } = (socket.io.engine as unknown as { transport?: { ws?: WebSocketOfNode } }).transport ?? {};
  ws?.once('unexpected-response', (_request, { statusCode = 0, headers }) => {
    const refusal = refusalIn(statusCode, headers);
    onAnswer({ status: statusCode, refusal, isOfHub: refusal !== undefined && REFUSAL_HEADER in headers });
    // This listener replaces the default one, which reports an error of the connection. Closing does the same.
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

/** The refusal of the hub, or of a proxy in front of it that sends `Retry-After` only. */
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
