import { clock, DAY_MS } from '../../clock.ts';
import { RotateTokenResponse } from '../../protocol/index.ts';
import { type Network, openNetwork } from '../os/network/network.ts';
import {
  changeCredentials,
  type Credentials,
  isSameDevice,
  loadCredentials,
  NOT_ENROLLED,
  TOKEN,
  tokensOf,
} from './settings.ts';
import { EXIT, post, ServerCallError } from './server-call.ts';

/** The source of tokens for connections. No method rejects, so an agent that cannot write its files keeps running. */
export interface Tokens {
  /** The token for the next connection. */
  current(): Promise<string>;
  /** Must be called when the server has accepted the token. */
  accepted(token: string): Promise<void>;
  /** Must be called when the server has refused the token. Returns whether there is another one to try at once. */
  refused(token: string): boolean;
}

/** One token that never changes. */
export function fixedToken(token: string): Tokens {
  return { current: async () => token, accepted: async () => {}, refused: () => false };
}

/**
 * The tokens of the credentials file, which is read for each connection, because `rotate-token` may have changed it.
 * The new token is tried first. An accepted token is kept, and none is deleted before another was accepted.
 */
export class KeptTokens implements Tokens {
  readonly #dataDir: string;
  readonly #refused = new Set<string>();
  #known: Credentials;

  constructor(dataDir: string, credentials: Credentials) {
    this.#dataDir = dataDir;
    this.#known = credentials;
  }

  async current(): Promise<string> {
    const { token, nextToken } = await this.#read();
    if (nextToken === undefined || !this.#refused.has(nextToken)) return nextToken ?? token;
    if (!this.#refused.has(token)) return token;
    // The server has refused both, so both are tried again.
    this.#refused.clear();
    return nextToken;
  }

  async accepted(token: string): Promise<void> {
    const refusedBefore = new Set(this.#refused);
    this.#refused.clear();
    const settle = (kept: Credentials) => settled(kept, token, refusedBefore);
    const next = settle(await this.#read());
    if (next === undefined) return;
    this.#known = next;
    try {
      await changeCredentials(this.#dataDir, (kept) =>
        kept !== undefined && isSameDevice(kept, next) ? settle(kept) : undefined,
      );
    } catch {
      // The file still holds the accepted token as the next one, which is tried first.
    }
  }

  refused(token: string): boolean {
    this.#refused.add(token);
    const { token: old, nextToken } = this.#known;
    return nextToken !== undefined && !(this.#refused.has(old) && this.#refused.has(nextToken));
  }

  async #read(): Promise<Credentials> {
    try {
      const kept = await loadCredentials(this.#dataDir);
      // If this machine was enrolled as another device meanwhile, the session is about to be replaced.
      if (kept !== undefined && isSameDevice(kept, this.#known)) this.#known = kept;
    } catch {
      // The file cannot be read now, so the last known tokens are used.
    }
    return this.#known;
  }
}

/** The credentials after the server has accepted `token`; `undefined` if that changes nothing. */
function settled(
  { nextToken, ...kept }: Credentials,
  token: string,
  refused: ReadonlySet<string>,
): Credentials | undefined {
  if (nextToken === undefined) return undefined;
  if (nextToken === token) return { ...kept, token, tokenSince: clock.date().toISOString() };
  return kept.token === token && refused.has(nextToken) ? kept : undefined;
}

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
