import { z } from 'zod';
import { clock, type Timer } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem, withSystemStatement, withTenant } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { visibleDevices, whereMatching, withPatternTimeout } from '../conditions/index.ts';
import { conditionsWithin } from '../filters/index.ts';
import { organizationScope } from '../groups/index.ts';
import { BackupConfig } from './config.model.ts';
import {
  type ClosedWindow,
  type DueSchedule,
  dueSchedules,
  findSlotState,
  insertScheduledJobs,
  schedulesWithWindow,
  type SlotState,
  storeSlotState,
  WAITING,
} from './job.queries.ts';
import { type BackupSchedule, isWindowOpen, newestSlot, nextSlot, spreadSeconds } from './schedule.ts';
import { SOURCE_WORK } from './source-kinds.ts';

/** Hands the jobs that are due to their devices. One round at a time, so that the limits of destinations hold. */
export const HAND_OVER = defineJob({
  name: 'backup.hand-over',
  input: z.object({}),
  attempts: 3,
  inCluster: 1,
});

/**
 * One round: for each configuration and time zone that has something to do, in a transaction of its own, so that a filter
 * that fails does not stop the others. Its slot is made up for in a later round.
 * @returns how many jobs were added
 */
export async function runSchedules(
  { db, log }: { db: Db; log: Logger },
  now: Date,
  signal?: AbortSignal,
): Promise<number> {
  const pairs = await withSystem(db, 'find the backup schedules that are due', (tx) => dueSchedules(tx, now));
  let added = 0;
  for (const pair of pairs) {
    if (signal?.aborted === true) break;
    try {
      added += await withTenant(db, organizationScope(pair.orgId), (tx) => runSchedule(tx, pair, now));
    } catch (error) {
      log.warn({ err: error, backupConfigId: pair.configId, orgId: pair.orgId }, 'backup.schedule_failed');
    }
  }
  return added;
}

async function runSchedule(tx: Tx, { configId, orgId, timeZone }: DueSchedule, now: Date): Promise<number> {
  // Serializes the rounds of several servers. The configuration stays as it is until the jobs are there.
  const config = await BackupConfig.query(tx).findById(configId).forNoKeyUpdate();
  if (config === undefined || config.schedule === null || !config.enabled) return 0;
  const stored = await findSlotState(tx, { configId, orgId, timeZone });
  const since = config.scheduledSince;
  const { jobs, state } = slotWork(config.schedule, timeZone, { stored, since, now });
  const added = jobs === undefined ? 0 : await addScheduledJobs(tx, config, timeZone, jobs);
  await storeSlotState(tx, { configId, orgId, timeZone }, state);
  return added;
}

/** A job that waits for its device longer than this fails, and the next slot adds a new one. */
const WAIT_DAYS = 30;

/**
 * Adds the jobs of a slot whose second has come, in one statement: for the devices that the targets of the configuration
 * name at this moment. A device with a job of the configuration in flight gets none, and none gets two.
 * @returns how many were added
 */
async function addScheduledJobs(
  tx: Tx,
  config: Pick<BackupConfig, 'id' | 'orgId' | 'targets' | 'sources' | 'schedule'>,
  timeZone: string,
  { slot, after, upTo, spread }: NonNullable<SlotWork['jobs']>,
): Promise<number> {
  const { id, orgId, targets, sources, schedule } = config;
  const { all = false, deviceIds = [], groupIds = [], filterId } = targets;
  const systems = SOURCE_WORK[sources.kind].systems(sources);
  const conditions = filterId === undefined ? undefined : await conditionsWithin(tx, { orgId, filterId });
  const scope = organizationScope(orgId);
  const devices = visibleDevices(tx, scope).where('d.org_id', orgId).select('d.id');
  const matching =
    conditions === undefined ? undefined : whereMatching(devices, conditions, { caller: scope });
  const add = () =>
    insertScheduledJobs(tx, matching, {
      id,
      orgId,
      all,
      deviceIds,
      groupIds,
      systems,
      timeZone,
      isOwnZone: schedule?.timezone !== undefined,
      slot,
      after,
      upTo,
      spread,
      waitDays: WAIT_DAYS,
    });
  return conditions === undefined ? add() : withPatternTimeout(tx, conditions, add);
}

