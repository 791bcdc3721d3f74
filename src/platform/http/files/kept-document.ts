import { createHash } from 'node:crypto';
import type { Response } from 'express';
import { isKnownTo } from './etag.ts';

/**
 * A document that is the same for every client for as long as this process runs: made once, and sent as bytes with
 * their hash as ETag.
 */
export class KeptDocument {
  readonly type: string;
  readonly bytes: Buffer;
  readonly #tag: string;
  readonly #maxAgeSeconds: number;

  /** @param maxAgeSeconds  for which a client need not ask again; 0 where each use asks whether it is still the same */
  constructor(type: string, content: string | Buffer, maxAgeSeconds = 0) {
    this.type = type;
    this.bytes = Buffer.from(content);
    this.#tag = createHash('sha256').update(this.bytes).digest('base64url');
    this.#maxAgeSeconds = maxAgeSeconds;
  }

  send(response: Response): void {
    const cache = this.#maxAgeSeconds === 0 ? 'no-cache' : `public, max-age=${this.#maxAgeSeconds}`;
    response.setHeader('Cache-Control', cache);
    response.setHeader('ETag', `"${this.#tag}"`);
    if (isKnownTo(response.req, this.#tag)) {
      response.status(304).end();
      return;
    }
    response.type(this.type).setHeader('Content-Length', this.bytes.length);
    response.end(this.bytes);
  }
}

/** Makes a document when it is asked for the first time, because that takes longer than the rest of a start. */
export function madeOnce<D extends KeptDocument | Promise<KeptDocument>>(make: () => D): () => D {
  let made: D | undefined;
  return () => (made ??= make());
}
