import type { Db } from '../../../platform/db/pool.ts';
import { runPrepared } from '../../../platform/db/prepared.ts';
import type { Tx } from '../../../platform/db/transaction.ts';

/** Of one person. The one used longest ago ends when another is opened; only a program that never ends any has more. */
const OPEN_SESSIONS_MAX = 100;

export interface NewSession {
  sessionId: string;
  userId: string;
  days: number;
  mfa: boolean;
  mfaByProvider: boolean;
  ssoProviderId: string | null;
  ipAddress: string;
  userAgent: string | null;
  refreshTokenHash: string;
}

const INSERT_SESSION = {
  name: 'insert_session',
  text: `with ended as (
    update sessions set revoked_at = now(), revoked_reason = 'too_many_sessions'
    where id in (
      select id from sessions where user_id = $2 and revoked_at is null
      order by last_used_at desc offset ${OPEN_SESSIONS_MAX - 1})
  ), opened as (
    insert into sessions (id, user_id, expires_at, mfa, mfa_by_provider, sso_provider_id, ip_address, user_agent)
    values ($1, $2, now() + make_interval(days => $3), $4, $5, $6, $7, $8)
  )
  insert into refresh_tokens (token_hash, session_id) values ($9, $1)`,
};

/** A session and its first refresh token, in one statement: it is part of every sign-in. */
export async function insertSession(tx: Tx, session: NewSession): Promise<void> {
  const { sessionId, userId, days, mfa, mfaByProvider, ssoProviderId, ipAddress, userAgent } = session;
  const how = [mfa, mfaByProvider, ssoProviderId, ipAddress, userAgent];
  await runPrepared(tx, INSERT_SESSION, [sessionId, userId, days, ...how, session.refreshTokenHash]);
}

/** Ends the sessions of all people of all tenants. */
export async function endEverySession(tx: Db, reason: string): Promise<void> {
  await tx('sessions').whereNull('revoked_at').update({ revoked_at: tx.fn.now(), revoked_reason: reason });
}
