import { clock } from '../../../clock.ts';
import { changeCredentials, type Credentials, isSameDevice, loadCredentials } from './credentials.ts';

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
 * The tokens of the credentials file, which is read for each connection, because `rotate-token` may have changed it. The
 * new token is tried first. The token that the server accepts stays, and none is deleted before another was accepted.
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

/** The credentials after the server has accepted `token`; `undefined` where that changes nothing. */
function settled(
  { nextToken, ...kept }: Credentials,
  token: string,
  refused: ReadonlySet<string>,
): Credentials | undefined {
  if (nextToken === undefined) return undefined;
  if (nextToken === token) return { ...kept, token, tokenSince: clock.date().toISOString() };
  return kept.token === token && refused.has(nextToken) ? kept : undefined;
}
