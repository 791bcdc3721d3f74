import type { IncomingMessage } from 'node:http';
import { AppError, invalid } from '../../errors.ts';

/**
 * The body of a request that is a file. Nothing of it has been read, and nothing that the client says of it is proved:
 * one that announces more than the row takes is refused, one that sends more is for the reader to refuse.
 */
export interface ByteBody {
  /** Read once. What the reader leaves is dropped as it arrives, so that the client gets its answer. */
  pieces: AsyncIterable<Buffer>;
  /** As announced; `undefined` where the client sends pieces until it has no more. */
  length: number | undefined;
  /** SHA-256 that the bytes are to have, in lower case. */
  sha256: string;
}

const SHA256 = /^[0-9a-f]{64}$/;

export function byteBody(request: IncomingMessage, limit: number): ByteBody {
  const announced = request.headers['content-length'];
  const length = announced === undefined ? undefined : Number(announced);
  if (length !== undefined && length > limit) {
    throw new AppError('payload_too_large', `The file is larger than the ${limit} bytes that are taken.`);
  }
  const sha256 = String(request.headers['x-content-sha256'] ?? '').toLowerCase();
  if (!SHA256.test(sha256)) {
    throw invalid(
      'headers.X-Content-SHA256',
      'must be the SHA-256 of the body in 64 hexadecimal digits',
      'Send the SHA-256 of the file in the header X-Content-SHA256, in 64 hexadecimal digits.',
    );
  }
  return { pieces: piecesOf(request), length, sha256 };
}

async function* piecesOf(request: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    yield* request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
  } finally {
    request.resume();
  }
}
