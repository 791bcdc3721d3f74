import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { clock } from '../../../clock.ts';
import { boundedWait } from './back-off.ts';
import { NetworkError } from '../../os/network/network-error.ts';
import type { Network } from '../../os/network/network.ts';
import { printable } from '../plain-text.ts';

/** HTTP requests of the agent to its server. */

/** A failed request, with the exit code for scripts. */
export class ServerCallError extends Error {
  readonly exitCode: number;
  /** How long the server has asked the agent to wait. */
  readonly retryAfterMs: number | undefined;

  constructor(exitCode: number, message: string, retryAfterMs?: number) {
    super(message);
    this.exitCode = exitCode;
    this.retryAfterMs = retryAfterMs;
  }
}

export const EXIT = { badKey: 2, notEnrolled: 2, notReached: 3, refused: 4 } as const;
const ANSWER_MS = 30_000;
const ANSWER_MAX_BYTES = 1024 * 1024;

export interface ServerAnswer {
  status: number;
  /** `undefined` where the body is not JSON, such as the error page of a proxy. */
  body: unknown;
  /** The server's error message, if it refused. */
  refusal: string | undefined;
  retryAfterMs: number | undefined;
}

interface ServerCall {
  token?: string;
  body?: unknown;
  /** Compresses the body, which pays for long and repetitive ones. */
  compress?: true;
  /** Aborts the request. */
  signal?: AbortSignal;
}

/** The server of this machine, and the way to it. */
export interface ServerAccess {
  server: string;
  network: Network;
}

/** @param path  below /api/v1 */
export const get = async (
  access: ServerAccess,
  path: string,
  about: Omit<ServerCall, 'body'> = {},
): Promise<ServerAnswer> => call('GET', access, path, about);

export const post = async (access: ServerAccess, path: string, about: ServerCall): Promise<ServerAnswer> =>
  call('POST', access, path, about);

export const put = async (access: ServerAccess, path: string, about: ServerCall): Promise<ServerAnswer> =>
  call('PUT', access, path, about);

/** Follows no redirect: the token and the body are for the server of the enrollment only. */
async function call(
  method: 'GET' | 'POST' | 'PUT',
  { server, network }: ServerAccess,
  path: string,
  { token, body, compress: isCompressed, signal }: ServerCall,
): Promise<ServerAnswer> {
  const json = body === undefined ? undefined : JSON.stringify(body);
  const content = json !== undefined && isCompressed === true ? await gzipped(json) : json;
  const attempt = new AbortController();
  const abort = () => attempt.abort();
  const timer = clock.setTimeout(abort, ANSWER_MS);
  signal?.addEventListener('abort', abort);
  if (signal?.aborted === true) abort();
  try {
    const {
      status,
      headers,
      body: stream,
    } = await network.request(new URL(`${server}/api/v1${path}`), {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(content === undefined ? {} : { 'content-type': 'application/json' }),
        ...(isCompressed === undefined ? {} : { 'content-encoding': 'gzip' }),
      },
      ...(content === undefined ? {} : { body: content }),
      signal: attempt.signal,
    });
    const answer = await jsonOf(stream);
    const seconds = Number(headers['retry-after']);
    return {
      status,
      body: answer,
      refusal: status >= 200 && status <= 299 ? undefined : refusalIn(status, headers.location, answer),
      retryAfterMs: seconds > 0 ? boundedWait(seconds * 1000) : undefined,
    };
  } catch (error) {
    if (!(error instanceof NetworkError)) throw error;
    const isLate = error.code === 'ABORTED' && signal?.aborted !== true;
    const reason = isLate ? `It did not answer within ${ANSWER_MS / 1000} s.` : error.message;
    throw new ServerCallError(EXIT.notReached, `The server ${server} could not be reached. ${reason}`);
  } finally {
    clock.clear(timer);
    signal?.removeEventListener('abort', abort);
  }
}

const gzipped = promisify(gzip);

function refusalIn(status: number, location: string | undefined, body: unknown): string {
  if (status >= 300 && status < 400 && location !== undefined) {
    return `The server answered with a redirect to ${printable(location)}, which the agent does not follow. Enroll with the actual address of the server.`;
  }
  return typeof body === 'object' && body !== null && 'error' in body && typeof body.error === 'string'
    ? printable(body.error, 500)
    : `status ${status}`;
}

/** `undefined` where the body is not JSON, or larger than any response of the server. */
async function jsonOf(stream: Readable): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of stream) {
      if (!Buffer.isBuffer(chunk)) return undefined;
      bytes += chunk.length;
      // Leaving the loop ends the connection.
      if (bytes > ANSWER_MAX_BYTES) return undefined;
      chunks.push(chunk);
    }
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}
