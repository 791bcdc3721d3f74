import { createReadStream } from 'node:fs';
import { type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { AwsV4Signer } from 'aws4fetch';
import { XMLParser } from 'fast-xml-parser';
import { z } from 'zod';
import { clock } from '../clock.ts';
import { refusal, S3Error, type S3Options, s3Url } from './s3.ts';

/**
 * Large objects in S3-compatible storage, of which nothing is held in memory: they are sent from a file and read as a
 * stream. `S3Store` is for text that is made while it is sent.
 */
export class S3Objects {
  readonly #options: S3Options;
  readonly #timing: { patienceMs: number; attempts: number; retryMs: number };

  constructor(options: S3Options) {
    this.#options = options;
    this.#timing = { patienceMs: 120_000, attempts: 5, retryMs: 500, ...options.timing };
  }

  /**
   * Sends a file whose SHA-256 is known. The storage compares the hash itself, and does not replace an object: `existed`.
   * A storage that ignores `If-None-Match` replaces it, with the same bytes.
   */
  async putFile(
    key: string,
    { path, size, sha256 }: { path: string; size: number; sha256: string },
  ): Promise<'written' | 'existed'> {
    return this.#again(async () => {
      const answer = await this.#send({
        method: 'PUT',
        key,
        sha256,
        headers: {
          'content-length': String(size),
          'x-amz-checksum-sha256': Buffer.from(sha256, 'hex').toString('base64'),
          'if-none-match': '*',
        },
        body: () => createReadStream(path),
      });
      const text = await textOf(answer);
      if (answer.statusCode === 412) return 'existed';
      if (answer.statusCode !== 200) throw refusal('PUT', answer.statusCode ?? 0, text);
      return 'written';
    });
  }

  /** @param range  as in the header: `bytes=0-99`. `undefined` if there is no such object. */
  async read(key: string, range: string | undefined): Promise<Readable | undefined> {
    return this.#again(async () => {
      const answer = await this.#send({ method: 'GET', key, headers: range === undefined ? {} : { range } });
      if (answer.statusCode === (range === undefined ? 200 : 206)) return answer;
      const text = await textOf(answer);
      if (answer.statusCode === 404) return undefined;
      throw refusal('GET', answer.statusCode ?? 0, text);
    });
  }

  async has(key: string): Promise<boolean> {
    return this.#again(async () => {
      const answer = await this.#send({ method: 'HEAD', key });
      await textOf(answer);
      if (answer.statusCode === 200) return true;
      if (answer.statusCode === 404) return false;
      throw refusal('HEAD', answer.statusCode ?? 0, '');
    });
  }

  async remove(key: string): Promise<void> {
    await this.#again(async () => {
      const answer = await this.#send({ method: 'DELETE', key });
      const text = await textOf(answer);
      const isGone = [200, 204, 404].includes(answer.statusCode ?? 0);
      if (!isGone) throw refusal('DELETE', answer.statusCode ?? 0, text);
    });
  }

  /** All objects below a path, in the order of their keys. */
  async *list(prefix: string): AsyncGenerator<ListedKey> {
    for (let token: string | undefined, isFirst = true; isFirst || token !== undefined; isFirst = false) {
      const query = {
        'list-type': '2',
        prefix,
        ...(token === undefined ? {} : { 'continuation-token': token }),
      };
      const page = await this.#again(async () => {
        const answer = await this.#send({ method: 'GET', key: '', query });
        const text = await textOf(answer);
        if (answer.statusCode !== 200) throw refusal('GET', answer.statusCode ?? 0, text);
        return listed(text);
      });
      yield* page.keys;
      token = page.next;
    }
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

  async #send({
    method,
    key,
    query,
    headers = {},
    sha256 = EMPTY_SHA256,
    body,
  }: Call): Promise<IncomingMessage> {
    const { region, accessKeyId, secretAccessKey } = this.#options;
    const url = s3Url(this.#options, key, query);
    const { 'content-length': length, ...signable } = headers;
    const signed = await new AwsV4Signer({
      method,
      url: url.href,
      service: 's3',
      region,
      accessKeyId,
      secretAccessKey,
      headers: { ...signable, 'x-amz-content-sha256': sha256 },
    }).sign();
    const sender = url.protocol === 'https:' ? requestHttps : requestHttp;
    const outgoing = sender(signed.url, {
      method,
      headers: {
        ...Object.fromEntries(signed.headers),
        ...(length === undefined ? {} : { 'content-length': length }),
      },
      timeout: this.#timing.patienceMs,
    });
    outgoing.once('timeout', () => outgoing.destroy(new Error('the storage sent nothing for too long')));
    try {
      return await answerTo(outgoing, body?.());
    } catch (error) {
      throw new S3Error(`The storage at ${url.host} could not be reached, or broke off.`, {
        isPassing: true,
        cause: error,
      });
    }
  }
}

interface Call {
  method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  key: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  sha256?: string;
  body?: () => Readable;
}

export interface ListedKey {
  key: string;
  size: number;
  modifiedAt: Date;
}

const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** The answer may come before the body was sent, as a refusal does. */
async function answerTo(outgoing: ClientRequest, body: Readable | undefined): Promise<IncomingMessage> {
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve);
    outgoing.once('error', reject);
  });
  if (body === undefined) {
    outgoing.end();
    return answered;
  }
  const sent = pipeline(body, outgoing).then(() => answered);
  return Promise.race([answered, sent]);
}

const ANSWER_MAX = 4 << 20;

async function textOf(answer: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  let size = 0;
  try {
    for await (const piece of answer as AsyncIterable<Buffer>) {
      size += piece.length;
      if (size > ANSWER_MAX) throw new Error('the answer is too long');
      pieces.push(piece);
    }
  } catch (error) {
    throw new S3Error('The storage broke off in its answer.', { isPassing: true, cause: error });
  }
  return Buffer.concat(pieces).toString();
}

const xml = new XMLParser({ parseTagValue: false, isArray: (name) => name === 'Contents' });

const Listing = z.object({
  ListBucketResult: z.preprocess(
    // An element without any other is read as a text.
    (value) => (value === '' ? {} : value),
    z.object({
      Contents: z
        .array(z.object({ Key: z.string(), Size: z.coerce.number(), LastModified: z.coerce.date() }))
        .default([]),
      NextContinuationToken: z.string().optional(),
    }),
  ),
});

function listed(text: string): { keys: ListedKey[]; next: string | undefined } {
  const parsed = Listing.safeParse(xml.parse(text));
  if (!parsed.success) throw new S3Error('The storage gave a list that is none.');
  const { Contents: contents, NextContinuationToken: next } = parsed.data.ListBucketResult;
  const keys = contents.map((one) => ({ key: one.Key, size: one.Size, modifiedAt: one.LastModified }));
  return { keys, next };
}
