import { clock } from '../../clock.ts';
import { holds, type Context } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newToken, tokenHash } from '../../platform/secrets/tokens.ts';
import { lockOpenSession } from '../auth/index.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { exceeds } from '../roles/index.ts';
import { ApiKey } from './api-key.model.ts';
import type { ApiKeyChange, ApiKeyQuery, NewApiKey } from './api-key.schema.ts';

const DEFAULT_RATE_LIMIT = 1000;
/** The most keys of one person. */
const KEYS_MAX = 100;
const PREFIX_LENGTH = 10;

/** A person's own keys; with `users:write` all of the tenant. */
function accessible(ctx: Context) {
  const { caller } = ctx;
  const keys = ApiKey.query(ctx.tx).whereRaw(
    `(${inTenant(caller, 'api_keys.org_id')} or (org_id is null and created_by in (select id from users)))`,
  );
  if (!holds(caller.permissions, 'users:write')) void keys.where('created_by', caller.userId);
  return keys;
}

function assertHeld(ctx: Context, scopes: readonly string[]): void {
  const missing = exceeds(ctx.caller.permissions, scopes);
  if (missing.length > 0) {
    throw new AppError(
      'forbidden',
      `You cannot give a key permissions that you do not have: ${missing.join(', ')}.`,
    );
  }
}

export async function createApiKey(ctx: Context, input: NewApiKey) {
  await lockOpenSession(ctx);
  return createApiKeyOf(ctx, input);
}

/** For the person of the context, who need not be signed in: an operator may create it. */
export async function createApiKeyOf(ctx: Context, input: NewApiKey) {
  const { caller } = ctx;
  if (input.orgId !== undefined) await assertOrganizationAccess(ctx, input.orgId);
  else if (caller.scope === 'system') {
    throw new AppError('forbidden', 'API keys cannot have system scope; specify orgId.');
  }
  assertHeld(ctx, input.scopes);
  await assertRoomForKey(ctx);
  const key = newToken('apiKey');
  const record = await ApiKey.query(ctx.tx).insertAndFetch({
    orgId: input.orgId ?? null,
    createdBy: caller.userId,
    name: input.name,
    keyHash: tokenHash(key),
    keyPrefix: key.slice(0, PREFIX_LENGTH),
    scopes: input.scopes,
    rateLimit: input.rateLimit ?? DEFAULT_RATE_LIMIT,
    expiresAt: input.expiresAt ?? null,
  });
  return { ...record.toJSON(), key };
}

/** Counts the caller's keys that still open something. */
async function assertRoomForKey({ tx, caller }: Context): Promise<void> {
  const present = await ApiKey.query(tx)
    .where('created_by', caller.userId)
    .whereNull('revoked_at')
    .whereRaw('(expires_at is null or expires_at > now())')
    .resultSize();
  if (present >= KEYS_MAX) {
    throw new AppError(
      'limit_reached',
      `API key limit reached (${KEYS_MAX}). Revoke keys that are not used.`,
    );
  }
}

export async function listApiKeys(ctx: Context, query: ApiKeyQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const keys = accessible(ctx)
    .orderBy([{ column: 'created_at', order: 'desc' }, 'id'])
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) void keys.where('org_id', query.orgId);
  return toPage(query, await keys);
}

export async function readApiKey(ctx: Context, id: string): Promise<ApiKey> {
  const key = await accessible(ctx).findById(id);
  if (key === undefined) throw notFound('API key');
  return key;
}

/** Locked, so that a key is not renewed while it is being revoked. */
async function ownApiKey(ctx: Context, id: string): Promise<ApiKey> {
  const key = await accessible(ctx).findById(id).forUpdate();
  if (key === undefined) throw notFound('API key');
  // A key acts with its maker's rights, so no other user may widen it or get to hold it.
  if (key.createdBy !== ctx.caller.userId) {
    throw new AppError('forbidden', 'Only its creator can change an API key. You can revoke it.');
  }
  if (key.revokedAt !== null) throw new AppError('conflict', 'The API key has been revoked.');
  return key;
}

export async function changeApiKey(ctx: Context, id: string, change: ApiKeyChange): Promise<ApiKey> {
  const key = await ownApiKey(ctx, id);
  if (change.scopes !== undefined) assertHeld(ctx, change.scopes);
  const { name = key.name, scopes = key.scopes, rateLimit = key.rateLimit } = change;
  const { expiresAt } = change;
  return patchRecorded(ctx, key, {
    name,
    scopes,
    rateLimit,
    expiresAt: expiresAt === undefined ? key.expiresAt : expiresAt,
  });
}

/** The same key record under a new secret; the old secret is dead with the commit. */
export async function rotateApiKey(ctx: Context, id: string) {
  const record = await ownApiKey(ctx, id);
  const key = newToken('apiKey');
  const renewed = await patchRecorded(ctx, record, {
    keyHash: tokenHash(key),
    keyPrefix: key.slice(0, PREFIX_LENGTH),
  });
  return { ...renewed.toJSON(), key };
}

/** The record stays, so that the audit trail's entries have a name. */
export async function revokeApiKey(ctx: Context, id: string) {
  const key = await readApiKey(ctx, id);
  if (key.revokedAt === null) await key.$query(ctx.tx).patch({ revokedAt: clock.date() });
  return { success: true as const, key };
}

/** The keys of everyone, newest first: for transactions across tenants. */
export const listEveryApiKey = async (tx: Tx): Promise<ApiKey[]> =>
  ApiKey.query(tx).orderBy([{ column: 'created_at', order: 'desc' }, 'id']);

/** Finds the key of any person: for transactions across tenants. */
export async function revokeApiKeyById(tx: Tx, id: string): Promise<{ key: ApiKey; wasRevoked: boolean }> {
  const key = await ApiKey.query(tx).findById(id).forUpdate();
  if (key === undefined) throw notFound('API key');
  const wasRevoked = key.revokedAt !== null;
  if (!wasRevoked) await key.$query(tx).patch({ revokedAt: clock.date() });
  return { key, wasRevoked };
}

/** Revokes every key that a person has made, whatever tenant it is for: for transactions across tenants. */
export async function revokeKeysOf(tx: Tx, userId: string): Promise<void> {
  await ApiKey.query(tx)
    .where({ created_by: userId })
    .whereNull('revoked_at')
    .patch({ revokedAt: clock.date() });
}
