import { EnrollResponse, type EnrollRequest } from '../protocol/index.ts';
import type { Credentials } from './credentials.ts';

/** Why an enrollment failed, with the exit code a script can go by. */
export class EnrollmentError extends Error {
  readonly exitCode: number;
  /** The server asked to come back after so long. */
  readonly retryAfterMs: number | undefined;

  constructor(exitCode: number, message: string, retryAfterMs?: number) {
    super(message);
    this.exitCode = exitCode;
    this.retryAfterMs = retryAfterMs;
  }
}

export const EXIT = { badKey: 2, notReached: 3, refused: 4 } as const;
const ANSWER_MS = 30_000;

/** Trades the key for credentials at `server` (its base URL). Throws `EnrollmentError`. */
export async function enroll(server: string, request: EnrollRequest): Promise<Credentials> {
  const base = server.replace(/\/+$/, '');
  let response: Response;
  try {
    response = await fetch(`${base}/api/v1/agents/enroll`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(request),
      signal: AbortSignal.timeout(ANSWER_MS),
    });
  } catch (error) {
    const cause =
      error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new EnrollmentError(
      EXIT.notReached,
      `The server ${base} was not reached (${cause}). Check the address, the name and the firewall.`,
    );
  }
  const body = await jsonOf(response);
  if (!response.ok) throw refusal(response, body);
  const answer = EnrollResponse.safeParse(body);
  if (!answer.success) {
    throw new EnrollmentError(
      EXIT.notReached,
      `${base} answered something that is not an enrollment. Is it a Muster server?`,
    );
  }
  const { deviceId, orgId, siteId, token, config } = answer.data;
  return {
    server: base,
    deviceId,
    orgId,
    siteId,
    token,
    heartbeatSeconds: config.heartbeatSeconds,
    enrolledAt: new Date().toISOString(),
  };
}

function refusal(response: Response, body: unknown): EnrollmentError {
  const said =
    typeof body === 'object' && body !== null && 'error' in body
      ? String(body.error)
      : `status ${response.status}`;
  if (response.status === 401) {
    return new EnrollmentError(EXIT.badKey, `${said} Ask for a new enrollment key.`);
  }
  const seconds = Number(response.headers.get('retry-after'));
  return new EnrollmentError(
    EXIT.refused,
    `The server refused: ${said}`,
    seconds > 0 ? seconds * 1000 : undefined,
  );
}

async function jsonOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    // A proxy's page, say; the status tells the rest.
    return undefined;
  }
}
