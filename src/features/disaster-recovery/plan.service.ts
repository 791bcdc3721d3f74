import { isDeepStrictEqual } from 'node:util';
import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { raiseAlert, resolveAlert } from '../alerts/index.ts';
import { type BackupSchedule, scheduleTimes } from '../backup/index.ts';
import { assertManageable, assertOrganizationAccess, lockOrganization } from '../organizations/index.ts';
import {
  failedOverSources,
  openExecutionOf,
  planFacts,
  accessiblePlans,
  accessiblePlansByName,
  failedPlans,
  type PlanKey,
  pinScripts,
} from './disaster-recovery.queries.ts';
import { RecoveryGroup, RecoveryPlan, type PinnedScript } from './disaster-recovery.model.ts';
import {
  type NewRecoveryPlan,
  type RecoveryPlanPatch,
  type RecoveryPlanQuery,
  machineOf,
  type RecoveryDevice,
} from './plan.schema.ts';
import type { CommandPayload } from '../../protocol/index.ts';
import { scriptVersions } from '../scripts/index.ts';

const PLANS_MAX = 100;
const NAME_TAKEN = 'Another recovery plan of this organization has this name.';

export async function listPlans(ctx: Context, query: RecoveryPlanQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessiblePlansByName(ctx)
    .where(omitUndefined({ org_id: query.orgId, status: query.status }))
    .page(query.page - 1, query.limit);
  return toPage(query, { results: await withFacts(ctx, results), total });
}

