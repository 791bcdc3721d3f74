import { RotateTokenResponse } from '../../../protocol/index.ts';
import {
  changeCredentials,
  type Credentials,
  isSameDevice,
  loadCredentials,
  NOT_ENROLLED,
  TOKEN,
} from './credentials.ts';
import { EXIT, post, ServerCallError } from '../server/server-call.ts';

const DAY_MS = 24 * 3_600_000;
const MAX_AGE_MS = 30 * DAY_MS;
const CHECK_MS = 3_600_000;

/**
 * Asks the server for a new token and keeps it beside the present one, for the next connection to use. If the answer
 * is lost, nothing has happened: the present token is still valid. Throws `ServerCallError`.
 */
export async function rotateToken(dataDir: string): Promise<void> {
  const credentials = await loadCredentials(dataDir);
  if (credentials === undefined) throw new ServerCallError(EXIT.notEnrolled, NOT_ENROLLED);
  const { token, nextToken } = await newToken(credentials);
  // The agent that runs may have written the file meanwhile; a new enrollment counts more than this.
  await changeCredentials(dataDir, (kept) => {
    const isStill = kept !== undefined && isSameDevice(kept, credentials);
    return isStill && tokensOf(credentials).includes(kept.token) ? { ...kept, token, nextToken } : undefined;
  });
}

/** @returns the token by which it was asked for, which is valid, and the new one */
async function newToken(credentials: Credentials): Promise<{ token: string; nextToken: string }> {
  const { server, deviceId } = credentials;
  let lastRefusal = '';
  for (const token of tokensOf(credentials)) {
    const answer = await post(server, `/agents/${encodeURIComponent(deviceId)}/token/rotate`, { token });
    if (answer.refusal === undefined) {
      const given = RotateTokenResponse.extend({ token: TOKEN }).safeParse(answer.body);
      if (given.success) return { token, nextToken: given.data.token };
      throw new ServerCallError(EXIT.refused, `${server} answered something that is not a token.`);
    }
    lastRefusal = answer.refusal;
    if (answer.status !== 401) break;
  }
  throw new ServerCallError(EXIT.refused, `The server refused: ${lastRefusal}`);
}

/** The present one first: asking by the new one would end the connection under the present one. */
function tokensOf({ token, nextToken }: Credentials): string[] {
  return nextToken === undefined ? [token] : [token, nextToken];
}

/** Rotates a token that is older than thirty days, unless a new one already waits for the next connection. */
export async function rotateOldToken(dataDir: string, now = Date.now()): Promise<void> {
  const credentials = await loadCredentials(dataDir);
  if (credentials === undefined || credentials.nextToken !== undefined) return;
  const since = Date.parse(credentials.tokenSince ?? credentials.enrolledAt);
  // A date ahead of the clock was written by a clock that was wrong: it would keep the token for ever.
  if (now - since >= MAX_AGE_MS || since - now > DAY_MS) await rotateToken(dataDir);
}

/** Looks every hour, from a random moment on: machines that were started together do not ask together. */
export function rotateByAge(dataDir: string): { stop(): void } {
  const look = () => {
    timer = setTimeout(look, CHECK_MS).unref();
    // The present token stays valid, and the next look is in an hour.
    rotateOldToken(dataDir).catch(() => {});
  };
  let timer = setTimeout(look, Math.random() * CHECK_MS).unref();
  return { stop: () => clearTimeout(timer) };
}
