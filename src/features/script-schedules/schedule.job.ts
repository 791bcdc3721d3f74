import { z } from 'zod';
import { clock, MINUTE_MS } from '../../clock.ts';
import { holds } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { AuditEntry, AuditTrail } from '../../platform/http/audit.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { loadUserRights } from '../auth/index.ts';
import { reachesOwner } from '../owners/index.ts';
import { startRunOfSchedule } from '../script-runs/index.ts';
import { scriptsToRead } from '../scripts/index.ts';
import { newestSlot, nextSlot } from './cron.ts';
import { secretsForRun } from './schedule-secrets.ts';
import type { ScriptSchedule } from './schedule.model.ts';
import { dueSchedules, takeDueSchedule } from './schedule.queries.ts';
import type { PauseReason, SkipReason } from './schedule.schema.ts';

/** Schedules of one round; what is left over is due in the next one, a minute later. */
const AT_ONCE = 500;

const RUN_DUE = defineJob({
  name: 'script-schedules.run-due',
  input: z.object({}),
  result: z.object({ done: z.number() }),
  attempts: 1,
  inCluster: 1,
});

interface Parts {
  jobs: Jobs;
  db: Db;
  audit: AuditTrail;
  secrets: Encryptor;
  log: Logger;
}

/**
 * Starts the runs of the schedules that are due, once a minute. Each is a transaction of its own, which locks the schedule
 * and sets its next time: so one that fails stops no other, and each time of a schedule has one run, whatever servers do.
 */
export function runScriptSchedules({ jobs, db, audit, secrets, log }: Parts): void {
  jobs.handle(RUN_DUE, async ({ signal }) => {
    const now = clock.date();
    const due = await withSystem(db, 'find the script schedules that are due', (tx) =>
      dueSchedules(tx, now, AT_ONCE),
    );
    let done = 0;
    for (const id of due) {
      if (signal.aborted) break;
      try {
        // One after the other: none may take the connections of other work.
        // oxlint-disable-next-line no-await-in-loop
        await withSystem(db, 'run a script schedule', async (tx) =>
          audit.recordAll(tx, await runDue(tx, id, now, { jobs, secrets, log })),
        );
        done += 1;
      } catch (error) {
        log.warn({ err: error, scheduleId: id }, 'script_schedules.not_run');
      }
    }
    if (done > 0) audit.committed();
    return { done };
  });
  jobs.schedule(RUN_DUE, { cron: '* * * * *', timeZone: 'UTC' }, {});
}

/** Runs one that is still due, skips it, or pauses it. @returns what the audit trail is told */
async function runDue(
  tx: Tx,
  id: string,
  now: Date,
  { jobs, secrets: encryptor, log }: Pick<Parts, 'jobs' | 'secrets' | 'log'>,
): Promise<AuditEntry[]> {
  const schedule = await takeDueSchedule(tx, id, now);
  if (schedule === undefined || schedule.nextAt === null) return [];
  const slotAt = newestSlot(schedule, schedule.nextAt, now);
  const nextAt = nextSlot(schedule, now);
  const go = async (lastSkip: SkipReason | null) => {
    await schedule.$query(tx).patch({ nextAt, lastSlotAt: slotAt, lastSkip });
  };
  const script = schedule.scriptId === null ? undefined : await scriptOf(tx, schedule, schedule.scriptId);
  const verdict = script === undefined ? 'script_gone' : await verdictOn(tx, schedule);
  if (verdict === 'partner_inactive') {
    await go(verdict);
    return [];
  }
  const pause = async (reason: PauseReason) => {
    await schedule.$query(tx).patch({ nextAt: null, pausedReason: reason, pausedAt: now });
    return [pauseEntry(schedule, reason, log)];
  };
  if (verdict !== undefined || script === undefined) return pause(verdict ?? 'script_gone');
  const given = await secretsForRun(tx, schedule, script, encryptor);
  if (typeof given === 'string') return pause(given);
  const expiresAt = new Date(slotAt.getTime() + schedule.catchUpMinutes * MINUTE_MS);
  if (expiresAt <= now) {
    await go('missed');
    return [];
  }
  const { parameters, target, runsAs, partnerId, orgId } = schedule;
  const started = await startRunOfSchedule(tx, jobs, {
    script,
    owner: { partnerId, orgId },
    target,
    parameters,
    secrets: given.secrets,
    createdBy: runsAs,
    scheduleId: schedule.id,
    slotAt,
    expiresAt,
  });
  if (typeof started === 'string') {
    await go(started);
    return [];
  }
  await go(null);
  return started.notes.map((note) => ({
    ...note,
    action: 'script.execute',
    resourceType: 'script',
    details: { ...note.details, scheduleId: schedule.id, runsAs },
    actor: { kind: 'system', orgId: note.orgId, partnerId },
    state: { client: { ip: null, userAgent: null }, log },
  }));
}

/** The script, if it can still run on devices of the owner. */
const scriptOf = (tx: Tx, { orgId, partnerId }: ScriptSchedule, scriptId: string) =>
  scriptsToRead(tx)
    .findById(scriptId)
    .where((either) => {
      void either.where('partner_id', partnerId);
      if (orgId !== null) void either.orWhere('org_id', orgId);
    });

/** Why the person of a schedule may not run it now; undefined if they may. */
async function verdictOn(
  tx: Tx,
  schedule: ScriptSchedule,
): Promise<'person_gone' | 'permission_lost' | 'access_lost' | 'partner_inactive' | undefined> {
  try {
    const person = schedule.runsAs === null ? undefined : await loadUserRights(tx, schedule.runsAs);
    if (person === undefined) return 'person_gone';
    const { permissions } = person;
    if (!holds(permissions, 'scripts:execute')) return 'permission_lost';
    const usesFilter = schedule.target.filterId !== undefined;
    if (usesFilter && !holds(permissions, 'filters:read')) return 'permission_lost';
    return reachesOwner(person, schedule) ? undefined : 'access_lost';
  } catch (error) {
    if (error instanceof AppError && error.code === 'partner_inactive') return 'partner_inactive';
    throw error;
  }
}

const pauseEntry = (
  { id, name, orgId, partnerId, runsAs }: ScriptSchedule,
  reason: PauseReason,
  log: Logger,
): AuditEntry => ({
  action: 'script.schedule.pause',
  resourceType: 'script_schedule',
  orgId,
  partnerId,
  resourceId: id,
  resourceName: name,
  details: { reason, runsAs },
  actor: { kind: 'system', orgId, partnerId },
  state: { client: { ip: null, userAgent: null }, log },
});
