import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import { machineOf } from '../plans/target.schema.ts';
import { groupState } from './decisions/decide.ts';
import { RecoveryAction, RecoveryExecution, RecoveryStep } from './execution.model.ts';
import { type ExecutionQuery, STEP_STATES, type StepState } from './execution.schema.ts';
import { groupBy } from './decisions/group-by.ts';
import { secondsBetween } from './decisions/report.ts';

const accessible = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  RecoveryExecution.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'dr_executions.org_id'));

export async function listExecutions(ctx: Context, query: ExecutionQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { orgId, planId, executionType, status } = query;
  const { results, total } = await accessible(ctx)
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
  const shown = results.map((execution) => shownExecution(execution, steps.get(execution.id) ?? []));
  return toPage(query, { results: shown, total });
}

export async function findExecution(
  ctx: Pick<Context, 'tx' | 'caller'>,
  id: string,
): Promise<RecoveryExecution> {
  const execution = await accessible(ctx).findById(id);
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
  const ofStep = groupBy(actions, ({ stepId }) => stepId);
  const shown = steps.map((step) => shownStep(step, execution, ofStep.get(step.id) ?? []));
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
  return Object.assign(shownExecution(execution, steps), { groups });
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
  return groupBy(rows, ({ executionId }) => executionId);
}

function shownExecution(execution: RecoveryExecution, steps: readonly StepFacts[]) {
  const counts = Object.fromEntries(STEP_STATES.map((state) => [state, 0])) as Record<StepState, number>;
  for (const { state } of steps) counts[state] += 1;
  const active =
    execution.finishedAt === null
      ? steps.find(({ state }) => state === 'running' || state === 'checking')
      : undefined;
  return Object.assign(execution, { activeGroupId: active?.groupId ?? null, stepCounts: counts });
}

function shownStep(
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
