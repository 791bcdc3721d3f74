import { clock } from '../../clock.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { RepeatedCheck } from '../../platform/jobs/repeated-check.ts';
import type { Logger } from '../../platform/logger.ts';
import { RetryBackoff } from '../../platform/retry-backoff.ts';
import { withDevicesOfTarget } from '../device-targets/index.ts';

const EVERY_MS = 5000;
/** How late a device that begins or stops to match a filter counts for the rules. */
const AGAIN = `interval '2 minutes'`;

interface Due {
  filterId: string;
  orgId: string;
  partnerId: string;
}

/**
 * Keeps the devices that match the filters of rules. Every server has one; each filter is a transaction of its own, so that
 * one that fails stops no other: it is tried again with growing delays.
 */
export class WatchedFilters {
  readonly #db: Db;
  readonly #log: Logger;
  readonly #failing = new RetryBackoff();
  readonly #checks: RepeatedCheck;

  /** @param backgroundDb  the pool of background work, so that requests and devices do not wait for its connections */
  constructor({ backgroundDb, log }: { backgroundDb: Db; log: Logger }) {
    this.#db = backgroundDb;
    this.#log = log;
    this.#checks = new RepeatedCheck({
      everyMs: EVERY_MS,
      check: () => this.evaluateAll(),
      onFailing: (error) => log.warn({ err: error }, 'alerts.filters_not_evaluated'),
    });
  }

  /** The number of filters that cannot be evaluated. An operator must act if it stays above zero. */
  failing(): number {
    return this.#failing.size;
  }

  start(): void {
    this.#checks.start();
  }

  settle(): Promise<void> {
    return this.#checks.settle();
  }

  close(): Promise<void> {
    return this.#checks.close();
  }

  /** Evaluates all filters that are due. */
  async evaluateAll(): Promise<void> {
    await withSystem(this.#db, 'find the filters of alert rules', followRules);
    const startedAt = clock.date();
    while (!this.#checks.isClosed && (await this.#evaluateOne(startedAt)));
    this.#failing.keepOnly(new Set(this.#failing.notDue()));
  }

  /** @returns whether there may be more */
  async #evaluateOne(startedAt: Date): Promise<boolean> {
    let due: Due | undefined;
    try {
      return await withSystem(this.#db, 'evaluate a filter of alert rules', async (tx) => {
        due = await lockDue(tx, { without: this.#failing.notDue(), startedAt });
        if (due === undefined) return false;
        await storeMembers(tx, due);
        this.#failing.release(due.filterId);
        return true;
      });
    } catch (error) {
      if (isDatabaseAway(error) || due === undefined) throw error;
      const retryMs = this.#failing.put(due.filterId);
      this.#log.warn({ err: error, filterId: due.filterId, retryMs }, 'alerts.filter_not_evaluated');
      return true;
    }
  }
}

/** Watches the filters that rules name, and no others. */
async function followRules(tx: Tx): Promise<void> {
  const named = `select (r.target ->> 'filterId')::uuid from alert_rules r where jsonb_exists(r.target, 'filterId') and r.enabled`;
  await tx.raw(`delete from watched_filters where filter_id not in (${named})`);
  await tx.raw(
    `insert into watched_filters (filter_id, org_id)
    select f.id, f.org_id from saved_filters f where f.id in (${named}) on conflict do nothing`,
  );
}

async function lockDue(
  tx: Tx,
  { without, startedAt }: { without: readonly string[]; startedAt: Date },
): Promise<Due | undefined> {
  const { rows } = await tx.raw<{ rows: Due[] }>(
    `select w.filter_id as "filterId", w.org_id as "orgId", o.partner_id as "partnerId"
    from watched_filters w join organizations o on o.id = w.org_id
    where w.evaluated_at < ?::timestamptz - ${AGAIN} and w.filter_id <> all(?::uuid[])
    order by w.evaluated_at limit 1 for update of w skip locked`,
    [startedAt, [...without]],
  );
  return rows[0];
}

async function storeMembers(tx: Tx, { filterId, orgId, partnerId }: Due): Promise<void> {
  await withDevicesOfTarget(tx, { partnerId, orgId }, { filterId }, (devices) =>
    tx.raw(
      `with found as materialized (?), gone as (
        delete from watched_filter_members m where m.filter_id = ? and not exists (select from found f where f.id = m.device_id)
      )
      insert into watched_filter_members (filter_id, org_id, device_id)
      select ?::uuid, f.org_id, f.id from found f order by f.id on conflict do nothing`,
      [devices, filterId, filterId] as never,
    ),
  );
  await tx.raw('update watched_filters set evaluated_at = now() where filter_id = ?', [filterId]);
}
