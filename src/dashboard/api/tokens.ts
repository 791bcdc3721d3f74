import { ApiError, send } from './request.ts';
import type { Tokens } from './routes.ts';
import type { Answer } from './typed-route.ts';

/**
 * The access token lives in memory only. The refresh token is a cookie that scripts cannot read. Tabs share that cookie,
 * and a refresh token that is used twice ends the session, so tabs take turns.
 */
interface Held {
  token: string;
  expiresAt: number;
}

/** Renewed this long before it expires, so that no request is sent with a token that expires on its way. */
const EARLY_MS = 30_000;
const LOCK = 'muster-refresh';
/** Everything else waits for it. The server takes the same refresh token again for ten seconds: the second attempt comes within. */
const ANSWER_MS = 8_000;
const ATTEMPTS = 2;

let held: Held | undefined;
let refreshing: Promise<string | undefined> | undefined;
const whenEnded = new Set<() => void>();

export function holdTokens({ accessToken, expiresInSeconds }: Tokens): void {
  held = { token: accessToken, expiresAt: Date.now() + expiresInSeconds * 1000 };
}

export function dropTokens(): void {
  held = undefined;
}

/** Calls back when the server has ended the session. */
export function onSessionEnd(callback: () => void): () => void {
  whenEnded.add(callback);
  return () => whenEnded.delete(callback);
}

/** A token that is valid for a while; `undefined` without a session. Throws if the server is unreachable. */
export async function accessToken(): Promise<string | undefined> {
  if (held !== undefined && held.expiresAt - EARLY_MS > Date.now()) return held.token;
  return renewToken();
}

/** Fetches a new token even if the one at hand seems valid. */
export function renewToken(): Promise<string | undefined> {
  refreshing ??= navigator.locks.request(LOCK, refresh).finally(() => {
    refreshing = undefined;
  });
  return refreshing;
}

async function refresh(): Promise<string | undefined> {
  const wasSignedIn = held !== undefined;
  try {
    const { tokens } = await sendRefresh();
    holdTokens(tokens);
    return tokens.accessToken;
  } catch (error) {
    if (!(error instanceof ApiError) || (error.status !== 401 && error.status !== 403)) throw error;
    held = undefined;
    if (wasSignedIn) for (const callback of whenEnded) callback();
    return undefined;
  }
}

async function sendRefresh(): Promise<Answer<'POST /auth/refresh'>> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send('POST /auth/refresh', { body: {} }, { answerMs: ANSWER_MS });
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'NO_ANSWER' || attempt === ATTEMPTS) throw error;
    }
  }
}
