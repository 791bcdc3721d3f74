import { createHash } from 'node:crypto';
import { AwsV4Signer } from 'aws4fetch';
import { XMLParser } from 'fast-xml-parser';
import { clock } from '../clock.ts';

/** Objects in S3-compatible storage (docs/decisions/audit-archive.md, docs/decisions/releases.md). */

export interface S3Options {
  endpoint: string;
  region: string;
  bucket: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** The bucket in the path and not in the name of the host. */
  pathStyle: boolean;
  /** For tests. */
  timing?: Partial<S3Timing>;
}

interface S3Timing {
  /** The part of an object that is held in memory and sent at once. S3 takes no less than 5 MiB. */
  partBytes: number;
  /** For one request; for a body that comes back, between two pieces of it. */
  patienceMs: number;
  attempts: number;
  retryMs: number;
}

const TIMING: S3Timing = { partBytes: 8 << 20, patienceMs: 120_000, attempts: 3, retryMs: 1000 };

/** The storage did not do what it was asked for. The message holds no secret. */
export class S3Error extends Error {
  readonly isPassing: boolean;

  constructor(message: string, { isPassing = false, cause }: { isPassing?: boolean; cause?: unknown } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'S3Error';
    this.isPassing = isPassing;
  }
}

interface Call {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  key: string;
  query?: Record<string, string>;
  body?: Buffer;
  signal: AbortSignal | undefined;
}

export class S3Store {
  readonly #options: S3Options;
  readonly #timing: S3Timing;

  constructor(options: S3Options) {
    this.#options = options;
    this.#timing = { ...TIMING, ...options.timing };
  }

  /**
   * Writes an object from its pieces, of which it holds one part at a time, and reads it back. Resolves when what the
   * storage gives is what it was given; if anything fails, no object of that name was made or replaced before all
   * pieces had come.
   */
  async put(
    key: string,
    pieces: AsyncIterable<string | Buffer>,
    signal?: AbortSignal,
  ): Promise<{ bytes: number }> {
    const whole = createHash('sha256');
    let bytes = 0;
    let uploadId: string | undefined;
    const etags: string[] = [];
    try {
      for await (const { part, isLast } of this.#parts(pieces)) {
        whole.update(part);
        bytes += part.length;
        if (isLast && uploadId === undefined) {
          await this.#call({ method: 'PUT', key, body: part, signal });
        } else {
          uploadId ??= await this.#begin(key, signal);
          etags.push(await this.#upload(key, uploadId, etags.length + 1, part, signal));
        }
      }
      if (uploadId !== undefined) await this.#complete(key, uploadId, etags, signal);
    } catch (error) {
      // The parts that were sent would otherwise stay, and cost.
      if (uploadId !== undefined) await this.#abandon(key, uploadId);
      throw error;
    }
    const stored = await this.#readBack(key, signal);
    if (stored.bytes !== bytes || stored.sha256 !== whole.digest('hex')) {
      throw new S3Error(`What was read back of ${key} is not what was written.`);
    }
    return { bytes };
  }

  /** A URL by which anyone can read an object for a while. Nothing is asked of the storage: the object may not exist. */
  async readUrl(key: string, seconds: number): Promise<string> {
    const { region, accessKeyId, secretAccessKey } = this.#options;
    const signer = new AwsV4Signer({
      method: 'GET',
      url: s3Url(this.#options, key, { 'X-Amz-Expires': String(seconds) }).href,
      service: 's3',
      region,
      accessKeyId,
      secretAccessKey,
      signQuery: true,
    });
    return (await signer.sign()).url.href;
  }

  async *#parts(pieces: AsyncIterable<string | Buffer>): AsyncGenerator<{ part: Buffer; isLast: boolean }> {
    const { partBytes } = this.#timing;
    let collected: Buffer[] = [];
    let size = 0;
    for await (const piece of pieces) {
      const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
      // Before it is added: so there is always something left for the last part.
      if (size >= partBytes) {
        yield { part: Buffer.concat(collected), isLast: false };
        collected = [];
        size = 0;
      }
      collected.push(bytes);
      size += bytes.length;
    }
    yield { part: Buffer.concat(collected), isLast: true };
  }

  async #begin(key: string, signal: AbortSignal | undefined): Promise<string> {
    const { text } = await this.#call({ method: 'POST', key, query: { uploads: '' }, signal });
    const { UploadId: id } = inside(text, 'InitiateMultipartUploadResult');
    if (typeof id !== 'string' || id === '') throw new S3Error('The storage began no upload.');
    return id;
  }

