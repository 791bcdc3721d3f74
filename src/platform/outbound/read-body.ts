import type { IncomingMessage } from 'node:http';
import { OutboundError } from './outbound-error.ts';

/**
 * Reads the body of an answer up to a limit. Compressed answers are refused, although they were not asked for, so that
 * no small answer can grow large in memory.
 */
export async function readBody(message: IncomingMessage, maxBytes: number): Promise<Buffer> {
  assertIdentity(message);
  if (Number(message.headers['content-length'] ?? 0) > maxBytes) throw new OutboundError('too_large');
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of message as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new OutboundError('too_large');
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** Throws where the body is compressed. */
export function assertIdentity(message: IncomingMessage): void {
  const encoding = message.headers['content-encoding'];
  if (encoding === undefined || encoding.trim().toLowerCase() === 'identity') return;
  message.destroy();
  throw new OutboundError('invalid_response');
}

/** The media type without its parameters, such as `application/json`. */
export function mediaType(message: IncomingMessage): string {
  return (message.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
}
