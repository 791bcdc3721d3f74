import { clock } from '../../../../clock.ts';
import { withSavepoint, withSystem } from '../../../../platform/db/transaction.ts';
import { AppError } from '../../../../platform/errors.ts';
import { isManageableSql } from '../../../organizations/index.ts';
import { RecoveryPlan } from '../../plans/plan.model.ts';
import { nextRehearsal } from '../../plans/plan.service.ts';
import type { AdvanceParts } from './advance.ts';
import { beginExecution } from './begin.ts';
import { recordBySystem } from './system-audit.ts';

const AT_ONCE = 100;

type DueParts = Pick<AdvanceParts, 'db' | 'jobs' | 'log' | 'audit'>;

/** Begins the rehearsals of schedules. One plan that cannot be rehearsed never holds up another one. */
export async function beginDueRehearsals(
  { db, jobs, log, audit }: DueParts,
  signal: AbortSignal,
): Promise<void> {
  const due = await withSystem(db, 'find the rehearsals of recovery plans that are due', (tx) =>
    RecoveryPlan.query(tx)
      .where('next_rehearsal_at', '<=', clock.date())
      .whereRaw(`org_id in (select o.id from organizations o where ${isManageableSql('o')})`)
      .orderBy('next_rehearsal_at')
      .limit(AT_ONCE)
      .select('id'),
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
      // An execution is under way, or the plan is empty: the next time is as good.
      if (!(error instanceof AppError)) throw error;
    }
  });
  parts.audit.committed();
};

const BY_SCHEDULE = { executionType: 'rehearsal' } as const;
