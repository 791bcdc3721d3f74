import type { Tx } from '../db/transaction.ts';
import { clock } from '../../clock.ts';
import { databaseTime, type JobStore, lockDueSchedules, setNextRun, storeSchedule } from './job.queries.ts';
import { Cron } from 'croner';
import { clocksAt, dayOf, instantOf } from '../local-time.ts';

/** A late run is still begun for so long, even if the schedule is due again sooner. */
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

  /** Notes when each is due for the first time, if that is not known or the schedule has changed. */
  async register(): Promise<void> {
    if (this.#isRegistered || this.#byName.size === 0) return;
    await this.#store.inTransaction(async (tx) => {
      const now = await databaseTime(tx);
      for (const { name, schedule } of this.#byName.values()) {
        await storeSchedule(tx, { name, ...schedule, nextAt: nextRun(schedule, now) });
      }
    });
    this.#isRegistered = true;
  }

  async enqueueDue(): Promise<void> {
    await this.#store.inTransaction(async (tx) => {
      const rows = await lockDueSchedules(tx, this.names());
      const now = await databaseTime(tx);
      for (const { name, dueAt } of rows) {
        const recurring = this.#byName.get(name);
        if (recurring === undefined) continue;
        const next = nextRun(recurring.schedule, now);
        const deadlineMs = Math.max(next.getTime() - now.getTime(), SHORTEST_DEADLINE_MS);
        await recurring.enqueue(tx, { key: dueAt.toISOString(), deadlineMs });
        await setNextRun(tx, name, next);
      }
    });
  }
}

/** When recurring work is due: five cron fields (minute, hour, day, month, weekday), read in a time zone. */
export interface Schedule {
  cron: string;
  /** IANA name, such as Europe/Berlin. */
  timeZone: string;
}

/**
 * The first time after `after` at which the schedule is due. If clocks are set forward over a due time, it is due at
 * the moment of the change; if they are set back, a due time that comes twice counts once, the first time.
 */
export function nextRun({ cron, timeZone }: Schedule, after: Date): Date {
  const next = new Cron(cron, { timezone: timeZone, mode: '5-part', paused: true }).nextRun(after);
  if (next === null) throw new Error(`The schedule "${cron}" in ${timeZone} is never due.`);
  return passedOver({ cron, timeZone }, after, next) ?? next;
}

/**
 * A due time over which clocks are set forward to the next day: croner loses it, as each spring in Greenland, where 23:00
 * is followed by 0:00.
 */
function passedOver({ cron, timeZone }: Schedule, after: Date, next: Date): Date | undefined {
  if (timeZone === 'UTC') return undefined;
  const onClocks = new Cron(cron, { timezone: 'UTC', mode: '5-part', paused: true });
  const due = onClocks.nextRun(new Date(clocksAt(after.getTime(), timeZone)))?.getTime();
  if (due === undefined || dayOf(clocksAt(next.getTime(), timeZone)) <= dayOf(due)) return undefined;
  const at = instantOf(due, timeZone);
  const isSkipped = clocksAt(at, timeZone) !== due;
  return isSkipped && at > after.getTime() && at < next.getTime() ? new Date(at) : undefined;
}
