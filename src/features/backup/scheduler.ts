import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem, withTenant } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { visibleDevices, whereMatching, withPatternTimeout } from '../conditions/index.ts';
import { conditionsWithin } from '../filters/index.ts';
import { organizationScope } from '../groups/index.ts';
import { destinationOf } from './add-job.ts';
import { BackupConfig } from './config.model.ts';
import {
  type DueSchedule,
  dueSchedules,
  findSlotState,
  insertScheduledJobs,
  type SlotState,
  storeSlotState,
} from './job.queries.ts';
import { type BackupSchedule, newestSlot, nextSlot, spreadSeconds } from './schedule.ts';
import { SOURCE_WORK } from './source-kinds.ts';

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
  config: Pick<BackupConfig, 'id' | 'orgId' | 'targets' | 'sources' | 'schedule' | 'provider' | 'details'>,
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
      ...destinationOf(config),
    });
  return conditions === undefined ? add() : withPatternTimeout(tx, conditions, add);
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
