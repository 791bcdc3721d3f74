import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Request, Response } from 'express';
import { clock, type Timer } from '../../clock.ts';
import { AppError, invalid } from '../errors.ts';
import type { IncomingMessage } from 'node:http';

/**
 * The body of a request that is a file. Nothing of it has been read, and nothing that the client says of it is proved:
 * one that announces more than the row takes is refused, one that sends more is for the reader to refuse.
 */
export interface ByteBody {
  /** Read once. What the reader leaves is dropped as it arrives, so that the client gets its answer. */
  pieces: AsyncIterable<Buffer>;
  /** As announced; `undefined` if the client sends pieces until it has no more. */
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

/** How often a client that is being waited for has to have taken something. */
const PATIENCE_MS = 60_000;
/** So much in that time, which is 4 KiB a second: a client that takes less keeps others from their turn. */
const LEAST_BYTES = 256 * 1024;
/** The bytes handed to the network at a time. A piece of a stream can be larger. */
const SLICE_BYTES = 64 * 1024;

interface Noted {
  orgId: string;
  resourceId: string;
  details: Record<string, unknown>;
}

export interface StreamAnswerOptions {
  fileName: string;
  type: string;
  /** If it is known, parts of it can be asked for. */
  known?: { length: number; etag: string };
  read: (range: ByteRange | undefined) => AsyncIterable<Buffer>;
  /** The details of its audit entry. */
  noted: Noted;
  patienceMs?: number;
}

/**
 * A file that is made while it is sent. No more of it is made than the client takes, and nothing more once the client has
 * left. Should it fail half-way, the connection is cut, so that a part is not taken for the whole.
 */
export class StreamAnswer {
  readonly noted: Noted;
  readonly #options: StreamAnswerOptions;

  constructor(options: StreamAnswerOptions) {
    this.#options = options;
    this.noted = options.noted;
  }

  async send(response: Response): Promise<void> {
    const { known, patienceMs = PATIENCE_MS, read } = this.#options;
    const range = known === undefined ? 'all' : wantedRange(response.req, known);
    if (range === 'none') {
      response.setHeader('Content-Range', `bytes */${known?.length ?? 0}`);
      throw new AppError('range_not_satisfiable', 'The file has no bytes in the range that was asked for.');
    }
    if (response.req.method === 'HEAD') {
      setHeaders(response, this.#options, range);
      response.end();
      return;
    }
    const pace = { slices: 0 };
    const slices = slicesOf(read(range === 'all' ? undefined : range), pace);
    // A file that cannot be read at all is answered with an error.
    const first = await slices.next();
    if (response.destroyed) {
      await slices.return();
      return;
    }
    setHeaders(response, this.#options, range);
    const watch = watchPace(response, pace, patienceMs);
    try {
      const body = Readable.from(resumed(first, slices), {
        objectMode: false,
        highWaterMark: SLICE_BYTES,
      });
      await pipeline(body, response);
    } catch (error) {
      if (!hasLeft(error)) throw error;
    } finally {
      clock.clear(watch);
    }
  }
}

function setHeaders(
  response: Response,
  { fileName, type, known }: StreamAnswerOptions,
  range: ByteRange | 'all',
): void {
  response.setHeader('Content-Type', type);
  response.setHeader('Content-Disposition', contentDisposition(fileName));
  response.setHeader('Cache-Control', 'no-store');
  if (known !== undefined) setLength(response, known, range);
}

async function* resumed(
  first: IteratorResult<Buffer, void>,
  rest: AsyncGenerator<Buffer, void>,
): AsyncGenerator<Buffer, void> {
  try {
    if (first.value !== undefined) yield first.value;
    yield* rest;
  } finally {
    await rest.return();
  }
}

/** A range of another file than this one is not answered with a part of this one (RFC 9110, 13.1.5). */
function wantedRange({ headers }: Request, { length, etag }: { length: number; etag: string }) {
  const only = headers['if-range'];
  if (only !== undefined && only !== etag) return 'all';
  return byteRange(headers.range, length);
}

function setLength(
  response: Response,
  { length, etag }: { length: number; etag: string },
  range: ByteRange | 'all',
): void {
  response.setHeader('ETag', etag);
  response.setHeader('Accept-Ranges', 'bytes');
  if (range === 'all') {
    response.setHeader('Content-Length', length);
    return;
  }
  const { first, last } = range;
  response.status(206);
  response.setHeader('Content-Length', last - first + 1);
  response.setHeader('Content-Range', `bytes ${first}-${last}/${length}`);
}

async function* slicesOf(
  pieces: AsyncIterable<Buffer>,
  pace: { slices: number },
): AsyncGenerator<Buffer, void> {
  for await (const piece of pieces) {
    for (let from = 0; from < piece.length; from += SLICE_BYTES) {
      pace.slices += 1;
      yield piece.subarray(from, from + SLICE_BYTES);
    }
  }
}

/** Cuts a client off that is waited for and takes next to nothing. */
function watchPace(response: Response, pace: { slices: number }, patienceMs: number): Timer {
  let before = 0;
  return clock
    .setInterval(() => {
      const isSlow = (pace.slices - before) * SLICE_BYTES < LEAST_BYTES;
      if (isSlow && response.writableNeedDrain) response.destroy();
      before = pace.slices;
    }, patienceMs)
    .unref();
}

/** RFC 6266: a name of harmless characters for everyone, and the real one for clients that understand RFC 5987. */
export function contentDisposition(fileName: string): string {
  const name = shortened(fileName.replace(UNSAFE, '_'));
  const plain = name.replace(/[^\w.()+, -]/g, '_');
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

/** Separators, control characters, those that turn the direction of a text around, and halves of a character. */
const UNSAFE = /[/\\:*?"<>|\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const NAME_MAX = 150;

/** Keeps the ending, by which a file is opened. A name of dots alone is none. */
function shortened(name: string): string {
  const characters = Array.from(name);
  const short =
    characters.length <= NAME_MAX
      ? characters
      : [...characters.slice(0, NAME_MAX - 20), '…', ...characters.slice(-19)];
  const text = short.join('').replace(/^[. ]+|[. ]+$/g, '');
  return text === '' ? 'download' : text;
}

const hasLeft = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE';

/** Bytes of a file, both ends included. */
export interface ByteRange {
  first: number;
  last: number;
}

/**
 * What the header `Range` asks for of a file of `size` bytes (RFC 9110, 14.1.2). `all` if it is absent or has a form
 * that is not supported, which the standard allows; `none` if the file has no such bytes.
 */
export function byteRange(header: string | undefined, size: number): ByteRange | 'all' | 'none' {
  const [, from, to] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? [];
  if (from === undefined || to === undefined || (from === '' && to === '')) return 'all';
  if (from === '') {
    const length = Math.min(Number(to), size);
    return length === 0 ? 'none' : { first: size - length, last: size - 1 };
  }
  const first = Number(from);
  const last = to === '' ? size - 1 : Math.min(Number(to), size - 1);
  if (to !== '' && Number(to) < first) return 'all';
  return first >= size ? 'none' : { first, last };
}
