import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Caller, ClientInfo, Context } from '../../../platform/context.ts';
import type { Scope } from '../../../platform/db/tenant-scope.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { runPrepared } from '../../../platform/db/prepared.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import { newId } from '../../../platform/ids.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';

export const REFRESH_DAYS = 7;
/** Two tabs may refresh at once, or an answer may be lost on its way; after this the old token means theft. */
const REUSE_GRACE_SECONDS = 10;

interface HolderRow {
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

const IpAllowlist = z.array(z.string());

const SESSION_HOLDER = { name: 'session_holder', text: 'select * from session_holder($1)' };
const PERSON_HOLDER = { name: 'person_holder', text: 'select * from person_holder($1)' };

/** A caller who came by a session. */
export interface SessionCaller extends Caller {
  sessionId: string;
}

/** A person's present membership and rights, apart from what they came by. */
export type Holder = Omit<Caller, 'kind' | 'sessionId' | 'apiKeyId'>;

/** The caller behind a session, or `unauthenticated` when it has ended, `partner_inactive` when the partner is shut. */
export async function loadCaller(on: Db | Tx, sessionId: string): Promise<SessionCaller> {
  const caller = await findCaller(on, sessionId);
  if (caller === undefined) throw sessionEnded();
  return caller;
}

/** As `loadCaller`; `undefined` where the session has ended, or its person belongs nowhere. */
export async function findCaller(on: Db | Tx, sessionId: string): Promise<SessionCaller | undefined> {
  const [row] = await runPrepared<HolderRow & { mfa: boolean }>(on, SESSION_HOLDER, [sessionId]).catch(
    failClosed,
  );
  if (row === undefined) return undefined;
  return { ...holderOf(row), mfa: row.mfa, kind: 'user', sessionId, apiKeyId: null };
}

/** What a person may do at this moment; `undefined` for one who is disabled or belongs nowhere any more. */
export async function loadHolder(on: Db | Tx, userId: string): Promise<Holder | undefined> {
  const [row] = await runPrepared<HolderRow>(on, PERSON_HOLDER, [userId]).catch(failClosed);
  return row === undefined ? undefined : holderOf(row);
}

function holderOf(row: HolderRow): Holder {
  if (row.partner_status !== null && row.partner_status !== 'active') {
    throw new AppError('partner_inactive', 'This provider account is not active.');
  }
  return {
    scope: row.scope,
    userId: row.user_id,
    email: row.email,
    name: row.name,
    partnerId: row.scope === 'partner' ? row.partner_id : null,
    orgId: row.org_id,
    orgAccess: row.org_access === 'all' ? 'all' : 'listed',
    orgIds: row.org_id === null ? (row.selected_org_ids ?? []) : [row.org_id],
    roleId: row.role_id,
    roleName: row.role_name,
    permissions: new Set(row.permissions),
    mfa: false,
    ipAllowlist: readAllowlist(row.ip_allowlist),
  };
}

/** Rights that cannot be read, the address list among them, are not taken for granted (SPEC 5.8). */
export function failClosed(error: unknown): never {
  if (error instanceof AppError) throw error;
  throw new AppError('unavailable', 'Service temporarily unavailable', { cause: error, retryAfterMs: 1000 });
}

/** Every caller has one, read on every request, and hardly any has an entry. */
function readAllowlist(stored: unknown): readonly string[] {
  if (stored === null || stored === undefined) return [];
  const parsed = IpAllowlist.safeParse(stored);
  return parsed.success ? parsed.data : failClosed(parsed.error);
}

/** A new session (refresh family) and its first refresh token. */
export async function openSession(
  tx: Tx,
  userId: string,
  client: ClientInfo,
  { mfa }: { mfa: boolean } = { mfa: false },
): Promise<{ sessionId: string; refreshToken: string }> {
  const sessionId = newId();
  await tx('sessions').insert({
    id: sessionId,
    user_id: userId,
    expires_at: tx.raw(`now() + interval '${REFRESH_DAYS} days'`),
    mfa,
    ip_address: client.ip,
    user_agent: client.userAgent,
  });
  return { sessionId, refreshToken: await addRefreshToken(tx, sessionId) };
}

async function addRefreshToken(tx: Tx, sessionId: string): Promise<string> {
  const refreshToken = randomBytes(32).toString('base64url');
  await tx('refresh_tokens').insert({ token_hash: tokenHash(refreshToken), session_id: sessionId });
  return refreshToken;
}

export type Rotation =
  | { outcome: 'rotated'; sessionId: string; refreshToken: string }
  | { outcome: 'unknown' | 'reused' };

/** Trades a refresh token for the next one. A used one that comes back after the grace revokes its whole family. */
export async function rotateRefreshToken(tx: Tx, refreshToken: string): Promise<Rotation> {
  const { rows } = await tx.raw(
    `select s.id, s.revoked_at is not null or s.expires_at <= now() as ended,
      t.used_at is not null as used, t.used_at > now() - interval '${REUSE_GRACE_SECONDS} seconds' as in_grace
    from refresh_tokens t join sessions s on s.id = t.session_id
    where t.token_hash = ? for update of s`,
    [tokenHash(refreshToken)],
  );
  const family = rows[0] as
    | { id: string; ended: boolean; used: boolean; in_grace: boolean | null }
    | undefined;
  if (family === undefined || family.ended) return { outcome: 'unknown' };
  if (family.used && family.in_grace !== true) {
    await endSession(tx, family.id, 'refresh_token_reused');
    return { outcome: 'reused' };
  }
  await tx.raw('update refresh_tokens set used_at = coalesce(used_at, now()) where token_hash = ?', [
    tokenHash(refreshToken),
  ]);
  await tx.raw('update sessions set last_used_at = now() where id = ?', [family.id]);
  return { outcome: 'rotated', sessionId: family.id, refreshToken: await addRefreshToken(tx, family.id) };
}

export async function endSession(tx: Tx, sessionId: string, reason: string): Promise<void> {
  await tx.raw(
    'update sessions set revoked_at = now(), revoked_reason = ? where id = ? and revoked_at is null',
    [reason, sessionId],
  );
}

/**
 * Throws where the caller's session has ended since the request came, and keeps it from ending until the transaction
 * does: whoever ends it must find what was made in it.
 */
export async function holdSession({ tx, caller: { sessionId } }: Context): Promise<void> {
  const { rows } = await tx.raw(
    'select 1 from sessions where id = ? and revoked_at is null and expires_at > now() for share',
    [sessionId],
  );
  if (rows.length === 0) throw sessionEnded();
}

const sessionEnded = () => new AppError('unauthenticated', 'The session has ended. Sign in again.');

/** The session that a refresh token belongs to, if it is known. */
export async function sessionOf(tx: Tx, refreshToken: string): Promise<string | undefined> {
  const [row] = await tx('refresh_tokens')
    .where({ token_hash: tokenHash(refreshToken) })
    .pluck('session_id');
  return typeof row === 'string' ? row : undefined;
}
