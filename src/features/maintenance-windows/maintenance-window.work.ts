import { clock, MINUTE_MS } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { RepeatedCheck } from '../../platform/jobs/repeated-check.ts';
import type { Logger } from '../../platform/logger.ts';
import { RetryBackoff } from '../../platform/retry-backoff.ts';
import type { MaintenanceWindow } from './maintenance-window.model.ts';
import { membersOf, reconcileMembers, storeStanding, withDueWindow } from './maintenance-window.queries.ts';
import { type Occurrence, occurrenceAt, occurrencesFrom, plannedFrom } from './occurrences.ts';

/** How late devices learn of a change at most. A check costs one step into an index that is mostly empty. */
const EVERY_MS = 2000;
/** Devices are looked up so long before a window begins. */
const LEAD_MS = 2 * MINUTE_MS;
/** After the end, longer than devices have to come back (src/features/alerts/alert-rules.queries.ts). */
const KEPT_MS = 20 * MINUTE_MS;
/** How often the devices of a target are looked up again while a window is in effect. */
const AGAIN_MS = MINUTE_MS;

interface Parts {
  /** The pool of background work, so that requests and devices do not wait for its connections. */
  backgroundDb: Db;
  hub: Pick<DeviceHub, 'devicesChanged'>;
  log: Logger;
}

/**
 * Keeps the devices of windows that are in progress or near, and tells dashboards of beginnings and ends. Every server has
 * one. Each window is a transaction of its own, so that one that fails stops no other: it is tried again with growing
 * delays.
 */
export class MaintenanceRounds {
  readonly #parts: Parts;
  readonly #failing = new RetryBackoff();
  readonly #checks: RepeatedCheck;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#checks = new RepeatedCheck({
      everyMs: EVERY_MS,
      check: () => this.followAll(),
      onFailing: (error) => parts.log.warn({ err: error }, 'maintenance.windows_not_followed'),
    });
  }

  /** The number of windows that cannot be followed. An operator must act if it stays above zero. */
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

  /** Follows all windows that are due. */
  async followAll(): Promise<void> {
    const now = clock.date();
    while (!this.#checks.isClosed && (await this.#followOne(now)));
    // Windows that failed before, and were deleted since.
    this.#failing.keepOnly(new Set(this.#failing.notDue()));
  }

  /** @returns whether there may be more */
  async #followOne(now: Date): Promise<boolean> {
    const { backgroundDb, hub, log } = this.#parts;
    let windowId: string | undefined;
    try {
      const changed = await withDueWindow(
        backgroundDb,
        { now, without: this.#failing.notDue() },
        async (tx, window) => {
          windowId = window.id;
          return follow(tx, window, now);
        },
      );
      if (windowId === undefined || changed === undefined) return false;
      this.#failing.release(windowId);
      if (changed.length > 0) hub.devicesChanged(changed);
      return true;
    } catch (error) {
      if (isDatabaseAway(error) || windowId === undefined) throw error;
      const retryMs = this.#failing.put(windowId);
      log.warn({ err: error, windowId, retryMs }, 'maintenance.window_not_followed');
      return true;
    }
  }
}

/** @returns the devices whose maintenance may have changed */
async function follow(tx: Tx, window: MaintenanceWindow, now: Date): Promise<string[]> {
  const [near, ahead] = nearAndAhead(window, now);
  const { updatedAt, shownUntil: followedUntil } = window;
  const occurrences = near.map((occurrence) => ({
    ...occurrence,
    plannedFrom: plannedFrom(occurrence, { updatedAt, followedUntil, now }),
  }));
  const changed = await reconcileMembers(tx, window, { occurrences, now, keptMs: KEPT_MS });
  const shownUntil = occurrenceAt(window, now)?.endsAt ?? null;
  const dueAt = nextLook(near, ahead, now);
  const hasMore = ahead !== undefined || near.some(({ endsAt }) => endsAt > now);
  const overSince = hasMore ? null : (window.overSince ?? near.at(-1)?.endsAt ?? now);
  await storeStanding(tx, window.id, { dueAt, shownUntil, overSince });
  return window.shownUntil?.getTime() === shownUntil?.getTime() ? changed : membersOf(tx, window.id);
}

/** The occurrences whose devices are kept now, and the first one after them. */
function nearAndAhead(window: MaintenanceWindow, now: Date): [Occurrence[], Occurrence | undefined] {
  const near: Occurrence[] = [];
  for (const occurrence of occurrencesFrom(window, new Date(now.getTime() - KEPT_MS))) {
    if (occurrence.startsAt.getTime() > now.getTime() + LEAD_MS) return [near, occurrence];
    near.push(occurrence);
  }
  return [near, undefined];
}

/** When something about the window changes next; null if nothing does any more. */
function nextLook(near: readonly Occurrence[], ahead: Occurrence | undefined, now: Date): Date | null {
  const times = near.flatMap(({ startsAt, endsAt }) => [
    startsAt.getTime(),
    endsAt.getTime(),
    endsAt.getTime() + KEPT_MS,
  ]);
  if (near.some(({ endsAt }) => endsAt > now)) times.push(now.getTime() + AGAIN_MS);
  if (ahead !== undefined) times.push(ahead.startsAt.getTime() - LEAD_MS);
  const later = times.filter((time) => time > now.getTime());
  return later.length === 0 ? null : new Date(Math.min(...later));
}