async function findPlan(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<RecoveryPlan> {
  const plan = await accessiblePlans(ctx).findById(id);
  if (plan === undefined) throw notFound('Recovery plan');
  return plan;
}

/** Locks the plan, so that changes of a plan and the start of an execution are serialized. */
export async function lockPlan(ctx: Context, id: string): Promise<RecoveryPlan> {
  const { orgId } = await findPlan(ctx, id);
  await assertManageable(ctx, orgId);
  return RecoveryPlan.query(ctx.tx).findById(id).forNoKeyUpdate().throwIfNotFound();
}

export const readPlan = async (ctx: Context, id: string) => toPlanResponse(ctx, await findPlan(ctx, id));

export async function createPlan(ctx: Context, input: NewRecoveryPlan) {
  const orgId = input.orgId ?? ctx.caller.orgId;
  if (orgId === null) throw invalid('body.orgId', 'is required for partner and system scope');
  await assertOrganizationAccess(ctx, orgId);
  await assertManageable(ctx, orgId);
  // Serialized by a lock on the organization, so that the limit holds.
  await lockOrganization(ctx.tx, orgId);
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
  return toPlanResponse(ctx, plan);
}

export async function updatePlan(ctx: Context, id: string, patch: RecoveryPlanPatch) {
  const plan = await lockPlan(ctx, id);
  if (Object.keys(omitUndefined(patch)).length === 0) throw noFields();
  const { rehearsalSchedule = plan.rehearsalSchedule, status = plan.status } = patch;
  // A form sends a schedule that it does not change as well.
  const isScheduledAnew =
    !isDeepStrictEqual(rehearsalSchedule, plan.rehearsalSchedule) || status !== plan.status;
  const changes = {
    ...omitUndefined(patch),
    // Missed rehearsals are not repeated.
    ...(isScheduledAnew ? { nextRehearsalAt: nextRehearsal({ rehearsalSchedule, status }) } : {}),
  };
  const updated = await namingConflict(
    patchRecorded(ctx, plan, changes),
    'dr_plans_name',
    'body.name',
    NAME_TAKEN,
  );
  if (patch.status !== undefined) await followRecoveryAlert(ctx.tx, plan.orgId);
  return toPlanResponse(ctx, updated);
}

export async function deletePlan(ctx: Context, id: string) {
  const plan = await lockPlan(ctx, id);
  if ((await openExecutionOf(ctx.tx, plan)) !== undefined) {
    throw new AppError('conflict', 'An execution of this plan has not ended yet.');
  }
  if ((await failedOverSources(ctx.tx, plan)).length > 0) {
    throw new AppError('conflict', 'Devices of this plan have failed over. Execute a failback first.');
  }
  await RecoveryPlan.query(ctx.tx).deleteById(id);
  await followRecoveryAlert(ctx.tx, plan.orgId);
  return { success: true as const, plan };
}

/** When the schedule starts the next rehearsal. */
export const nextRehearsal = (
  { rehearsalSchedule, status }: { rehearsalSchedule: BackupSchedule | null; status: RecoveryPlan['status'] },
  after = clock.date(),
): Date | null =>
  rehearsalSchedule === null || status === 'archived'
    ? null
    : scheduleTimes.nextSlot(rehearsalSchedule, rehearsalSchedule.timezone ?? 'UTC', after);

/** The groups of a plan in the order in which they are executed. */
export const groupsOf = (
  tx: Context['tx'],
  { id, orgId }: Pick<RecoveryPlan, 'id' | 'orgId'>,
): Promise<RecoveryGroup[]> =>
  Promise.resolve(
    RecoveryGroup.query(tx).where({ plan_id: id, org_id: orgId }).orderBy(['sequence', 'created_at', 'id']),
  );

async function toPlanResponse(ctx: Pick<Context, 'tx'>, plan: RecoveryPlan) {
  const [one] = await withFacts(ctx, [plan]);
  if (one === undefined) throw new Error('one plan is shown as one');
  const marks = await failedOverSources(ctx.tx, plan);
  return Object.assign(one, {
    groups: await toGroupResponses(ctx.tx, plan.orgId, await groupsOf(ctx.tx, plan)),
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

const RECOVERY_FAILED = 'recovery_failed';

/**
 * Makes the alert of an organization follow its plans: it stands while the last execution of some plan has failed. An
 * aborted execution says nothing, so the one before it counts.
 * @param hasFailed  whether an execution has just failed; otherwise the alert can only end
 */
export async function followRecoveryAlert(
  tx: Tx,
  orgId: string,
  { hasFailed = false }: { hasFailed?: boolean } = {},
): Promise<void> {
  const failed = await failedPlans(tx, orgId);
  const [newest] = failed;
  if (newest === undefined) {
    await resolveAlert(tx, { orgId, kind: RECOVERY_FAILED, why: 'The plan was executed successfully.' });
    return;
  }
  if (!hasFailed) return;
  await raiseAlert(tx, {
    orgId,
    kind: RECOVERY_FAILED,
    severity: newest.executionType === 'rehearsal' ? 'high' : 'critical',
    title: `Recovery plan ${newest.name}: the ${newest.executionType} has failed`,
    message: failed.map(({ name, reason }) => `${name}: ${reason ?? 'it has failed.'}`).join('\n'),
    details: { planIds: failed.map(({ id }) => id), executionId: newest.executionId },
  });
}

interface WithChecks {
  devices: readonly Pick<RecoveryDevice, 'checks'>[];
  /** Undefined: for an execution that began before versions were stored. */
  scripts: readonly PinnedScript[] | undefined;
}

export const scriptIdsOf = (devices: WithChecks['devices']): string[] => [
  ...new Set(
    devices.flatMap(({ checks }) =>
      checks.flatMap((check) => (check.type === 'script' ? [check.scriptId] : [])),
    ),
  ),
];

/** The scripts of each group; those without a version get the newest one. */
export async function completePins(
  tx: Tx,
  plan: PlanKey,
  groups: readonly WithChecks[],
): Promise<PinnedScript[][]> {
  const missing = groups.flatMap(({ devices, scripts = [] }) => without(scriptIdsOf(devices), scripts));
  const pinned = await pinScripts(tx, plan, [...new Set(missing)]);
  return groups.map(({ devices, scripts = [] }) => {
    const wanted = new Set(without(scriptIdsOf(devices), scripts));
    return [...scripts, ...pinned.filter(({ scriptId }) => wanted.has(scriptId))];
  });
}

const without = (ids: readonly string[], scripts: readonly PinnedScript[]): string[] =>
  ids.filter((id) => !scripts.some(({ scriptId }) => scriptId === id));

type Runnable = Pick<CommandPayload<'script.run'>, 'language' | 'content' | 'timeoutSeconds'>;

const RUNNABLE = ['language', 'content', 'timeout_seconds as timeoutSeconds'] as const;

/** The script of a check. Undefined: it has no version, and the script no longer exists. */
export async function scriptToRun(
  tx: Tx,
  { planId, orgId }: { planId: string | null; orgId: string },
  { scriptId, sha256 }: { scriptId: string; sha256: string | null },
): Promise<Runnable | undefined> {
  if (sha256 !== null) {
    return tx('dr_pinned_scripts')
      .where({ org_id: orgId, plan_id: planId, sha256 })
      .first<Runnable | undefined>(...RUNNABLE);
  }
  // The execution began on a server that stored no versions.
  return tx.from(scriptVersions(tx, [scriptId], orgId).as('s')).first<Runnable | undefined>(...RUNNABLE);
}

/** Groups with the metadata of their scripts, never the content, which requires `scripts:read`. */
export async function toGroupResponses(tx: Tx, orgId: string, groups: readonly RecoveryGroup[]) {
  const ids = [...new Set(groups.flatMap(({ devices }) => scriptIdsOf(devices)))];
  const rows =
    ids.length === 0
      ? []
      : await tx
          .from(scriptVersions(tx, ids, orgId).as('s'))
          .select<{ id: string; name: string; sha256: string }[]>('id', 'name', 'sha256');
  const current = new Map(rows.map((row) => [row.id, row]));
  return groups.map(({ scripts, ...group }) => ({
    ...group,
    scripts: scriptIdsOf(group.devices).map((scriptId) => {
      const pinned = scripts.find((one) => one.scriptId === scriptId);
      const now = current.get(scriptId);
      return {
        scriptId,
        scriptName: pinned?.name ?? now?.name ?? null,
        scriptSha256: pinned?.sha256 ?? null,
        scriptHasChanged: pinned === undefined || now === undefined ? null : pinned.sha256 !== now.sha256,
      };
    }),
  }));
}
