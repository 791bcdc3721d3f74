import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Socket } from 'socket.io-client';
import { REFUSAL_HEADER, Refusal } from '../../../protocol/index.ts';

/**
 * Tells why the server did not make a websocket of the connection that this socket has just begun. Socket.IO's client
 * says only that it was so; its websocket (of the package `ws`) is there from the start, and has read the answer.
 */
export function onTurnedAway(socket: Socket, tell: (refusal: Refusal) => void): void {
  const { ws } = (socket.io.engine as unknown as { transport?: { ws?: WebSocketOfNode } }).transport ?? {};
  ws?.once('unexpected-response', (_request, { statusCode = 0, headers }) => {
    const refusal = refusalIn(statusCode, headers);
    if (refusal !== undefined) tell(refusal);
    // Is told as an error of the connection, as without this listener.
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

/** What the hub says; or a proxy in front of it that says no more than when to come back. */
export function refusalIn(status: number, headers: IncomingHttpHeaders): Refusal | undefined {
  if (status !== SERVICE_UNAVAILABLE) return undefined;
  const said = Refusal.safeParse(jsonIn(headers[REFUSAL_HEADER]));
  if (said.success) return said.data;
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
