import type { Db } from '../../platform/db/pool.ts';
import { hasAddressIn } from '../../platform/db/statement.ts';
import { runPrepared, type Tx } from '../../platform/db/transaction.ts';
import type { AuditActor } from '../../platform/http/audit.ts';
import type { Scope } from '../../platform/db/tenant-scope.ts';
import { addressForms } from '../../email-address.ts';
import { networkOf } from '../../platform/http/client-address.ts';
import { Session } from './auth.model.ts';

/**
 * For one person. The session used longest ago ends when another is opened; only a program that never ends any has
 * more.
 */
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

export type PersonActor = Extract<AuditActor, { userId: string }>;

/** Finds users who cannot sign in, too; `loadUserRights` would refuse those. */
export async function actorOfUser(tx: Tx, userId: string): Promise<PersonActor | undefined> {
  const { rows } = await tx.raw(
    `select u.email, p.partner_id, o.org_id, s.user_id is not null as of_system from users u
    left join partner_users p on p.user_id = u.id left join organization_users o on o.user_id = u.id
    left join system_users s on s.user_id = u.id
    where u.id = ?`,
    [userId],
  );
  const row = rows[0] as
    | { email: string; partner_id: string | null; org_id: string | null; of_system: boolean }
    | undefined;
  if (row === undefined) return undefined;
  const { email, partner_id: partnerId, org_id: orgId, of_system: isOfSystem } = row;
  const person = { kind: 'user' as const, userId, apiKeyId: null, email, partnerId, orgId };
  return isOfSystem ? { ...person, scope: 'system' } : person;
}

const TRIES_PER_CHALLENGE = 5;

/** Over all sign-ins of a user: with the password one could otherwise start again after every five tries. */
const TRIES_PER_WINDOW = 15;

const WINDOW_MINUTES = 15;

/** The state of a challenge as `countTry` found it. */
interface CountedTry {
  userId: string;
  /** The token hash of the invitation that this sign-in accepts. */
  invitation: string | undefined;
  /** 0 if the code may be checked. */
  retryAfterMs: number;
}

/** Counts a try of a challenge. Returns undefined if the challenge is unknown, used up or expired. */
export async function countTry(tx: Tx, hash: string): Promise<CountedTry | undefined> {
  const claimed = await tx.raw(
    `update mfa_challenges set tries = tries + 1
    where token_hash = ? and used_at is null and expires_at > now() and tries < ${TRIES_PER_CHALLENGE}
    returning user_id, invitation_token_hash`,
    [hash],
  );
  const challenge = claimed.rows[0] as { user_id: string; invitation_token_hash: string | null } | undefined;
  if (challenge === undefined) return undefined;
  const userId = challenge.user_id;
  const counted = await tx.raw(
    `update user_mfa set tries = case when tries_since > now() - w.length then tries + 1 else 1 end,
      tries_since = case when tries_since > now() - w.length then tries_since else now() end
    from (select interval '${WINDOW_MINUTES} minutes' as length) w
    where user_id = ?
    returning tries, extract(epoch from tries_since + w.length - now()) * 1000 as ms`,
    [userId],
  );
  const window = counted.rows[0] as { tries: number; ms: string } | undefined;
  const over = window !== undefined && window.tries > TRIES_PER_WINDOW;
  return {
    userId,
    invitation: challenge.invitation_token_hash ?? undefined,
    retryAfterMs: over ? Math.max(1, Math.ceil(Number(window.ms))) : 0,
  };
}

export interface RightsRow {
  user_id: string;
  email: string;
  name: string;
  mfa_enabled: boolean;
  scope: Scope;
  role_id: string;
  role_name: string;
  permissions: string[];
  partner_id: string | null;
  partner_status: string | null;
  org_id: string | null;
  org_access: 'all' | 'selected' | 'none' | null;
  selected_org_ids: string[] | null;
  /** From a JSON column. */
  ip_allowlist: unknown;
}

export const SESSION_HOLDER = { name: 'session_holder', text: 'select * from session_holder($1)' };

export const PERSON_HOLDER = { name: 'person_holder', text: 'select * from person_holder($1)' };

export async function signedInFrom(tx: Tx, email: string, ip: string): Promise<boolean> {
  const sessions = await Session.query(tx)
    .joinRelated('user')
    .whereRaw(hasAddressIn('"user".email', '?'), [addressForms(email)])
    .whereRaw(`sessions.created_at > now() - interval '30 days'`)
    .distinct('sessions.ip_address')
    .limit(1000);
  return sessions.some(({ ipAddress }) => networkOf(ipAddress ?? '') === networkOf(ip));
}

/** The session of a refresh token, locked, and whether the token was used before. */
export async function lockSessionOfToken(
  tx: Tx,
  hash: string,
  graceSeconds: number,
): Promise<{ id: string; ended: boolean; used: boolean; in_grace: boolean | null } | undefined> {
  const { rows } = await tx.raw(
    `select s.id, s.revoked_at is not null or s.expires_at <= now() as ended,
      t.used_at is not null as used, t.used_at > now() - interval '${graceSeconds} seconds' as in_grace
    from refresh_tokens t join sessions s on s.id = t.session_id
    where t.token_hash = ? for update of s`,
    [hash],
  );
  return rows[0] as { id: string; ended: boolean; used: boolean; in_grace: boolean | null } | undefined;
}

/**
 * Removes some challenges for passkeys that nobody has answered. Whoever opens the sign-in gets a challenge; as each new one
 * removes more than one, there are never many more than were issued in the last minutes.
 */
export async function removeExpiredChallenges(tx: Tx): Promise<void> {
  await tx.raw(
    `delete from passkey_challenges where challenge_hash in (
      select challenge_hash from passkey_challenges where expires_at < now() limit 10 for update skip locked)`,
  );
}
