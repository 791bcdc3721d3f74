import { patchRecorded } from '../../../platform/db/patch-recorded.ts';
import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { invalid } from '../../../platform/errors.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { assertManageable } from '../../organizations/index.ts';
import { findPlanToChange } from '../plans/plan.service.ts';
import { beginExecution } from './work/begin.ts';
import { RecoveryExecution } from './execution.model.ts';
import type { ExecutePlan } from './execution.schema.ts';
import { enqueueAbort } from './work/lead.ts';
import { findExecution, readExecution } from './read-executions.ts';

export interface ExecutionParts {
  jobs: Jobs;
}

export async function executePlan(
  ctx: Context,
  planId: string,
  { executionType, note, machinesAreBack = false, saveMachines = false }: ExecutePlan,
  { jobs }: ExecutionParts,
) {
  if (machinesAreBack && executionType !== 'failback') {
    throw invalid('body.machinesAreBack', 'is for a failback only');
  }
  if (saveMachines && executionType !== 'failback') {
    throw invalid('body.saveMachines', 'is for a failback only');
  }
  if (saveMachines && machinesAreBack) {
    throw invalid('body.saveMachines', 'must not be true when the machines are back');
  }
  const plan = await findPlanToChange(ctx, planId);
  const createdBy = ctx.caller.userId;
  const wanted = {
    executionType,
    note: note ?? null,
    machines: machinesAreBack ? ('back' as const) : saveMachines ? ('save' as const) : null,
    createdBy,
    trigger: 'manual' as const,
  };
  return readExecution(ctx, await beginExecution(ctx.tx, plan, wanted, jobs));
}

/**
 * Asks for the end of an execution. The server that leads it sees that within a second. One that has died is not waited
 * for, because another leader is added.
 */
export async function abortExecution(ctx: Context, id: string, { jobs }: ExecutionParts) {
  const { orgId } = await findExecution(ctx, id);
  await assertManageable(ctx, orgId);
  const execution = await RecoveryExecution.query(ctx.tx).findById(id).forNoKeyUpdate().throwIfNotFound();
  if (execution.finishedAt !== null) {
    throw invalid('params.id', `must be an execution that is pending or running; it is ${execution.status}`);
  }
  if (execution.abortRequestedAt === null) {
    await patchRecorded(ctx, execution, { abortRequestedAt: clock.date() });
    await enqueueAbort(ctx.tx, jobs, execution);
  }
  return readExecution(ctx, id);
}
