import { createRemoteJWKSet, customFetch, type JWTVerifyGetKey } from 'jose';
import { z } from 'zod';
import { getDocument, type ProviderFetch } from './provider-call.ts';

/** The public members of a key. Other data that a provider publishes is not kept in memory. */
const Key = z.object({
  kty: z.string(),
  kid: z.string().optional(),
  use: z.string().optional(),
  key_ops: z.array(z.string()).max(20).optional(),
  alg: z.string().optional(),
  n: z.string().optional(),
  e: z.string().optional(),
  crv: z.string().optional(),
  x: z.string().optional(),
  y: z.string().optional(),
});
const KeySet = z.object({ keys: z.array(Key).max(100) });

/** @throws SsoFailure */
export const fetchKeys = (outbound: ProviderFetch, jwksUrl: string): Promise<z.output<typeof KeySet>> =>
  getDocument(outbound, 'key set', jwksUrl, {
    schema: KeySet,
    accept: ['application/json', 'application/jwk-set+json'],
  });

export interface KeyCacheLimits {
  /**
   * The minimum time between two fetches because of an unknown key. It is short, because each unknown key needs a whole
   * sign-in at the provider, and because people cannot sign in with a new key until it is fetched.
   */
  cooldownMs?: number;
  maxUrls?: number;
}

/** The keys of providers, by URL. Sign-ins that wait for the same keys share one request. */
export class KeyCache {
  readonly #outbound: ProviderFetch;
  readonly #cooldownMs: number;
  readonly #maxUrls: number;
  /** The least recently used first. */
  readonly #byUrl = new Map<string, JWTVerifyGetKey>();

  constructor(outbound: ProviderFetch, { cooldownMs = 1000, maxUrls = 500 }: KeyCacheLimits = {}) {
    this.#outbound = outbound;
    this.#cooldownMs = cooldownMs;
    this.#maxUrls = maxUrls;
  }

  get size(): number {
    return this.#byUrl.size;
  }

  of(jwksUrl: string): JWTVerifyGetKey {
    const keys = this.#byUrl.get(jwksUrl) ?? this.#create(jwksUrl);
    this.#byUrl.delete(jwksUrl);
    this.#byUrl.set(jwksUrl, keys);
    const [oldest] = this.#byUrl.keys();
    if (this.#byUrl.size > this.#maxUrls && oldest !== undefined) this.#byUrl.delete(oldest);
    return keys;
  }

  #create(jwksUrl: string): JWTVerifyGetKey {
    return createRemoteJWKSet(new URL(jwksUrl), {
      cooldownDuration: this.#cooldownMs,
      // The limits of time and size are those of the guarded fetch.
      [customFetch]: async () => Response.json(await fetchKeys(this.#outbound, jwksUrl)),
    });
  }
}
