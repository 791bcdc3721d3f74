import type { Db } from '../../../platform/db/pool.ts';
import type { Caller } from '../../../platform/context.ts';
import type { Authenticator } from '../../../platform/http/authentication.ts';
import { TOKEN_PREFIX } from '../../../platform/secrets/tokens.ts';
import type { AccessTokens } from './access-token.ts';
import type { Logger } from '../../../platform/logger.ts';
import { assertAddressAllowed } from './ip-allowlist.ts';
import { failClosed, loadCaller } from './session.service.ts';

/** Identifies the caller by a bearer token, for the HTTP pipeline and the dashboard sockets. */
export function createAuthenticator({
  db,
  accessTokens,
  apiKeys,
  log,
}: {
  db: Db;
  accessTokens: AccessTokens;
  apiKeys: { authenticate(key: string): Promise<Caller> };
  log: Logger;
}): Authenticator {
  const callerOf = async (bearer: string): Promise<Caller> => {
    if (bearer.startsWith(TOKEN_PREFIX.apiKey)) return apiKeys.authenticate(bearer);
    const { sid, exp } = accessTokens.verify(bearer);
    return { ...(await loadCaller(db, sid)), validUntil: new Date(exp * 1000) };
  };
  return {
    async authenticate(bearer, client) {
      const caller = await callerOf(bearer).catch(failClosed);
      assertAddressAllowed(caller, client, log, 'request');
      return caller;
    },
  };
}

/**
 * Looks up the rights that a caller has now, also after the access token has expired: for an answer that is still being
 * sent. Throws where the caller has none any more.
 */
export function createRightsLookup({
  db,
  apiKeys,
}: {
  db: Db;
  apiKeys: { authenticate(key: string): Promise<Caller> };
}): (caller: Caller, bearer: string) => Promise<Caller> {
  return ({ sessionId }, bearer) =>
    (sessionId === null ? apiKeys.authenticate(bearer) : loadCaller(db, sessionId)).catch(failClosed);
}
