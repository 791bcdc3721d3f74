import { addUses, rightsWithin } from './api-key.queries.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { type Caller, holds } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { Authenticator } from '../../platform/http/authentication.ts';
import type { Logger } from '../../platform/logger.ts';
import { isWellFormed, tokenHash } from '../../platform/secrets/tokens.ts';
import { loadUserRights } from '../auth/index.ts';
import { ApiKey } from './api-key.model.ts';
import { clock, type Timer } from '../../clock.ts';
import { writeInParts } from '../../platform/db/write-in-parts.ts';

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

/**
 * The caller of an API key. The rights of the person who made it are read afresh each time: what they lose, their keys
 * lose at once.
 */
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
  const place = record.orgId === null ? maker : await rightsWithin(tx, maker, record.orgId);
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

/**
 * The permissions that both sets grant: each entry of the one that the other covers, be it by `resource:*` or `*:*`.
 */
export function commonPermissions(a: Iterable<string>, b: Iterable<string>): Set<string> {
  const [left, right] = [new Set(a), new Set(b)];
  return new Set([
    ...[...left].filter((permission) => holds(right, permission)),
    ...[...right].filter((permission) => holds(left, permission)),
  ]);
}

const FLUSH_MS = 60_000;

interface Use {
  requests: number;
  at: Date;
}

/** Use of keys, written behind: one statement a minute at most, however many requests there were. */
export class KeyUsage {
  readonly #db: Db;
  readonly #log: Logger;
  readonly #flushMs: number;
  #pending = new Map<string, Use>();
  #timer: Timer | undefined;

  constructor(db: Db, log: Logger, flushMs = FLUSH_MS) {
    this.#db = db;
    this.#log = log;
    this.#flushMs = flushMs;
  }

  note(keyId: string, requests: number): void {
    const before = this.#pending.get(keyId)?.requests ?? 0;
    this.#pending.set(keyId, { requests: before + requests, at: clock.date() });
    this.#timer ??= clock.setTimeout(() => void this.#flush(), this.#flushMs).unref();
  }

  /** Writes now what is pending. */
  settle(): Promise<void> {
    return this.#flush();
  }

  async close(): Promise<void> {
    await this.#flush();
    clock.clear(this.#timer);
  }

  async #flush(): Promise<void> {
    clock.clear(this.#timer);
    this.#timer = undefined;
    const uses = [...this.#pending].sort(([a], [b]) => (a < b ? -1 : 1));
    this.#pending = new Map();
    if (uses.length === 0) return;
    const { refused, unwritten, failure } = await writeInParts(uses, (part) => this.#write(part));
    for (const { record, error } of refused) {
      this.#log.error({ err: error, keyId: record[0] }, 'api_keys.usage_refused');
    }
    if (failure === undefined) return;
    // The next flush writes them; what a key opens does not hang on it.
    this.#log.warn({ err: failure, keys: unwritten.length }, 'api_keys.usage_not_written');
    for (const [id, { requests, at }] of unwritten) {
      const since = this.#pending.get(id);
      this.#pending.set(id, { requests: requests + (since?.requests ?? 0), at: since?.at ?? at });
    }
  }

  async #write(uses: readonly [keyId: string, use: Use][]): Promise<void> {
    await withSystem(this.#db, 'write the use of many API keys', (tx) =>
      addUses(
        tx,
        uses.map(([id, use]) => ({ id, ...use })),
      ),
    );
  }
}