  async #upload(
    key: string,
    uploadId: string,
    partNumber: number,
    body: Buffer,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    const query = { partNumber: String(partNumber), uploadId };
    const { headers } = await this.#call({ method: 'PUT', key, query, body, signal });
    const etag = headers.get('etag');
    if (etag === null) throw new S3Error('The storage gave no name to a part.');
    return etag;
  }

  async #complete(
    key: string,
    uploadId: string,
    etags: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const parts = etags.map(
      (etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${escaped(etag)}</ETag></Part>`,
    );
    const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
    const { text } = await this.#call({ method: 'POST', key, query: { uploadId }, body, signal });
    // It may say 200 long before it knows.
    if (inside(text, 'CompleteMultipartUploadResult')['ETag'] === undefined) {
      throw new S3Error(`The storage did not put the parts together: ${reasonIn(text)}`);
    }
  }

  async #abandon(key: string, uploadId: string): Promise<void> {
    try {
      await this.#once({ method: 'DELETE', key, query: { uploadId }, signal: undefined });
    } catch {
      // The failure that led here is reported; a lifecycle rule of the bucket removes the remaining parts.
    }
  }

  async #readBack(key: string, signal: AbortSignal | undefined): Promise<{ bytes: number; sha256: string }> {
    return this.#again(async () => {
      const hash = createHash('sha256');
      let bytes = 0;
      await this.#send({ method: 'GET', key, signal }, async (response, stillHere) => {
        if (!response.ok) throw refusal('GET', response.status, await response.text());
        for await (const piece of response.body ?? []) {
          stillHere();
          hash.update(piece);
          bytes += piece.length;
        }
      });
      return { bytes, sha256: hash.digest('hex') };
    });
  }

  #call(call: Call): Promise<{ headers: Headers; text: string }> {
    return this.#again(() => this.#once(call));
  }

  #once(call: Call): Promise<{ headers: Headers; text: string }> {
    return this.#send(call, async (response) => {
      const text = await response.text();
      if (!response.ok) throw refusal(call.method, response.status, text);
      return { headers: response.headers, text };
    });
  }

  /** Tries again what may pass. All of it can be done twice. */
  async #again<T>(work: () => Promise<T>): Promise<T> {
    const { attempts, retryMs } = this.#timing;
    for (let attempt = 1; ; attempt++) {
      try {
        return await work();
      } catch (error) {
        if (attempt >= attempts || !(error instanceof S3Error && error.isPassing)) throw error;
        await clock.sleep(retryMs * 2 ** (attempt - 1));
      }
    }
  }

  async #send<T>(
    { method, key, query = {}, body, signal }: Call,
    take: (response: Response, stillHere: () => void) => Promise<T>,
  ): Promise<T> {
    const { region, accessKeyId, secretAccessKey } = this.#options;
    const { patienceMs } = this.#timing;
    const url = s3Url(this.#options, key, query);
    const bytes = body ?? Buffer.alloc(0);
    const signer = new AwsV4Signer({
      method,
      url: url.href,
      service: 's3',
      region,
      accessKeyId,
      secretAccessKey,
      headers: {
        // Part of what is signed: the storage refuses a body that is another.
        'x-amz-content-sha256': createHash('sha256').update(bytes).digest('hex'),
        ...(body === undefined ? {} : { 'content-md5': createHash('md5').update(bytes).digest('base64') }),
      },
      ...(body === undefined ? {} : { body: new Uint8Array(body) }),
    });
    const signed = await signer.sign();
    const impatience = new AbortController();
    const timer = clock.setTimeout(() => impatience.abort(), patienceMs);
    try {
      const response = await fetch(signed.url, {
        method,
        headers: signed.headers,
        signal: AbortSignal.any([impatience.signal, ...(signal === undefined ? [] : [signal])]),
        redirect: 'error',
        ...(body === undefined ? {} : { body: new Uint8Array(body) }),
      });
      return await take(response, () => void timer.refresh());
    } catch (error) {
      if (error instanceof S3Error) throw error;
      if (signal?.aborted === true) {
        throw new S3Error('The server was closed during the transfer.', { cause: error });
      }
      const reason = impatience.signal.aborted
        ? `gave no answer for ${patienceMs / 1000} s`
        : 'could not be reached, or broke off';
      throw new S3Error(`The storage at ${url.host} ${reason}.`, { isPassing: true, cause: error });
    } finally {
      clock.clear(timer);
    }
  }
}

/** Where an object is; without a key, the bucket. */
export function s3Url(
  { endpoint, bucket, pathStyle }: S3Options,
  key: string,
  query: Record<string, string> = {},
): URL {
  const url = new URL(endpoint);
  const base = url.pathname.replace(/\/+$/, '');
  if (!pathStyle) url.hostname = `${bucket}.${url.hostname}`;
  url.pathname = pathStyle ? `${base}/${bucket}/${key}` : `${base}/${key}`;
  url.search = new URLSearchParams(query).toString();
  return url;
}

const xml = new XMLParser({ parseTagValue: false });

export function inside(text: string, name: string): Record<string, unknown> {
  try {
    const parsed: unknown = xml.parse(text);
    const value = (parsed as Record<string, unknown>)[name];
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** The code only: the rest of the storage's message may be confidential. */
function reasonIn(text: string): string {
  const { Code: code } = inside(text, 'Error');
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : 'it did not say why';
}

export function refusal(method: string, status: number, text: string): S3Error {
  return new S3Error(`The storage answered ${method} with ${status}: ${reasonIn(text)}.`, {
    isPassing: status >= 500 || status === 429,
  });
}
