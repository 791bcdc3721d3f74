import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { clock } from '../../clock.ts';
import { HUB_PATH } from '../../protocol/index.ts';
import { NetworkError } from '../os/network/proxy-rules.ts';
import type { Network } from '../os/network/network.ts';
import { printable } from './plain-text.ts';

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
  /** `undefined` if the body is not JSON, such as the error page of a proxy. */
  body: unknown;
  /** The server's error message, if it refused. */
  refusal: string | undefined;
  retryAfterMs: number | undefined;
}

interface ServerCall {
  token?: string;
  body?: unknown;
  /** Compresses the body, which is worthwhile for long and repetitive ones. */
  compress?: true;
  /** Aborts the request. */
  signal?: AbortSignal;
}

/** The server of this machine, and the network route to it. */
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

/** Redirects are not followed: the token and the body are for the server of the enrollment only. */
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

/** `undefined` if the body is not JSON, or larger than any response of the server. */
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

/** How to continue an upload after the server's response. Pure. */
type UploadVerdict =
  | { do: 'done' }
  /** Send again without the records that the server has rejected. */
  | { do: 'resend'; without: ReadonlySet<number> }
  | { do: 'give-up'; why: string }
  /** The token was refused. If there is another one, try it. */
  | { do: 'other-token' }
  | { do: 'wait'; ms: number };

export function uploadVerdict(
  answer: Pick<ServerAnswer, 'status' | 'body' | 'refusal' | 'retryAfterMs'>,
  failures: number,
  random: () => number,
): UploadVerdict {
  const { status, retryAfterMs } = answer;
  if (status >= 200 && status < 300) return { do: 'done' };
  if (status === 400) {
    const named = namedRecords(answer.body);
    return named.size > 0 ? { do: 'resend', without: named } : { do: 'give-up', why: answer.refusal ?? '' };
  }
  if (status === 413 || status === 415 || status === 422) {
    return { do: 'give-up', why: answer.refusal ?? '' };
  }
  if (status === 401) return { do: 'other-token' };
  if (retryAfterMs !== undefined) return { do: 'wait', ms: requestedDelay(retryAfterMs, random) };
  // Other refusals last until the server changes, for example if it is too old for this upload.
  const isTemporary = status >= 500 || status === 429 || status === 408;
  return { do: 'wait', ms: (isTemporary ? reconnectDelay : refusedDelay)(failures, random) };
}

/** The indexes in the batch that a 400 names, as in `body.events.3.message`. */
function namedRecords(body: unknown): Set<number> {
  const named = new Set<number>();
  if (typeof body !== 'object' || body === null || !('details' in body)) return named;
  if (!Array.isArray(body.details)) return named;
  for (const issue of body.details as unknown[]) {
    if (typeof issue !== 'object' || issue === null || !('path' in issue)) continue;
    const found = /^body\.\w+\.(\d+)(\.|$)/.exec(String(issue.path));
    if (found !== null) named.add(Number(found[1]));
  }
  return named;
}

/** How long to wait before the next attempt. Pure: callers can pass the source of randomness. */

const BASE_MS = 1000;
const CAP_MS = 60_000;

/** The longest wait that a server may request. During the wait, the agent cannot be reached. */
const ASKED_MAX_MS = 4 * 3_600_000;
/** Limits for the heartbeat interval that a server may request. Timers of more than 24 days would fire at once. */
const HEARTBEAT_MIN_MS = 50;
const HEARTBEAT_MAX_MS = 3_600_000;

const boundedWait = (askedMs: number) => Math.min(Math.max(0, askedMs), ASKED_MAX_MS);

/** Doubles with each failed attempt up to a minute, with full jitter, so that a fleet does not reconnect all at once. */
export function reconnectDelay(
  failedAttempts: number,
  random: () => number = Math.random,
  capMs: number = CAP_MS,
): number {
  const ceiling = Math.min(capMs, BASE_MS * 2 ** Math.min(failedAttempts, 16));
  return Math.round(BASE_MS / 4 + random() * ceiling);
}

/** The requested wait plus up to a fifth, so that agents do not return at the same moment. */
export function requestedDelay(afterMs: number, random: () => number = Math.random): number {
  return Math.round(boundedWait(afterMs) * (1 + random() * 0.2));
}

/** For a refusal that lasts until an administrator acts: the agent keeps trying, but rarely. */
export function refusedDelay(failedAttempts: number, random: () => number = Math.random): number {
  const minutes = Math.min(2 * 2 ** Math.min(failedAttempts, 4), 15);
  return Math.round(minutes * 60_000 * (0.75 + random() * 0.5));
}

/** The heartbeat interval, varied by up to ten per cent. */
export function heartbeatDelay(nextInMs: number, random: () => number = Math.random): number {
  return Math.round(
    Math.min(Math.max(nextInMs, HEARTBEAT_MIN_MS), HEARTBEAT_MAX_MS) * (0.9 + random() * 0.2),
  );
}

/** Which server addresses the agent accepts: only those whose connection cannot be read or changed on the way. */

export const INSECURE_WARNING =
  'The connection to the server is not encrypted (--insecure-http). Anyone who can change it on the way controls this machine. Use this in laboratories only.';

export const INSECURE_REFUSAL =
  'The address of the server must begin with https://. Over http://, anyone on the way could take over this machine. In a laboratory without certificates, enroll with --insecure-http.';

/**
 * The path of the hub, which the server returns as a path or as an absolute URL. A URL of another host, or an
 * unencrypted one, is ignored: changing the server's settings must not be enough to redirect its agents.
 */
export function hubPathOf(server: string, hubUrl: string): { path: string; ignored?: string } {
  const base = URL.parse(server);
  const named = URL.parse(hubUrl, server);
  if (base === null || named === null) return { path: HUB_PATH, ignored: hubUrl };
  const protocol = named.protocol.replace(/^ws/, 'http');
  const isSame = named.host === base.host && protocol === base.protocol && named.username === '';
  return isSame ? { path: named.pathname } : { path: HUB_PATH, ignored: hubUrl };
}
