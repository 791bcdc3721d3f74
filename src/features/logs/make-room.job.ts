import { z } from 'zod';
import { clock } from '../../clock.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { raiseAlert } from '../alerts/index.ts';
import { holdRemoval, noteRemoval, organizationsRemovingOldest } from '../log-retention/index.ts';
import { oldestToRemove, type Removal, BUDGETS, MAKE_ROOM_EVERY_MINUTES } from './budget.ts';
import {
  removeArrivedLines,
  removeArrivedEvents,
  arrivalDays,
  lowerArrivalDay,
  oldestArrivalDay,
} from './log.queries.ts';

const RoomMade = z.object({
  /** For how many organizations the removal of days was decided. */
  decided: z.number(),
  removed: z.number(),
  failed: z.number(),
});
type RoomMade = z.infer<typeof RoomMade>;

const MAKE_ROOM = defineJob({
  name: 'logs.make-room',
  input: z.object({}),
  result: RoomMade,
  attempts: 1,
  inCluster: 1,
  // Removed logs stay removed, and the days to be removed are noted with the organization.
  resumes: true,
});

/** A pause after a full batch, so that other work gets at the same rows and the same disk. */
const PAUSE_MS = 50;

interface Parts {
  db: Db;
  audit: AuditTrail;
  log: Logger;
}

interface Owner {
  orgId: string;
  partnerId: string;
}

/** Removes the oldest logs of organizations that chose so and have nearly spent their budget in total. */
export function makeRoomRegularly({ jobs, ...parts }: Parts & { jobs: Jobs }): void {
  jobs.handle(MAKE_ROOM, ({ signal }) => makeRoom(parts, signal));
  jobs.schedule(MAKE_ROOM, { cron: `*/${MAKE_ROOM_EVERY_MINUTES} * * * *`, timeZone: 'UTC' }, {});
}

/** Organizations take turns, a batch each. If the logs of one cannot be removed, the others go on. */
export async function makeRoom(parts: Parts, signal?: AbortSignal): Promise<RoomMade> {
  const round: RoomMade = { decided: 0, removed: 0, failed: 0 };
  let waiting = await withSystem(
    parts.db,
    'find the organizations whose oldest logs are removed',
    organizationsRemovingOldest,
  );
  for (const owner of waiting) {
    signal?.throwIfAborted();
    if ((await attempt(parts, round, owner, () => decide(parts, owner))) === true) round.decided += 1;
  }
  while (waiting.length > 0) {
    const more: Owner[] = [];
    for (const owner of waiting) {
      signal?.throwIfAborted();
      const batch = await attempt(parts, round, owner, () => removeBatch(parts.db, owner.orgId));
      round.removed += batch?.removed ?? 0;
      if (batch === undefined || batch.isLast) continue;
      more.push(owner);
      if (batch.isFull) await clock.sleep(PAUSE_MS);
    }
    waiting = more;
  }
  if (round.removed > 0) parts.log.info(round, 'logs.oldest_removed');
  return round;
}

async function attempt<T>(
  { log }: Parts,
  round: RoomMade,
  { orgId }: Owner,
  work: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (isDatabaseAway(error)) throw error;
    round.failed += 1;
    log.warn({ err: error, orgId }, 'logs.oldest_not_removed');
    return undefined;
  }
}

/**
 * Notes which days are to be removed, together with the audit entry and the alert: once it is noted, the removal goes on
 * in whichever run and on whichever server until it has ended.
 */
async function decide(parts: Parts, owner: Owner): Promise<boolean> {
  const isDecided = await withSystem(
    parts.db,
    'decide which of the oldest logs of an organization are removed',
    async (tx) => {
      const begun = await holdRemoval(tx, owner.orgId);
      if (begun?.through !== null) return false;
      const { today, days } = await arrivalDays(tx, owner.orgId);
      const removal = oldestToRemove(days, { today, budget: BUDGETS.organization.total });
      if (removal === undefined) return false;
      await noteRemoval(tx, owner.orgId, removal.through);
      await announce(tx, parts, owner, removal);
      return true;
    },
  );
  if (isDecided) parts.audit.committed();
  return isDecided;
}

async function announce(
  tx: Tx,
  { audit, log }: Parts,
  { orgId, partnerId }: Owner,
  removal: Removal,
): Promise<void> {
  await audit.record(tx, {
    action: 'organization.logs.remove_oldest',
    resourceType: 'organization',
    resourceId: orgId,
    details: { ...removal },
    actor: { kind: 'system', orgId, partnerId },
    state: { client: { ip: null, userAgent: null }, log },
  });
  const { from, through, entries, bytes } = removal;
  const days = from === through ? `on ${from}` : `from ${from} to ${through}`;
  await raiseAlert(tx, {
    orgId,
    kind: 'oldest_logs_removed',
    severity: 'medium',
    title: 'The oldest logs of the organization are removed',
    message: `Logs that arrived ${days} (UTC) are removed, ${entries} entries of ${Math.ceil(bytes / 1024 ** 2)} MiB, because the organization has nearly spent its budget for stored logs in total. Some machines may be logging without end.`,
    details: { ...removal },
  });
}

/** Removes some logs that one device had stored on the oldest day, and corrects the count of that day. */
async function removeBatch(
  db: Db,
  orgId: string,
): Promise<{ removed: number; isFull: boolean; isLast: boolean }> {
  return withSystem(db, 'remove some of the oldest logs of an organization', async (tx) => {
    const end = { removed: 0, isFull: false, isLast: true };
    const begun = await holdRemoval(tx, orgId);
    if (begun === undefined || begun.through === null) return end;
    // The day stays locked until the transaction ends: logs that a late request adds to it are counted after this.
    const oldest = await oldestArrivalDay(tx, { orgId, through: begun.through });
    if (oldest === undefined) {
      await noteRemoval(tx, orgId, null);
      return end;
    }
    const arrived = { orgId, ...oldest };
    const lines = await removeArrivedLines(tx, arrived);
    const events = await removeArrivedEvents(tx, arrived);
    const removed = lines.removed + events.removed;
    const isFull = lines.mayHaveMore || events.mayHaveMore;
    await lowerArrivalDay(tx, { ...arrived, removed, isEmpty: !isFull });
    return { removed, isFull, isLast: false };
  });
}
