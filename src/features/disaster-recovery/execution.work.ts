import { z } from 'zod';
import { clock } from '../../clock.ts';
import { withSystem, withSavepoint, type Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { defineJob, type JobRun } from '../../platform/jobs/definition.ts';
import { type AddedCommand, announceCommands } from '../commands/index.ts';
import { advance, type AdvanceParts, recordBySystem, isLeftover } from './advance-execution.ts';
import { enqueueLead, LEAD, LEAD_ABORT, beginExecution } from './begin-execution.ts';
import {
  actionsToFollow,
  executionsWithLeftovers,
  leaderlessExecutions,
  plansWithDueRehearsal,
  devicesNow,
} from './disaster-recovery.queries.ts';
import { RecoveryAction, RecoveryExecution, RecoveryPlan } from './disaster-recovery.model.ts';
import { endedActions, startAction } from './actions.ts';
import { nextRehearsal } from './plan.service.ts';

/**
 * Polling intervals while nothing changes: checks end within moments, and a restore may take hours. The longest one
 * delays an abort.
 */
const PAUSE_MS = { first: 100, longest: 1000 } as const;

const WATCH = defineJob({ name: 'recovery.watch', input: z.object({}), attempts: 1, inCluster: 1 });

export function addRecoveryJobs(parts: AdvanceParts): void {
  const { jobs } = parts;
  const lead = async ({ input, signal }: JobRun<{ executionId: string }>) => {
    let pauseMs: number = PAUSE_MS.first;
    while (!signal.aborted) {
      const advanced = await advance(parts, input.executionId, signal);
      if (advanced === 'ended') return {};
      pauseMs = advanced === 'moved' ? PAUSE_MS.first : Math.min(pauseMs * 1.5, PAUSE_MS.longest);
      if (advanced === 'still') await clock.sleep(pauseMs, { signal }).catch(() => undefined);
    }
    signal.throwIfAborted();
    return {};
  };
  jobs.handle(LEAD, lead);
  jobs.handle(LEAD_ABORT, lead);
  jobs.handle(WATCH, async ({ signal }) => {
    await beginDueRehearsals(parts, signal);
    await resumeLeaderless(parts);
    await followLeftovers(parts);
  });
  jobs.schedule(WATCH, { cron: '* * * * *', timeZone: 'UTC' }, {});
}

/** Another server takes over the job of a leader that died. This covers executions whose job has used up its attempts. */
const resumeLeaderless = ({ db, jobs }: AdvanceParts): Promise<void> =>
  withSystem(db, 'resume executions of recovery plans without a leader', async (tx) => {
    for (const { id, orgId, ledAt } of await leaderlessExecutions(tx)) {
      await enqueueLead(tx, jobs, { id, orgId }, `${id} ${ledAt.toISOString()}`);
    }
  });

const REHEARSALS_AT_ONCE = 100;

type DueParts = Pick<AdvanceParts, 'db' | 'jobs' | 'log' | 'audit'>;

/** Starts scheduled rehearsals. A plan that cannot be rehearsed does not stop the others. */
export async function beginDueRehearsals(
  { db, jobs, log, audit }: DueParts,
  signal: AbortSignal,
): Promise<void> {
  const due = await withSystem(db, 'find the rehearsals of recovery plans that are due', (tx) =>
    plansWithDueRehearsal(tx, REHEARSALS_AT_ONCE),
  );
  for (const { id } of due) {
    if (signal.aborted) return;
    const begun = begin({ db, jobs, log, audit }, id);
    await begun.catch((error: unknown) => {
      log.error({ err: error, recoveryPlanId: id }, 'recovery.rehearsal_not_begun');
    });
  }
}

const begin = async (parts: DueParts, id: string): Promise<void> => {
  await withSystem(parts.db, 'begin a rehearsal of a recovery plan that is due', async (tx) => {
    const plan = await RecoveryPlan.query(tx)
      .findById(id)
      .where('next_rehearsal_at', '<=', clock.date())
      .forNoKeyUpdate()
      .skipLocked();
    if (plan === undefined) return;
    await plan.$query(tx).patch({ nextRehearsalAt: nextRehearsal(plan) });
    const wanted = {
      executionType: 'rehearsal',
      trigger: 'schedule',
      note: null,
      machines: null,
      createdBy: null,
    } as const;
    try {
      await withSavepoint(tx, async (inner) => {
        const executionId = await beginExecution(inner, plan, wanted, parts.jobs);
        const execution = {
          ...BY_SCHEDULE,
          id: executionId,
          orgId: plan.orgId,
          planId: id,
          planName: plan.name,
        };
        const more = { trigger: wanted.trigger };
        await recordBySystem(inner, parts, { action: 'recovery.execute', execution, more });
      });
    } catch (error) {
      // An execution is running, or the plan is empty: wait for the next time.
      if (!(error instanceof AppError)) throw error;
    }
  });
  parts.audit.committed();
};

const BY_SCHEDULE = { executionType: 'rehearsal' } as const;

/**
 * Cleans up after an execution that ended while its device was absent or had failed to do so. The command waits for
 * the device; if it was lost or has failed, it is sent again.
 */

type FollowParts = Omit<AdvanceParts, 'backupStore'>;

export async function followLeftovers(parts: FollowParts): Promise<void> {
  const executions = await withSystem(
    parts.db,
    'find executions of recovery plans with something to take down',
    executionsWithLeftovers,
  );
  for (const { id } of executions) {
    const commands = await withSystem(
      parts.db,
      'take down what an execution of a recovery plan has left',
      (tx) => followOne(tx, parts, id),
    ).catch((error: unknown) => {
      parts.log.error({ err: error, recoveryExecutionId: id }, 'recovery.leftovers_failed');
      return [];
    });
    if (commands.length > 0) announceCommands(parts.hub, commands);
  }
}

async function followOne(tx: Tx, parts: FollowParts, id: string): Promise<AddedCommand[]> {
  const execution = await RecoveryExecution.query(tx).findById(id).forNoKeyUpdate().skipLocked();
  if (execution?.report == null) return [];
  const { orgId } = execution;
  const actions = await actionsToFollow(tx, execution);
  const running = actions.filter(({ phase, state }) => phase === 'cleanup' && state === 'running');
  const ends = await endedActions(tx, actions);
  for (const action of running) {
    const end = ends.get(action.id);
    if (end === undefined) continue;
    await RecoveryAction.query(tx).findById(action.id).patch(end);
    Object.assign(action, end);
  }
  const commands: AddedCommand[] = [];
  const due = actions.filter(({ phase, state, isDue }) => phase === 'cleanup' && state === 'failed' && isDue);
  const devices = await devicesNow(
    tx,
    orgId,
    due.map(({ deviceId }) => deviceId),
  );
  for (const action of due) {
    const device = devices.get(action.deviceId);
    if (device === undefined) continue;
    const siblings = actions.filter(({ stepId }) => stepId === action.stepId);
    const started = await withSavepoint(tx, (inner) =>
      startAction(inner, { execution, action, siblings, device }, parts),
    ).catch((error: unknown) => {
      // An action that one device refuses is tried again in the next round, and delays none of the others.
      parts.log.warn({ err: error, recoveryActionId: action.id }, 'recovery.leftover_not_started');
      return 'refused' as const;
    });
    if (typeof started === 'string') continue;
    const again = { state: 'running', startedAt: clock.date(), finishedAt: null } as const;
    await RecoveryAction.query(tx)
      .findById(action.id)
      .patch({ ...again, errorCode: null, errorMessage: null, ...started.changes });
    Object.assign(action, again);
    if (started.command !== undefined) commands.push(started.command);
  }
  const leftovers = actions.filter(isLeftover).length;
  if (leftovers !== execution.report.leftovers) {
    await execution.$query(tx).patch({ report: { ...execution.report, leftovers } });
  }
  return commands;
}
