import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { GuardedFetch } from '../../../platform/outbound/guarded-fetch.ts';
import { GraphError } from './graph-error.ts';

/** With what an app signs in to a directory. */
export interface AppCredentials {
  tenantId: string;
  clientId: string;
  secret: string;
}

export interface GraphPlaces {
  graphUrl: string;
  loginUrl: string;
}

const Granted = z.object({
  access_token: z.string().min(1).max(16_000),
  expires_in: z.coerce.number().min(1).max(1_000_000),
});
const Refused = z.object({ error: z.string().max(200) });

/** Before a token ends, so that no request carries one that has ended. */
const MARGIN_MS = 120_000;
const KEPT_MAX = 1000;

/** Access tokens of apps (client credentials), in memory only. */
export class AccessTokens {
  readonly #outbound: Pick<GuardedFetch, 'fetch'>;
  readonly #places: GraphPlaces;
  /** By the credentials; the oldest first. */
  readonly #kept = new Map<string, { token: string; until: number }>();

  constructor(outbound: Pick<GuardedFetch, 'fetch'>, places: GraphPlaces) {
    this.#outbound = outbound;
    this.#places = places;
  }

  /** @throws GraphError, OutboundError */
  async get(credentials: AppCredentials, signal: AbortSignal | undefined): Promise<string> {
    const key = keyOf(credentials);
    const kept = this.#kept.get(key);
    if (kept !== undefined && kept.until > clock.now()) return kept.token;
    const { tenantId, clientId, secret } = credentials;
    const answer = await this.#outbound.fetch(`${this.#places.loginUrl}/${tenantId}/oauth2/v2.0/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: clientId,
        client_secret: secret,
        scope: `${new URL(this.#places.graphUrl).origin}/.default`,
      }).toString(),
      accept: ['application/json'],
      maxBytes: 65_536,
      ...(signal === undefined ? {} : { signal }),
    });
    const json: unknown = await answer.json().catch(() => undefined);
    if (!answer.ok) throw refusal(answer.status, json);
    const { data } = Granted.safeParse(json);
    if (data === undefined) {
      throw new GraphError('AUTHENTICATION_FAILED', 'The sign-in at Microsoft gave no access token.');
    }
    this.#keep(key, data.access_token, data.expires_in * 1000 - MARGIN_MS);
    return data.access_token;
  }

  forget(credentials: AppCredentials): void {
    this.#kept.delete(keyOf(credentials));
  }

  #keep(key: string, token: string, ms: number): void {
    if (ms <= 0) return;
    this.#kept.set(key, { token, until: clock.now() + ms });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT_MAX && oldest !== undefined) this.#kept.delete(oldest);
  }
}

const keyOf = ({ tenantId, clientId, secret }: AppCredentials) =>
  JSON.stringify([tenantId, clientId, secret]);

function refusal(status: number, json: unknown): GraphError {
  if (status === 429 || status >= 500) {
    return new GraphError('GRAPH_UNAVAILABLE', 'The sign-in at Microsoft is not available.', { status });
  }
  const reason = Refused.safeParse(json).data?.error.replace(/[^\w.-]/g, '') ?? 'no reason';
  return new GraphError(
    'AUTHENTICATION_FAILED',
    `Microsoft refuses the sign-in of the app (${reason}). Check the tenant, the client id and the secret.`,
    { status },
  );
}
