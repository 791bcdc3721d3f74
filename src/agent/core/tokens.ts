import { clock } from '../../../clock.ts';
import { RotateTokenResponse } from '../../../protocol/index.ts';
import {
  changeCredentials,
  type Credentials,
  isSameDevice,
  loadCredentials,
  NOT_ENROLLED,
  TOKEN,
  tokensOf,
} from './credentials.ts';
import type { Network } from '../../os/network/network.ts';
import { openNetwork } from '../../os/network/open-network.ts';
import { EXIT, post, ServerCallError } from '../server/server-call.ts';

const DAY_MS = 24 * 3_600_000;
const MAX_AGE_MS = 30 * DAY_MS;
const CHECK_MS = 3_600_000;

/**
 * Requests a new token and stores it beside the present one; the next connection uses it. If the response is lost, the
 * present token is still valid. Throws `ServerCallError`.
 */
export async function rotateToken(dataDir: string): Promise<void> {
  const credentials = await loadCredentials(dataDir);
  if (credentials === undefined) throw new ServerCallError(EXIT.notEnrolled, NOT_ENROLLED);
  const network = await openNetwork(dataDir);
  const { token, nextToken } = await newToken(credentials, network).finally(() => network.close());
  // The running agent may have changed the file meanwhile, and a new enrollment takes precedence.
  await changeCredentials(dataDir, (kept) => {
    const isStill = kept !== undefined && isSameDevice(kept, credentials);
    return isStill && tokensOf(credentials).includes(kept.token) ? { ...kept, token, nextToken } : undefined;
  });
}

/** @returns the valid token that the request was made with, and the new one */
async function newToken(
  credentials: Credentials,
  network: Network,
): Promise<{ token: string; nextToken: string }> {
  const { server, deviceId } = credentials;
  let lastRefusal = '';
  for (const token of tokensOf(credentials)) {
    const answer = await post({ server, network }, `/agents/${encodeURIComponent(deviceId)}/token/rotate`, {
      token,
    });
    if (answer.refusal === undefined) {
      const given = RotateTokenResponse.extend({ token: TOKEN }).safeParse(answer.body);
      if (given.success) return { token, nextToken: given.data.token };
      throw new ServerCallError(EXIT.refused, `The response of ${server} holds no token.`);
    }
    lastRefusal = answer.refusal;
    if (answer.status !== 401) break;
  }
  throw new ServerCallError(EXIT.refused, `The server refused: ${lastRefusal}`);
}

/** Rotates a token that is older than thirty days, unless a new one already waits for the next connection. */
export async function rotateOldToken(dataDir: string, now = clock.now()): Promise<void> {
  const credentials = await loadCredentials(dataDir);
  if (credentials === undefined || credentials.nextToken !== undefined) return;
  const since = Date.parse(credentials.tokenSince ?? credentials.enrolledAt);
  // A date in the future comes from a clock that was wrong, and would keep the token for ever.
  if (now - since >= MAX_AGE_MS || since - now > DAY_MS) await rotateToken(dataDir);
}

/**
 * Checks every hour, from a random moment on, so that machines that started together do not rotate together.
 * @param isConnected  a copy of a machine that the server refuses must not rotate the token of the other one
 */
export function rotateByAge(dataDir: string, isConnected: () => boolean): { stop(): void } {
  const check = () => {
    timer = clock.setTimeout(check, CHECK_MS).unref();
    // After a failure the present token is still valid, and the next check is in an hour.
    if (isConnected()) rotateOldToken(dataDir).catch(() => {});
  };
  let timer = clock.setTimeout(check, Math.random() * CHECK_MS).unref();
  return { stop: () => clock.clear(timer) };
}
