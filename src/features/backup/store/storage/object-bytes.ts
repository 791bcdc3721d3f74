import { createHash } from 'node:crypto';
import type { Announced } from './storage.ts';
import { notAnnounced } from './storage.ts';

/** Passes the bytes of an object on as they arrive, and fails unless they are what was announced. */
export async function* checkedBytes(
  pieces: AsyncIterable<Buffer>,
  { size, sha256 }: Announced,
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  let received = 0;
  for await (const piece of pieces) {
    received += piece.length;
    if (received > size) throw notAnnounced('The object is longer than its Content-Length.');
    hash.update(piece);
    yield piece;
  }
  if (received < size) throw notAnnounced('The upload ended before the object was complete.');
  const found = hash.digest('hex');
  if (sha256 !== undefined && found !== sha256) {
    throw notAnnounced(`The object has the SHA-256 ${found}, which is not its name.`);
  }
}
