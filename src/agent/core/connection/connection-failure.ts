import { printable } from '../plain-text.ts';
import type { ServerAccess } from '../server/server-call.ts';
import type { HandshakeAnswer } from './handshake-refusal.ts';

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

/** What Node has reported to the websocket, below the errors of `ws` and of Socket.IO. */
function causeOf(error: Error): Error | undefined {
  const event = 'description' in error ? error.description : undefined;
  if (typeof event !== 'object' || event === null || !('error' in event)) return undefined;
  const cause = event.error;
  return cause instanceof Error && 'code' in cause ? cause : undefined;
}
