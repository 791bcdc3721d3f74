import { groupedBy } from '../../platform/grouped-by.ts';
import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { invalid, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { beginExecution, enqueueAbort } from './begin-execution.ts';
import { groupState, secondsBetween } from './decide.ts';
import { accessibleExecutions } from './disaster-recovery.queries.ts';
import { RecoveryExecution, RecoveryAction, RecoveryStep } from './disaster-recovery.model.ts';
import { type ExecutePlan, type ExecutionQuery, STEP_STATES, type StepState } from './execution.schema.ts';
import { machineOf } from './plan.schema.ts';
import { lockPlan } from './plan.service.ts';

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
  const plan = await lockPlan(ctx, planId);
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
 * Requests the end of an execution. The server that leads it sees that within a second. If that server has died,
 * another leader is added.
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

export async function listExecutions(ctx: Context, query: ExecutionQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { orgId, planId, executionType, status } = query;
  const { results, total } = await accessibleExecutions(ctx)
    .where(omitUndefined({ org_id: orgId, plan_id: planId, execution_type: executionType, status }))
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  const steps = await stepStates(
    ctx.tx,
    results.map(({ id }) => id),
  );
  const shown = results.map((execution) => toExecutionResponse(execution, steps.get(execution.id) ?? []));
  return toPage(query, { results: shown, total });
}

async function findExecution(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<RecoveryExecution> {
  const execution = await accessibleExecutions(ctx).findById(id);
  if (execution === undefined) throw notFound('Recovery execution');
  return execution;
}

export async function readExecution(ctx: Pick<Context, 'tx' | 'caller'>, id: string) {
  const execution = await findExecution(ctx, id);
  const steps = await RecoveryStep.query(ctx.tx)
    .where({ org_id: execution.orgId, execution_id: id })
    .orderBy('position');
  const actions = await RecoveryAction.query(ctx.tx)
    .where('org_id', execution.orgId)
    .whereIn(
      'step_id',
      steps.map((step) => step.id),
    )
    .orderBy('position');
  const ofStep = groupedBy(actions, ({ stepId }) => stepId);
  const shown = steps.map((step) => toStepResponse(step, execution, ofStep.get(step.id) ?? []));
  const groups = execution.groups.map((group) => {
    const own = shown.filter(({ groupId }) => groupId === group.id);
    const status = groupState(own.map(({ state }) => state));
    const ends = own.map(({ finishedAt }) => finishedAt);
    return {
      ...group,
      status,
      startedAt: earliest(own.map(({ startedAt }) => startedAt)),
      finishedAt: ends.includes(null) ? null : latest(ends),
      steps: own,
    };
  });
  return Object.assign(toExecutionResponse(execution, steps), { groups });
}

interface StepFacts {
  groupId: string;
  state: StepState;
}

async function stepStates(tx: Tx, executionIds: readonly string[]): Promise<Map<string, StepFacts[]>> {
  const rows = await RecoveryStep.query(tx)
    .whereIn('execution_id', [...executionIds])
    .select('execution_id', 'group_id', 'state', 'position')
    .orderBy('position');
  return groupedBy(rows, ({ executionId }) => executionId);
}

function toExecutionResponse(execution: RecoveryExecution, steps: readonly StepFacts[]) {
  const counts = Object.fromEntries(STEP_STATES.map((state) => [state, 0])) as Record<StepState, number>;
  for (const { state } of steps) counts[state] += 1;
  const active =
    execution.finishedAt === null
      ? steps.find(({ state }) => state === 'running' || state === 'checking')
      : undefined;
  return Object.assign(execution, { activeGroupId: active?.groupId ?? null, stepCounts: counts });
}

function toStepResponse(
  { definition, errorCode, errorMessage, ...step }: RecoveryStep,
  { startedAt: begunAt }: RecoveryExecution,
  actions: readonly RecoveryAction[],
) {
  const { recoveryPointAt, readyAt } = step;
  return {
    ...step,
    restoreType: definition.restore.type,
    machine: machineOf(definition),
    cleanup: cleanupOf(actions),
    rpoSeconds:
      begunAt === null || recoveryPointAt === null ? null : secondsBetween(recoveryPointAt, begunAt),
    rtoSeconds: begunAt === null || readyAt === null ? null : secondsBetween(begunAt, readyAt),
    error: failure(errorCode, errorMessage),
    actions: actions.map(({ errorCode: code, errorMessage: message, ...action }) => ({
      ...action,
      scriptSha256: action.spec.does === 'check' ? (action.spec.scriptSha256 ?? null) : null,
      error: failure(code, message),
    })),
  };
}

const failure = (code: string | null, message: string | null) =>
  code === null ? null : { code, message: message ?? '' };

function cleanupOf(
  actions: readonly RecoveryAction[],
): 'none' | 'pending' | 'running' | 'completed' | 'failed' {
  const states = actions.flatMap(({ phase, state }) => (phase === 'cleanup' ? [state] : []));
  if (states.every((state) => state === 'skipped')) return 'none';
  if (states.includes('failed') || states.includes('cancelled')) return 'failed';
  if (states.includes('running')) return 'running';
  return states.includes('waiting') ? 'pending' : 'completed';
}

const times = (list: readonly (Date | null)[]) => list.flatMap((at) => (at === null ? [] : [at.getTime()]));
const earliest = (list: readonly (Date | null)[]) =>
  times(list).length === 0 ? null : new Date(Math.min(...times(list)));
const latest = (list: readonly (Date | null)[]) =>
  times(list).length === 0 ? null : new Date(Math.max(...times(list)));
