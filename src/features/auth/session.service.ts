import {
  lockSessionOfToken,
  insertSession,
  type RightsRow,
  SESSION_HOLDER,
  PERSON_HOLDER,
} from './auth.queries.ts';
import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import { z } from 'zod';
import type { Caller, ClientInfo, Context } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { runPrepared, type Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { tokenHash } from '../../platform/secrets/tokens.ts';
import { RefreshToken, Session } from './auth.model.ts';
import { type PageQuery, toPage } from '../../platform/http/pagination.ts';
import { endSessionsOf } from '../users/index.ts';

export const REFRESH_DAYS = 7;

/** Two tabs may refresh at once, or a response may be lost; after this grace a used token means theft. */
const REUSE_GRACE_SECONDS = 10;

const IpAllowlist = z.array(z.string());

/** A caller with a session. */
export interface SessionCaller extends Caller {
  sessionId: string;
}

/** A user's present membership and rights, apart from the credential they act by. */
export type UserRights = Omit<Caller, 'kind' | 'sessionId' | 'apiKeyId'>;

/**
 * The caller of a session. Throws `unauthenticated` if it has ended, `partner_inactive` if the partner is not active.
 */
export async function loadCaller(on: Db | Tx, sessionId: string): Promise<SessionCaller> {
  const caller = await findCaller(on, sessionId);
  if (caller === undefined) throw sessionEnded();
  return caller;
}

/** Like `loadCaller`, but `undefined` if the session has ended or its user has no membership. */
export async function findCaller(on: Db | Tx, sessionId: string): Promise<SessionCaller | undefined> {
  const [row] = await runPrepared<RightsRow & { mfa: boolean }>(on, SESSION_HOLDER, [sessionId]).catch(
    failClosed,
  );
  if (row === undefined) return undefined;
  return { ...rightsOf(row), mfa: row.mfa, kind: 'user', sessionId, apiKeyId: null };
}

/** A user's present rights; `undefined` if the user is disabled or has no membership. */
export async function loadUserRights(on: Db | Tx, userId: string): Promise<UserRights | undefined> {
  const [row] = await runPrepared<RightsRow>(on, PERSON_HOLDER, [userId]).catch(failClosed);
  return row === undefined ? undefined : rightsOf(row);
}

function rightsOf(row: RightsRow): UserRights {
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

/** If rights or the address list cannot be read, access is refused (SPEC 5.8). */
export function failClosed(error: unknown): never {
  if (error instanceof AppError) throw error;
  throw new AppError('unavailable', 'Service temporarily unavailable', { cause: error, retryAfterMs: 1000 });
}

/** Read on every request and mostly empty, so only lists with entries are parsed. */
function readAllowlist(stored: unknown): readonly string[] {
  if (stored === null || stored === undefined) return [];
  const parsed = IpAllowlist.safeParse(stored);
  return parsed.success ? parsed.data : failClosed(parsed.error);
}

/** How a person has signed in. */
export interface SessionOrigin {
  /** With the second factor of the account. */
  mfa: boolean;
  /** Absent if it was by password. */
  provider?: SessionProvider;
}

/** The identity provider by which a person has signed in. */
export interface SessionProvider {
  id: string;
  name: string;
  /** The provider has reported a second factor, and is trusted with that. */
  mfa: boolean;
}

/** A new session (refresh family) and its first refresh token. */
export async function openSession(
  tx: Tx,
  userId: string,
  client: ClientInfo,
  { mfa, provider }: SessionOrigin = { mfa: false },
): Promise<{ sessionId: string; refreshToken: string }> {
  const sessionId = newId();
  const refreshToken = newRefreshToken();
  await insertSession(tx, {
    sessionId,
    userId,
    days: REFRESH_DAYS,
    mfa,
    mfaByProvider: provider?.mfa ?? false,
    ssoProviderId: provider?.id ?? null,
    ipAddress: client.ip,
    userAgent: client.userAgent,
    refreshTokenHash: tokenHash(refreshToken),
  });
  return { sessionId, refreshToken };
}

const newRefreshToken = () => randomBytes(32).toString('base64url');

async function addRefreshToken(tx: Tx, sessionId: string): Promise<string> {
  const refreshToken = newRefreshToken();
  await RefreshToken.query(tx).insert({ tokenHash: tokenHash(refreshToken), sessionId });
  return refreshToken;
}

export type Rotation =
  | { outcome: 'rotated'; sessionId: string; refreshToken: string }
  | { outcome: 'unknown' | 'reused' };

/** Exchanges a refresh token for the next one. A used token that returns after the grace period revokes its whole family. */
export async function rotateRefreshToken(tx: Tx, refreshToken: string): Promise<Rotation> {
  const family = await lockSessionOfToken(tx, tokenHash(refreshToken), REUSE_GRACE_SECONDS);
  if (family === undefined || family.ended) return { outcome: 'unknown' };
  if (family.used && family.in_grace !== true) {
    await endSession(tx, family.id, 'refresh_token_reused');
    return { outcome: 'reused' };
  }
  await RefreshToken.query(tx)
    .findById(tokenHash(refreshToken))
    .patch({ usedAt: raw('coalesce(used_at, now())') });
  await Session.query(tx)
    .findById(family.id)
    .patch({ lastUsedAt: raw('now()') });
  return { outcome: 'rotated', sessionId: family.id, refreshToken: await addRefreshToken(tx, family.id) };
}

export async function endSession(tx: Tx, sessionId: string, reason: string): Promise<void> {
  await Session.query(tx)
    .findById(sessionId)
    .whereNull('revoked_at')
    .patch({ revokedAt: raw('now()'), revokedReason: reason });
}

/**
 * Throws if the caller's session has ended since the request arrived, and keeps it open until the end of the
 * transaction: code that ends a session must see what was created in it.
 */
export async function lockOpenSession({
  tx,
  caller: { sessionId },
}: Pick<Context, 'tx' | 'caller'>): Promise<void> {
  const open =
    sessionId === null
      ? undefined
      : await Session.query(tx)
          .findById(sessionId)
          .whereNull('revoked_at')
          .whereRaw('expires_at > now()')
          .forShare();
  if (open === undefined) throw sessionEnded();
}

/** Records that the caller has given their second factor in this session, and returns its id. */
export async function addSecondFactor({ tx, caller: { sessionId } }: Context): Promise<string> {
  if (sessionId === null) throw sessionEnded();
  const open = Session.query(tx).findById(sessionId).whereNull('revoked_at');
  if ((await open.patch({ mfa: true, mfaAt: raw('now()') })) === 0) throw sessionEnded();
  return sessionId;
}

/** Whether the caller has given their second factor in this session within that time, here or at a trusted provider. */
async function hasFreshSecondFactor(
  { tx, caller }: Pick<Context, 'tx' | 'caller'>,
  minutes: number,
): Promise<boolean> {
  if (caller.sessionId === null) return false;
  // A connection that was opened before the factor was given does not know of it yet.
  if ((await findCaller(tx, caller.sessionId))?.mfa !== true) return false;
  const fresh = Session.query(tx)
    .where({ id: caller.sessionId })
    .whereRaw('coalesce(mfa_at, created_at) > now() - make_interval(mins => ?)', [minutes]);
  return (await fresh.resultSize()) === 1;
}

/** How old the second factor may be with which a person does what needs a fresh one. */
export const FRESH_FACTOR_MINUTES = 15;

/** Throws `mfa_required` unless the caller has given their second factor in this session a short time ago. */
export async function assertFreshSecondFactor(
  ctx: Pick<Context, 'tx' | 'caller'>,
  what = 'This',
): Promise<void> {
  if (await hasFreshSecondFactor(ctx, FRESH_FACTOR_MINUTES)) return;
  throw new AppError(
    'mfa_required',
    `${what} needs a second factor that was given in the last ${FRESH_FACTOR_MINUTES} minutes.`,
  );
}

/** How long a sign-in with an identity provider stands for the password of an account that has none. */
export const FRESH_MINUTES = 10;

/** Whether the caller's session was opened with an identity provider a short time ago. */
export async function isFreshFromProvider({ tx, caller: { sessionId } }: Context): Promise<boolean> {
  const fresh = Session.query(tx)
    .where({ id: sessionId })
    .whereNotNull('sso_provider_id')
    .whereRaw('created_at > now() - make_interval(mins => ?)', [FRESH_MINUTES]);
  return (await fresh.resultSize()) === 1;
}

const sessionEnded = () => new AppError('unauthenticated', 'The session has ended. Sign in again.');

/** The session that a refresh token belongs to, if it is known. */
export async function sessionOf(tx: Tx, refreshToken: string): Promise<string | undefined> {
  return (await RefreshToken.query(tx).findById(tokenHash(refreshToken)))?.sessionId;
}

const openSessions = ({ tx, caller }: Context) =>
  Session.query(tx).where('user_id', caller.userId).whereNull('revoked_at').whereRaw('expires_at > now()');

export async function listOwnSessions(ctx: Context, query: PageQuery) {
  const sessions = await openSessions(ctx)
    .orderBy([{ column: 'last_used_at', order: 'desc' }, 'id'])
    .page(query.page - 1, query.limit);
  const { data, pagination } = toPage(query, sessions);
  return {
    data: data.map((session) => Object.assign(session, { current: session.id === ctx.caller.sessionId })),
    pagination,
  };
}

export async function endOwnSession(ctx: Context, id: string): Promise<{ success: true }> {
  if ((await openSessions(ctx).findById(id)) === undefined) throw notFound('Session');
  await endSession(ctx.tx, id, 'ended_by_owner');
  return { success: true };
}

export async function endOtherSessions(ctx: Context): Promise<{ success: true; ended: number }> {
  const ended = await endSessionsOf(
    ctx.tx,
    ctx.caller.userId,
    'ended_by_owner',
    ctx.caller.sessionId ?? undefined,
  );
  return { success: true, ended };
}
