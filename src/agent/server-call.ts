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

/** @param path  below /api/v1 */
export async function post(
  server: string,
  path: string,
  { token, body }: { token?: string; body?: unknown },
): Promise<ServerAnswer> {
  let response: Response;
  try {
    response = await fetch(`${server}/api/v1${path}`, {
      method: 'POST',
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(ANSWER_MS),
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
