import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { boundedWait } from './back-off.ts';
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

/** @param path  below /api/v1 */
export const post = async (server: string, path: string, about: ServerCall): Promise<ServerAnswer> =>
  call('POST', server, path, about);

export const put = async (server: string, path: string, about: ServerCall): Promise<ServerAnswer> =>
  call('PUT', server, path, about);

async function call(
  method: string,
  server: string,
  path: string,
  { token, body, compress: isCompressed, signal }: ServerCall,
): Promise<ServerAnswer> {
  const content = body === undefined ? undefined : JSON.stringify(body);
  let response: Response;
  try {
    response = await fetch(`${server}/api/v1${path}`, {
      method,
      // The token and the body are for the server of the enrollment only.
      redirect: 'manual',
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(content === undefined ? {} : { 'content-type': 'application/json' }),
        ...(isCompressed === undefined ? {} : { 'content-encoding': 'gzip' }),
      },
      ...(content === undefined
        ? {}
        : { body: isCompressed === undefined ? content : await gzipped(content) }),
      signal: AbortSignal.any([AbortSignal.timeout(ANSWER_MS), ...(signal === undefined ? [] : [signal])]),
    });
  } catch (error) {
    const cause =
      error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new ServerCallError(
      EXIT.notReached,
      `The server ${server} could not be reached (${cause}). Check the address, the name and the firewall.`,
    );
  }
  const answer = await jsonOf(response);
  const seconds = Number(response.headers.get('retry-after'));
  return {
    status: response.status,
    body: answer,
    refusal: response.ok ? undefined : refusalIn(response, answer),
    retryAfterMs: seconds > 0 ? boundedWait(seconds * 1000) : undefined,
  };
}

const gzipped = async (content: string) => new Uint8Array(await promisify(gzip)(content));

function refusalIn({ status, headers }: Response, body: unknown): string {
  const location = headers.get('location');
  if (status >= 300 && status < 400 && location !== null) {
    return `The server answered with a redirect to ${printable(location)}, which the agent does not follow. Enroll with the actual address of the server.`;
  }
  return typeof body === 'object' && body !== null && 'error' in body && typeof body.error === 'string'
    ? printable(body.error, 500)
    : `status ${status}`;
}

/** `undefined` where the body is not JSON, or larger than any response of the server. */
async function jsonOf(response: Response): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.length;
      if (bytes > ANSWER_MAX_BYTES) return undefined;
      chunks.push(chunk);
    }
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}