/** The schedules whose window is closed now, by configuration and time zone. */
export async function closedWindows(tx: Tx, now: Date): Promise<ClosedWindow[]> {
  const windows = await schedulesWithWindow(tx);
  return windows.filter(({ schedule, timeZone }) => !isWindowOpen(schedule, timeZone, now));
}

interface SlotWork {
  /** Jobs to make: of the devices whose second is after `after` and at most `upTo`, of `spread`. */
  jobs: { slot: Date; after: number; upTo: number; spread: number } | undefined;
  state: SlotState;
}

/** Slots before `since` are not made up for, and of several that were missed only the newest is. Pure. */
export function slotWork(
  schedule: BackupSchedule,
  timeZone: string,
  { stored, since, now }: { stored: SlotState | undefined; since: Date; now: Date },
): SlotWork {
  const isCurrent = stored !== undefined && stored.since.getTime() === since.getTime();
  let { slot, madeSeconds, nextAt }: Omit<SlotState, 'since'> = isCurrent
    ? stored
    : { slot: null, madeSeconds: -1, nextAt: nextSlot(schedule, timeZone, since) };
  if (nextAt <= now) {
    const after = new Date(nextAt.getTime() - 1);
    slot = newestSlot(schedule, timeZone, { after, until: now }) ?? nextAt;
    madeSeconds = -1;
    nextAt = nextSlot(schedule, timeZone, slot);
  }
  if (slot === null) return { jobs: undefined, state: { since, slot, madeSeconds, nextAt } };
  const spread = spreadSeconds(schedule);
  const last = spread - 1;
  const upTo = Math.min(last, Math.floor((now.getTime() - slot.getTime()) / 1000));
  const isOver = upTo >= last;
  return {
    jobs: upTo > madeSeconds ? { slot, after: madeSeconds, upTo, spread } : undefined,
    state: { since, slot: isOver ? null : slot, madeSeconds: isOver ? -1 : upTo, nextAt },
  };
}

/** Devices that return within this time are looked up together. */
const COLLECT_MS = 500;

interface Parts {
  db: Db;
  jobs: Pick<Jobs, 'enqueue'>;
  log: Logger;
  collectMs?: number;
}

/**
 * Begins a hand-over round when a device connects for which a backup waits. However many devices return, this costs one
 * statement in half a second, and no round if nothing waits. What this misses, the round of the next minute finds.
 */
export class RunMissedBackups {
  readonly #parts: Parts;
  #turned = new Set<string>();
  #timer: Timer | undefined;
  #running: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Call it when the new presence of the devices is in the database: of those that connected, and of others too. */
  turned(deviceIds: readonly string[]): void {
    if (this.#isClosed) return;
    for (const id of deviceIds) this.#turned.add(id);
    this.#timer ??= clock.setTimeout(() => void this.#begin(), this.#parts.collectMs ?? COLLECT_MS);
  }

  #begin(): Promise<void> {
    this.#running = this.#look().finally(() => {
      this.#timer = undefined;
      if (this.#turned.size > 0) this.turned([]);
    });
    return this.#running;
  }

  /** Looks up now the devices that have returned. */
  async settle(): Promise<void> {
    await this.#running;
    clock.clear(this.#timer);
    this.#timer = undefined;
    if (this.#turned.size > 0) await this.#begin();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    await this.#running;
  }

  async #look(): Promise<void> {
    const { db, jobs, log } = this.#parts;
    const deviceIds = [...this.#turned];
    this.#turned = new Set();
    try {
      const found = await withSystemStatement(
        db,
        'whether a backup waits for devices that have returned',
        { ...WAITING, values: [deviceIds] },
        () => true,
      );
      if ((found ?? []).length > 0) await jobs.enqueue(undefined, HAND_OVER, {});
    } catch (error) {
      log.warn({ err: error, devices: deviceIds.length }, 'backup.returned_devices_not_read');
    }
  }
}
