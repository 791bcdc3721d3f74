import { Daily } from '../../platform/daily.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { DEFAULT_DIAGNOSTIC_DAYS, DEFAULT_EVENT_DAYS } from './log-retention.schema.ts';

/** Removes logs whose time is over, once a day, a few thousand at a time: nobody waits for it long. */

const AT_ONCE = 5000;
const PAUSE_MS = 50;

const KINDS = [
  { table: 'agent_logs', column: 'diagnostic_days', byDefault: DEFAULT_DIAGNOSTIC_DAYS },
  { table: 'device_event_logs', column: 'event_days', byDefault: DEFAULT_EVENT_DAYS },
] as const;

export class OldLogs {
  readonly #db: Db;
  readonly #daily: Daily;
  #isClosed = false;

  constructor({ db, log }: { db: Db; log: Logger }) {
    this.#db = db;
    const run = async () => ({ removed: await this.remove() });
    this.#daily = new Daily({ run, log, done: 'logs.old_removed', failed: 'logs.old_not_removed' });
  }

  start(): void {
    this.#daily.start();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#daily.close();
  }

  /** One round through all organizations. Answers how many lines and events are gone. */
  async remove(): Promise<number> {
    let removed = 0;
    for (const { table, column, byDefault } of KINDS) {
      for (const { id, days } of await this.#organizations(column, byDefault)) {
        let some = AT_ONCE;
        while (some === AT_ONCE && !this.#isClosed) {
          some = await this.#removeSome(table, id, days);
          removed += some;
          if (some === AT_ONCE) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        }
      }
    }
    return removed;
  }

  async #organizations(column: string, byDefault: number): Promise<{ id: string; days: number }[]> {
    return withSystem(this.#db, 'find for how long logs are kept', async (tx) => {
      const { rows } = await tx.raw<{ rows: { id: string; days: number }[] }>(
        `select o.id, coalesce(r.${column}, ?)::int as days
        from organizations o left join log_retention r on r.org_id = o.id
        where exists (select from devices d where d.org_id = o.id)`,
        [byDefault],
      );
      return rows;
    });
  }

  /** By device, for that is how they are indexed. Old by both clocks: a device's own may be years behind. */
  async #removeSome(table: string, orgId: string, days: number): Promise<number> {
    return withSystem(this.#db, 'remove logs whose time is over', async (tx) => {
      const { rowCount } = await tx.raw<{ rowCount: number }>(
        `delete from ${table} where id in (
          select old.id from devices d join ${table} old on old.device_id = d.id
          where d.org_id = ? and old."timestamp" < now() - make_interval(days => ?)
            and old.created_at < now() - make_interval(days => ?)
          limit ${AT_ONCE})`,
        [orgId, days, days],
      );
      return rowCount;
    });
  }
}
