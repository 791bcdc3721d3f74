import { clock } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Statement } from '../../platform/db/statement.ts';
import { withSystemStatement } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { bytesTaken } from './store.queries.ts';

/** In bytes; `undefined`: without a limit. What is in the trash counts. */
export interface QuotaLimits {
  organizationBytes: number | undefined;
  partnerBytes: number | undefined;
}

type Owner = { orgId: string; partnerId: string };

interface StoredRow {
  bytes: string;
}

/** The bytes that an organization or a partner uses, as far as this server knows. */
interface Usage {
  limit: number;
  loadedAt: number;
  loading: Promise<void> | undefined;
  stored: number;
  /** Stored since the last load began. */
  since: number;
  underway: number;
}

/** After this time what other servers have stored is looked up. */
const STALE_MS = 5000;
const KEPT_MAX = 10_000;

const OF_ORGANIZATION: Statement = {
  name: 'backup-store-usage-of-organization',
  text: `select coalesce(sum(stored_bytes), 0)
      + coalesce((select s.stored_bytes from c2c_stores s where s.org_id = $1), 0) as bytes
    from backup_repositories where org_id = $1`,
};
const OF_PARTNER: Statement = {
  name: 'backup-store-usage-of-partner',
  text: `select coalesce(sum(stored.bytes), 0) as bytes from organizations o
    cross join lateral (
      select r.stored_bytes as bytes from backup_repositories r where r.org_id = o.id
      union all select s.stored_bytes from c2c_stores s where s.org_id = o.id) stored
    where o.partner_id = $1`,
};

/**
 * Counts what uploads take before they begin, so that they are refused before a byte of them is read. Uploads by this
 * server count at once; those by other servers of a cluster count after some seconds at most.
 */
export class StoreQuota {
  readonly #db: Db;
  readonly #limits: QuotaLimits;
  readonly #usage = new Map<string, Usage>();

  constructor(db: Db, limits: QuotaLimits) {
    this.#db = db;
    this.#limits = limits;
  }

  /** Throws `storage_full` if the object does not fit. Otherwise `end` has to be called with the result. */
  async reserve(
    { orgId, partnerId }: Owner,
    size: number,
    { mayExceed = false }: { mayExceed?: boolean } = {},
  ): Promise<{ end: (isStored: boolean) => void }> {
    const bytes = bytesTaken(size);
    const { organizationBytes, partnerBytes } = this.#limits;
    const counted: Usage[] = [];
    for (const [statement, id, limit] of [
      [OF_ORGANIZATION, orgId, organizationBytes],
      [OF_PARTNER, partnerId, partnerBytes],
    ] as const) {
      if (limit !== undefined) counted.push(await this.#load(statement, id, limit));
    }
    // Nothing is awaited between the question and the reservation.
    const isFull = counted.some(
      ({ stored, since, underway, limit }) => stored + since + underway + bytes > limit,
    );
    if (isFull && !mayExceed) {
      throw new AppError('storage_full', 'The backup storage of this organization is used up.');
    }
    for (const usage of counted) usage.underway += bytes;
    return {
      end(isStored) {
        for (const usage of counted) {
          usage.underway -= bytes;
          if (isStored) usage.since += bytes;
        }
      },
    };
  }

  async #load(statement: Statement, id: string, limit: number): Promise<Usage> {
    const usage = this.#usage.get(id) ?? {
      limit,
      loadedAt: -Infinity,
      loading: undefined,
      stored: 0,
      since: 0,
      underway: 0,
    };
    this.#usage.set(id, usage);
    if (this.#usage.size > KEPT_MAX) this.#removeIdle();
    if (clock.monotonic() - usage.loadedAt > STALE_MS) {
      usage.loading ??= this.#read(statement, id, usage).finally(() => (usage.loading = undefined));
      await usage.loading;
    }
    return usage;
  }

  async #read(statement: Statement, id: string, usage: Usage): Promise<void> {
    const countedBefore = usage.since;
    const rows = await withSystemStatement<StoredRow>(
      this.#db,
      'look up what an organization or a partner has stored',
      { ...statement, values: [id] },
      () => true,
    );
    usage.stored = Number(rows?.[0]?.bytes ?? 0);
    // Objects that were stored before the query are in its result.
    usage.since -= countedBefore;
    usage.loadedAt = clock.monotonic();
  }

  #removeIdle(): void {
    for (const [id, { underway, loading }] of this.#usage) {
      if (underway === 0 && loading === undefined) this.#usage.delete(id);
    }
  }
}
