import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
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
  /** Made for the first client that takes it; `false` where it is no smaller. */
  #packed: Buffer | false | undefined;

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
    const packed = response.req.acceptsEncodings('gzip') === 'gzip' ? this.#gzipped() : false;
    // The bytes differ, so their tags do.
    const tag = packed === false ? this.#tag : `${this.#tag}-gzip`;
    response.setHeader('ETag', `"${tag}"`);
    response.vary('Accept-Encoding');
    if (isKnownTo(response.req, tag)) {
      response.status(304).end();
      return;
    }
    const bytes = packed === false ? this.bytes : packed;
    if (packed !== false) response.setHeader('Content-Encoding', 'gzip');
    response.type(this.type).setHeader('Content-Length', bytes.length);
    response.end(bytes);
  }

  #gzipped(): Buffer | false {
    if (this.#packed === undefined) {
      const packed = gzipSync(this.bytes);
      this.#packed = packed.length < this.bytes.length && packed;
    }
    return this.#packed;
  }
}

/** Makes a document when it is asked for the first time, because that takes longer than the rest of a start. */
export function madeOnce<D extends KeptDocument | Promise<KeptDocument>>(make: () => D): () => D {
  let made: D | undefined;
  return () => (made ??= make());
}
