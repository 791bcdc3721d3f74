import { changeCredentials, type Credentials, isSameDevice, loadCredentials } from './credentials.ts';

/** Where a connection has its token from. None of these fails: an agent that cannot write its files goes on. */
export interface Tokens {
  /** The one to connect with now. */
  current(): Promise<string>;
  /** The server has let the agent in by it. */
  accepted(token: string): Promise<void>;
  /** The server does not know it. Answers whether there is another one to try before giving up for a while. */
  refused(token: string): boolean;
}

/** One token that never changes. */
export function fixedToken(token: string): Tokens {
  return { current: async () => token, accepted: async () => {}, refused: () => false };
}

/**
 * The tokens in the credentials file, read anew for each connection: `rotate-token` may have put another one there. A
 * new token goes first; whichever the server takes stays, and no token is thrown away before another one was taken.
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
    // Neither is known; from the start again, should the server come to its senses.
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
      // The file still holds the token that was taken, as the next one, which is tried first.
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
      // Enrolled as another device meanwhile: that is another connection, with another journal.
      if (kept !== undefined && isSameDevice(kept, this.#known)) this.#known = kept;
    } catch {
      // Unreadable for now; what was read before still holds.
    }
    return this.#known;
  }
}

/** What is kept once the server has taken `token`; `undefined` where that changes nothing. */
function settled(
  { nextToken, ...kept }: Credentials,
  token: string,
  refused: ReadonlySet<string>,
): Credentials | undefined {
  if (nextToken === undefined) return undefined;
  if (nextToken === token) return { ...kept, token, tokenSince: new Date().toISOString() };
  return kept.token === token && refused.has(nextToken) ? kept : undefined;
}
