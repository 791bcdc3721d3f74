import { clock } from '../../clock.ts';
import type { Tx } from '../db/transaction.ts';
import { nextRun, type Schedule } from './cron.ts';
import type { JobStore } from './job-store.ts';

/** A late run is still begun for so long, even where the schedule is due again sooner. */
const SHORTEST_DEADLINE_MS = 60_000;

export interface Recurring {
  name: string;
  schedule: Schedule;
  /** @param slot  names the due time, so that it is added once */
  enqueue(tx: Tx, slot: { key: string; deadlineMs: number }): Promise<unknown>;
}

/**
 * Adds recurring jobs when they are due. The next due time is kept in the database: one server adds the job, and a time
 * that passed while no server ran is made up for by one run, however many were missed.
 */
export class Schedules {
  readonly #store: JobStore;
  readonly #byName = new Map<string, Recurring>();
  #isRegistered = false;

  constructor(store: JobStore) {
    this.#store = store;
  }

  add(recurring: Recurring): void {
    // A schedule that is never due, or whose time zone does not exist, stops the start.
    nextRun(recurring.schedule, clock.date());
    this.#byName.set(recurring.name, recurring);
  }

  names(): string[] {
    return [...this.#byName.keys()];
  }

  /** Notes when each is due for the first time, where that is not known or the schedule has changed. */
  async register(): Promise<void> {
    if (this.#isRegistered || this.#byName.size === 0) return;
    await this.#store.inTransaction(async (tx) => {
      const now = await databaseTime(tx);
      for (const { name, schedule } of this.#byName.values()) {
        await tx.raw(
          `insert into job_schedules as s (name, cron, time_zone, next_at) values (?, ?, ?, ?)
          on conflict (name) do update
            set cron = excluded.cron, time_zone = excluded.time_zone, next_at = excluded.next_at
            where (s.cron, s.time_zone) is distinct from (excluded.cron, excluded.time_zone)`,
          [name, schedule.cron, schedule.timeZone, nextRun(schedule, now)],
        );
      }
    });
    this.#isRegistered = true;
  }

  async enqueueDue(): Promise<void> {
    await this.#store.inTransaction(async (tx) => {
      const { rows } = await tx.raw<{ rows: { name: string; dueAt: Date }[] }>(
        `select name, next_at as "dueAt" from job_schedules where name = any(?) and next_at <= now()
        order by next_at for update skip locked`,
        [this.names()],
      );
      const now = await databaseTime(tx);
      for (const { name, dueAt } of rows) {
        const recurring = this.#byName.get(name);
        if (recurring === undefined) continue;
        const next = nextRun(recurring.schedule, now);
        const deadlineMs = Math.max(next.getTime() - now.getTime(), SHORTEST_DEADLINE_MS);
        await recurring.enqueue(tx, { key: dueAt.toISOString(), deadlineMs });
        await tx.raw('update job_schedules set next_at = ? where name = ?', [next, name]);
      }
    });
  }
}

async function databaseTime(tx: Tx): Promise<Date> {
  const { rows } = await tx.raw<{ rows: [{ now: Date }] }>('select now() as now');
  return rows[0].now;
}
