import path from 'node:path';
import type { Response, Request } from 'express';
import { AppError } from '../errors.ts';
import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { z } from 'zod';
import { StreamAnswer } from './stream-answer.ts';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { DetachedContext } from '../context.ts';

/**
 * A document that is the same for every client for as long as this process runs: made once, and sent as bytes with
 * their hash as ETag.
 */
export class KeptDocument {
  readonly type: string;
  readonly bytes: Buffer;
  readonly #tag: string;
  readonly #maxAgeSeconds: number;
  /** Made for the first client that takes it; `false` if it is no smaller. */
  #packed: Buffer | false | undefined;

  /** @param maxAgeSeconds  for which a client need not ask again; 0 if each use asks whether it is still the same */
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

/**
 * Whether the client has a copy with this tag (RFC 9110, 13.1.2). Asked here and not by Express, because `fetch` sends
 * `Cache-Control: no-cache` along, for which Express sends everything again.
 */
export function isKnownTo({ headers }: Pick<Request, 'headers'>, tag: string): boolean {
  const known = (headers['if-none-match'] ?? '').split(',').map((each) => each.trim().replace(/^W\//, ''));
  return known.includes('*') || known.includes(`"${tag}"`);
}

/** A client that takes nothing for so long is gone, and the file that is open for it is closed. */
const PATIENCE_MS = 60_000;

/**
 * A file of this machine, with its hash as ETag: `Range`, `If-None-Match` and `If-Range` are answered by that, so that a
 * broken download is resumed and never mixed with another file.
 */
export class FileAnswer {
  readonly path: string;
  readonly sha256: string;
  /** As the client stores it: letters, digits, dots and dashes. */
  readonly fileName: string;

  constructor({ path: file, sha256, fileName }: Pick<FileAnswer, 'path' | 'sha256' | 'fileName'>) {
    this.path = file;
    this.sha256 = sha256;
    this.fileName = fileName;
  }

  /** Should it fail half-way, the connection is cut, so that a part is not taken for the whole. */
  async send(response: Response): Promise<void> {
    const headers = {
      ETag: `"${this.sha256}"`,
      // May be stored, and is asked for again by its ETag.
      'Cache-Control': 'no-cache',
      'Content-Type': 'application/octet-stream',
      'Content-Disposition': `attachment; filename="${this.fileName}"`,
    };
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (isKnownTo(response.req, this.sha256)) {
      response.removeHeader('Content-Type');
      response.status(304).end();
      return;
    }
    response.setTimeout(PATIENCE_MS, () => response.destroy());
    const failure = await this.#transfer(response);
    if (failure === undefined || failure.code === 'ECONNABORTED') return;
    if (!response.headersSent) for (const name of Object.keys(headers)) response.removeHeader(name);
    throw asAppError(failure);
  }

  /** By Express, which answers conditions and ranges. */
  #transfer(response: Response): Promise<SendFailure | undefined> {
    const options = { root: path.dirname(this.path), dotfiles: 'allow', lastModified: false } as const;
    return new Promise((resolve) => {
      response.sendFile(
        path.basename(this.path),
        { ...options, cacheControl: false },
        (failure?: SendFailure) => resolve(failure),
      );
    });
  }
}

type SendFailure = NodeJS.ErrnoException & { status?: number };

/** Without the path of the file, which stays private. */
function asAppError(failure: SendFailure): Error {
  switch (failure.status) {
    case 404:
      return new AppError('unavailable', 'The file is missing on this server.', { cause: failure });
    case 412:
      return new AppError('precondition_failed', 'The file is not the one that the request names.');
    case 416:
      return new AppError('range_not_satisfiable', 'The file has no bytes in the range that was asked for.');
    default:
      return failure;
  }
}

/** An answer in place of JSON, for what follows links: a redirect, a document or a file. */
export type BrowserAnswer = Redirect | Document | KeptDocument | FileAnswer | StreamAnswer;

/** The response schema of a row whose answer is not JSON. */
export const NoBody = z.never();

export class Redirect {
  readonly url: string;
  readonly status: 302 | 303;

  /** Is sent as 303, so that the browser follows with a GET, whatever it sent here; 302 if a specification says so. */
  constructor(url: string, status: 302 | 303 = 303) {
    this.url = url;
    this.status = status;
  }

  send(response: Response): void {
    // The URL may carry a code, which must not reach the next site as the page that the browser came from.
    response.setHeader('Referrer-Policy', 'no-referrer');
    response.redirect(this.status, this.url);
  }
}

export class Document {
  readonly type: string;
  readonly text: string;

  readonly status: number;

  constructor(type: string, text: string, status = 200) {
    this.type = type;
    this.text = text;
    this.status = status;
  }

  send(response: Response): void {
    response.status(this.status).type(this.type).send(this.text);
  }
}

export const isBrowserAnswer = (answer: unknown): answer is BrowserAnswer =>
  [Redirect, Document, KeptDocument, FileAnswer, StreamAnswer].some((kind) => answer instanceof kind);

/** Opens short transactions of the caller, one for each portion: none is open while the client takes its time. */
export type Within = DetachedContext['withTenant'];

/** An answer that is made while it is sent, for what is too much to hold at once. */
export class Download {
  readonly type: string;
  /** Given if browsers are to keep it as a file. */
  readonly fileName: string | undefined;
  readonly pieces: (within: Within) => AsyncIterable<string>;
  /** The details of its audit entry. */
  readonly noted: Record<string, unknown>;

  constructor({ type, fileName, pieces, noted }: Pick<Download, 'type' | 'fileName' | 'pieces' | 'noted'>) {
    this.type = type;
    this.fileName = fileName;
    this.pieces = pieces;
    this.noted = noted;
  }
}

/** A download that has what it reads with. */
export class OpenDownload {
  readonly #download: Download;
  readonly #within: Within;

  constructor(download: Download, within: Within) {
    this.#download = download;
    this.#within = within;
  }

  /** Should it fail half-way, the connection is cut, so that a part is not taken for the whole. */
  async send(response: Response): Promise<void> {
    const { type, fileName, pieces } = this.#download;
    response.type(type);
    if (fileName !== undefined) {
      response.setHeader('Content-Disposition', `attachment; filename="${fileName}"`);
    }
    try {
      await pipeline(Readable.from(pieces(this.#within)), response);
    } catch (error) {
      if (!hasLeft(error)) throw error;
    }
  }
}

/** The client did not wait for the end. */
const hasLeft = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE';
