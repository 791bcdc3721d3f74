import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { namingConflict } from '../../../platform/db/database-errors.ts';
import { nameOrder } from '../../../platform/db/name-order.ts';
import { patchRecorded } from '../../../platform/db/patch-recorded.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { AppError, invalid, noFields, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { type BackupSchedule, nextSlot } from '../../backup/index.ts';
import { assertManageable, assertOrganizationAccess } from '../../organizations/index.ts';
import { followRecoveryAlert } from './recovery-alert.ts';
import { marksOf, openExecutionOf, planFacts } from './plan-facts.ts';
import { shownGroups } from './pinned-scripts.ts';
import { RecoveryGroup, RecoveryPlan } from './plan.model.ts';
import type { NewRecoveryPlan, RecoveryPlanPatch, RecoveryPlanQuery } from './plan.schema.ts';
import { machineOf } from './target.schema.ts';

const PLANS_MAX = 100;
const NAME_TAKEN = 'Another recovery plan of this organization has this name.';

const accessible = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  RecoveryPlan.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'dr_plans.org_id'));

export async function listPlans(ctx: Context, query: RecoveryPlanQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessible(ctx)
    .where(omitUndefined({ org_id: query.orgId, status: query.status }))
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  return toPage(query, { results: await withFacts(ctx, results), total });
}

export async function findPlan(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<RecoveryPlan> {
  const plan = await accessible(ctx).findById(id);
  if (plan === undefined) throw notFound('Recovery plan');
  return plan;
}

/** Locked, so that changes of a plan and the begin of an execution come one after another. */
export async function findPlanToChange(ctx: Context, id: string): Promise<RecoveryPlan> {
  const { orgId } = await findPlan(ctx, id);
  await assertManageable(ctx, orgId);
  return RecoveryPlan.query(ctx.tx).findById(id).forNoKeyUpdate().throwIfNotFound();
}

export const readPlan = async (ctx: Context, id: string) => shownPlan(ctx, await findPlan(ctx, id));

export async function createPlan(ctx: Context, input: NewRecoveryPlan) {
  const orgId = input.orgId ?? ctx.caller.orgId;
  if (orgId === null) throw invalid('body.orgId', 'is required for partner and system scope');
  await assertOrganizationAccess(ctx, orgId);
  await assertManageable(ctx, orgId);
  // Serialized by a lock on the organization, so that the limit holds.
  await ctx.tx.raw('select from organizations where id = ? for no key update', [orgId]);
  if ((await RecoveryPlan.query(ctx.tx).where('org_id', orgId).resultSize()) >= PLANS_MAX) {
    throw new AppError('limit_reached', `Recovery plan limit reached (${PLANS_MAX}).`);
  }
  const { rehearsalSchedule = null, status = 'draft', ...rest } = omitUndefined(input);
  const plan = await namingConflict(
    RecoveryPlan.query(ctx.tx).insertAndFetch({
      ...rest,
      orgId,
      status,
      rehearsalSchedule,
      nextRehearsalAt: nextRehearsal({ rehearsalSchedule, status }),
      createdBy: ctx.caller.userId,
    }),
    'dr_plans_name',
    'body.name',
    NAME_TAKEN,
  );
  return shownPlan(ctx, plan);
}

export async function updatePlan(ctx: Context, id: string, patch: RecoveryPlanPatch) {
  const plan = await findPlanToChange(ctx, id);
  if (Object.keys(omitUndefined(patch)).length === 0) throw noFields();
  const { rehearsalSchedule = plan.rehearsalSchedule, status = plan.status } = patch;
  const isScheduledAnew = patch.rehearsalSchedule !== undefined || patch.status !== undefined;
  const changes = {
    ...omitUndefined(patch),
    // What was not due before is not made up for.
    ...(isScheduledAnew ? { nextRehearsalAt: nextRehearsal({ rehearsalSchedule, status }) } : {}),
  };
  const updated = await namingConflict(
    patchRecorded(ctx, plan, changes),
    'dr_plans_name',
    'body.name',
    NAME_TAKEN,
  );
  if (patch.status !== undefined) await followRecoveryAlert(ctx.tx, plan.orgId);
  return shownPlan(ctx, updated);
}

export async function deletePlan(ctx: Context, id: string) {
  const plan = await findPlanToChange(ctx, id);
  if ((await openExecutionOf(ctx.tx, plan)) !== undefined) {
    throw new AppError('conflict', 'An execution of this plan has not ended yet.');
  }
  if ((await marksOf(ctx.tx, plan)).length > 0) {
    throw new AppError('conflict', 'Devices of this plan have failed over. Execute a failback first.');
  }
  await RecoveryPlan.query(ctx.tx).deleteById(id);
  await followRecoveryAlert(ctx.tx, plan.orgId);
  return { success: true as const, plan };
}

/** When the next rehearsal begins by itself. */
export const nextRehearsal = (
  { rehearsalSchedule, status }: { rehearsalSchedule: BackupSchedule | null; status: RecoveryPlan['status'] },
  after = clock.date(),
): Date | null =>
  rehearsalSchedule === null || status === 'archived'
    ? null
    : nextSlot(rehearsalSchedule, rehearsalSchedule.timezone ?? 'UTC', after);

/** The groups of a plan in the order in which they are worked off. */
export const groupsOf = (
  tx: Context['tx'],
  { id, orgId }: Pick<RecoveryPlan, 'id' | 'orgId'>,
): Promise<RecoveryGroup[]> =>
  Promise.resolve(
    RecoveryGroup.query(tx).where({ plan_id: id, org_id: orgId }).orderBy(['sequence', 'created_at', 'id']),
  );

async function shownPlan(ctx: Pick<Context, 'tx'>, plan: RecoveryPlan) {
  const [one] = await withFacts(ctx, [plan]);
  if (one === undefined) throw new Error('one plan is shown as one');
  const marks = await marksOf(ctx.tx, plan);
  return Object.assign(one, {
    groups: await shownGroups(ctx.tx, plan.orgId, await groupsOf(ctx.tx, plan)),
    failedOver: marks.map(({ definition, failedOverAt, ...mark }) => ({
      ...mark,
      restoreType: definition.restore.type,
      machine: machineOf(definition),
      since: failedOverAt,
    })),
  });
}

async function withFacts({ tx }: Pick<Context, 'tx'>, plans: readonly RecoveryPlan[]) {
  const facts = await planFacts(
    tx,
    plans.map(({ id }) => id),
  );
  return plans.map((plan) => Object.assign(plan, facts(plan.id)));
}
