import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** What the agent asks of its server over plain HTTP. */

/** Why it came to nothing, with the exit code a script can go by. */
export class ServerCallError extends Error {
  readonly exitCode: number;
  /** The server asked to come back after so long. */
  readonly retryAfterMs: number | undefined;

  constructor(exitCode: number, message: string, retryAfterMs?: number) {
    super(message);
    this.exitCode = exitCode;
    this.retryAfterMs = retryAfterMs;
  }
}

export const EXIT = { badKey: 2, notEnrolled: 2, notReached: 3, refused: 4 } as const;
const ANSWER_MS = 30_000;

export interface ServerAnswer {
  status: number;
  /** `undefined` where it was no JSON: a proxy's page, say. */
  body: unknown;
  /** In the server's own words, if it refused. */
  refusal: string | undefined;
  retryAfterMs: number | undefined;
}

interface ServerCall {
  token?: string;
  body?: unknown;
  /** Sends the body packed: for what is long and says much the same in each line. */
  isPacked?: true;
  /** Ends the call before it is answered, or given up. */
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
  { token, body, isPacked, signal }: ServerCall,
): Promise<ServerAnswer> {
  const content = body === undefined ? undefined : JSON.stringify(body);
  let response: Response;
  try {
    response = await fetch(`${server}/api/v1${path}`, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(content === undefined ? {} : { 'content-type': 'application/json' }),
        ...(isPacked === undefined ? {} : { 'content-encoding': 'gzip' }),
      },
      ...(content === undefined ? {} : { body: isPacked === undefined ? content : await packed(content) }),
      signal: AbortSignal.any([AbortSignal.timeout(ANSWER_MS), ...(signal === undefined ? [] : [signal])]),
    });
  } catch (error) {
    const cause =
      error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new ServerCallError(
      EXIT.notReached,
      `The server ${server} was not reached (${cause}). Check the address, the name and the firewall.`,
    );
  }
  const answer = await jsonOf(response);
  const seconds = Number(response.headers.get('retry-after'));
  return {
    status: response.status,
    body: answer,
    refusal: response.ok ? undefined : saidBy(answer, response.status),
    retryAfterMs: seconds > 0 ? seconds * 1000 : undefined,
  };
}

const packed = async (content: string) => new Uint8Array(await promisify(gzip)(content));

function saidBy(body: unknown, status: number): string {
  return typeof body === 'object' && body !== null && 'error' in body
    ? String(body.error)
    : `status ${status}`;
}

async function jsonOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return undefined;
  }
}
