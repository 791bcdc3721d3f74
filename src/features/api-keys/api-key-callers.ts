import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import type { Caller } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { Authenticator } from '../../platform/http/authentication.ts';
import type { Logger } from '../../platform/logger.ts';
import { isWellFormed, tokenHash } from '../../platform/secrets/tokens.ts';
import { loadUserRights, type UserRights } from '../auth/index.ts';
import { ApiKey } from './api-key.model.ts';
import { commonPermissions } from './key-rights.ts';
import { KeyUsage } from './key-usage.ts';

const HOUR_SECONDS = 3600;

/** A caller who came by a key, with what its limit counts by. */
interface KeyCaller extends Caller {
  apiKeyId: string;
  rateLimit: number;
}

export interface ApiKeyCallers {
  /** Throws `unauthenticated` for a key that is unknown, expired or revoked, or whose maker has lost their place. */
  authenticate(key: string): Promise<Caller>;
  /** Counts one use of a key, and throws `rate_limited` over its limit. People have no such limit. */
  countUse(caller: Caller): Promise<void>;
  /** The same authenticator with each request of a key counted, and refused over its limit. */
  limited(authenticator: Authenticator): Authenticator;
  /** Writes now what is noted of the use of keys. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

interface Parts {
  db: Db;
  log: Logger;
  limits: RateLimits;
}

/** Who acts by an API key. Its maker's rights are read afresh each time, so what they lose their keys lose at once. */
export function createApiKeyCallers({ db, log, limits }: Parts): ApiKeyCallers {
  const usage = new KeyUsage(db, log);
  // Each key has a limit of its own, so this one only counts. It goes on in each process while Redis is away: a lost
  // Redis must neither stop every integration nor lift their limits.
  const counter = limits.counter('api-key', HOUR_SECONDS);

  async function authenticate(key: string): Promise<KeyCaller> {
    if (!isWellFormed('apiKey', key)) throw refused();
    const caller = await withSystem(db, 'find the caller behind an API key', (tx) => callerOf(tx, key));
    usage.note(caller.apiKeyId, 0);
    return caller;
  }

  async function countUse(caller: Caller): Promise<void> {
    if (!isKeyCaller(caller)) return;
    const { count, msBeforeNext } = await counter.count(caller.apiKeyId);
    if (count > caller.rateLimit) {
      throw new AppError(
        'rate_limited',
        `The rate limit of this API key is ${caller.rateLimit} requests an hour.`,
        {
          retryAfterMs: msBeforeNext,
        },
      );
    }
    usage.note(caller.apiKeyId, 1);
  }

  return {
    authenticate,
    countUse,
    limited: (authenticator) => ({
      async authenticate(bearer, client) {
        const caller = await authenticator.authenticate(bearer, client);
        await countUse(caller);
        return caller;
      },
    }),
    settle: () => usage.settle(),
    close: () => usage.close(),
  };
}

const refused = () => new AppError('unauthenticated', 'The API key is not valid.');

const isKeyCaller = (caller: Caller): caller is KeyCaller =>
  caller.kind === 'api_key' && 'rateLimit' in caller;

async function callerOf(tx: Tx, key: string): Promise<KeyCaller> {
  const record = await ApiKey.query(tx)
    .where({ key_hash: tokenHash(key) })
    .whereNull('revoked_at')
    .whereRaw('(expires_at is null or expires_at > now())')
    .first();
  if (record === undefined) throw refused();
  const maker = await loadUserRights(tx, record.createdBy);
  if (maker === undefined) throw refused();
  const place = record.orgId === null ? maker : await within(tx, maker, record.orgId);
  // Its maker may have risen since: no key opens every tenant.
  if (place === undefined || place.scope === 'system') throw refused();
  return {
    ...place,
    kind: 'api_key',
    sessionId: null,
    apiKeyId: record.id,
    permissions: commonPermissions(record.scopes, maker.permissions),
    mfa: false,
    rateLimit: record.rateLimit,
    ...(record.expiresAt === null ? {} : { validUntil: record.expiresAt }),
  };
}

/** The maker as one of that organization and nothing beside it; `undefined` if they may not act there now. */
async function within(tx: Tx, maker: UserRights, orgId: string): Promise<UserRights | undefined> {
  const { rows } = await tx.raw(
    `select p.id as partner_id, p.status from organizations o join partners p on p.id = o.partner_id
    where o.id = ? and o.deleted_at is null and p.deleted_at is null`,
    [orgId],
  );
  const partner = rows[0] as { partner_id: string; status: string } | undefined;
  if (partner === undefined) return undefined;
  const allowed =
    maker.scope === 'system' ||
    (maker.orgAccess === 'all' ? maker.partnerId === partner.partner_id : maker.orgIds.includes(orgId));
  if (!allowed) return undefined;
  if (partner.status !== 'active') {
    throw new AppError('partner_inactive', 'This provider account is not active.');
  }
  return { ...maker, scope: 'organization', partnerId: null, orgId, orgAccess: 'listed', orgIds: [orgId] };
}
