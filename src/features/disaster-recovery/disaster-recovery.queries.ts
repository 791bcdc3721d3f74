import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { nameOrder, inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { WorkSource } from '../backup/index.ts';
import { isManageableSql } from '../organizations/index.ts';
import { scriptVersions } from '../scripts/index.ts';
import {
  RecoveryAction,
  RecoveryExecution,
  RecoveryStep,
  type ExecutedGroup,
  RecoveryPlan,
  type PinnedScript,
} from './disaster-recovery.model.ts';
import type { ExecutionType, ExecutionStatus, RecoveryDevice } from './plan.schema.ts';

/** Derived fields of plans. */

interface LastExecution {
  id: string;
  executionType: ExecutionType;
  status: ExecutionStatus;
  createdAt: Date;
  finishedAt: Date | null;
}

/** The result of the newest rehearsal that has ended. */
interface LastRehearsal {
  id: string;
  status: ExecutionStatus;
  finishedAt: Date;
  rtoSeconds: number | null;
  rpoSeconds: number | null;
  rtoMet: boolean | null;
  rpoMet: boolean | null;
}

interface Facts {
  groupCount: number;
  deviceCount: number;
  failedOverDevices: number;
  lastExecution: LastExecution | null;
  lastRehearsal: LastRehearsal | null;
}

const NOTHING: Facts = {
  groupCount: 0,
  deviceCount: 0,
  failedOverDevices: 0,
  lastExecution: null,
  lastRehearsal: null,
};

/** The facts of plans that the caller may see. */
export async function planFacts(tx: Tx, ids: readonly string[]): Promise<(id: string) => Facts> {
  const { rows } = await tx.raw<{
    rows: (Facts & LastExecution & { planId: string; executionId: string | null })[];
  }>(
    `select p.id as "planId", coalesce(g.groups, 0)::int as "groupCount", coalesce(g.devices, 0)::int as "deviceCount",
      coalesce(m.marks, 0)::int as "failedOverDevices", e.id as "executionId", e.execution_type as "executionType",
      e.status, e.created_at as "createdAt", e.finished_at as "finishedAt", r.rehearsal as "lastRehearsal"
    from dr_plans p
    left join lateral (
      select count(*) as groups, sum(jsonb_array_length(g.devices)) as devices from dr_groups g
      where g.org_id = p.org_id and g.plan_id = p.id) g on true
    left join lateral (
      select count(*) as marks from dr_executions x join dr_steps s on s.org_id = x.org_id and s.execution_id = x.id
      where x.org_id = p.org_id and x.plan_id = p.id
        and s.failed_over_at is not null and s.failed_back_at is null) m on true
    left join lateral (
      select x.* from dr_executions x where x.org_id = p.org_id and x.plan_id = p.id
      order by x.created_at desc, x.id desc limit 1) e on true
    left join lateral (
      select jsonb_build_object('id', x.id, 'status', x.status, 'finishedAt', x.finished_at,
        'rtoSeconds', x.report -> 'rtoSeconds', 'rpoSeconds', x.report -> 'rpoSeconds',
        'rtoMet', x.report -> 'rtoMet', 'rpoMet', x.report -> 'rpoMet') as rehearsal
      from dr_executions x where x.org_id = p.org_id and x.plan_id = p.id
        and x.execution_type = 'rehearsal' and x.finished_at is not null
      order by x.created_at desc, x.id desc limit 1) r on true
    where p.id = any(?::uuid[])`,
    [[...ids]],
  );
  const facts = new Map(
    rows.map(({ planId, executionId, groupCount, deviceCount, failedOverDevices, ...execution }) => {
      const { lastRehearsal: rehearsal } = execution;
      const lastRehearsal =
        rehearsal === null ? null : { ...rehearsal, finishedAt: new Date(rehearsal.finishedAt) };
      const { executionType, status, createdAt, finishedAt } = execution;
      const lastExecution =
        executionId === null ? null : { id: executionId, executionType, status, createdAt, finishedAt };
      return [planId, { groupCount, deviceCount, failedOverDevices, lastExecution, lastRehearsal }];
    }),
  );
  return (id) => facts.get(id) ?? NOTHING;
}

/** A source that is replaced by its target until a failback. */
export interface FailedOverSource {
  /** The step that has restored it. */
  id: string;
  executionId: string;
  groupId: string;
  deviceId: string;
  deviceName: string;
  targetDeviceId: string;
  targetDeviceName: string;
  definition: RecoveryDevice;
  places: { source: string; target: string }[];
  failedOverAt: Date;
  /** The state when the source failed over. */
  group: ExecutedGroup | null;
  /** The backup configuration of the restored data. */
  configId: string | null;
  /** For a machine: the one that runs in its place. */
  vmRestoreId: string | null;
}

export async function failedOverSources(
  tx: Tx,
  { id, orgId }: Pick<RecoveryPlan, 'id' | 'orgId'>,
): Promise<FailedOverSource[]> {
  const { rows } = await tx.raw<{ rows: FailedOverSource[] }>(
    `select s.id, s.execution_id as "executionId", s.group_id as "groupId", s.device_id as "deviceId",
      s.device_name as "deviceName", s.target_device_id as "targetDeviceId",
      s.target_device_name as "targetDeviceName", s.definition, s.places, s.config_id as "configId",
      s.failed_over_at as "failedOverAt",
      (select a.vm_restore_id from dr_actions a where a.org_id = s.org_id and a.step_id = s.id
        and a.vm_restore_id is not null order by a.position limit 1) as "vmRestoreId",
      (select g from jsonb_array_elements(x.groups) g where g ->> 'id' = s.group_id::text limit 1) as "group"
    from dr_executions x join dr_steps s on s.org_id = x.org_id and s.execution_id = x.id
    where x.org_id = ? and x.plan_id = ? and s.failed_over_at is not null and s.failed_back_at is null
    order by s.failed_over_at, s.id`,
    [orgId, id],
  );
  return rows;
}

export async function openExecutionOf(
  tx: Tx,
  { id, orgId }: Pick<RecoveryPlan, 'id' | 'orgId'>,
): Promise<string | undefined> {
  const open = await tx('dr_executions')
    .where({ org_id: orgId, plan_id: id })
    .whereNull('finished_at')
    .first<{ id: string } | undefined>('id');
  return open?.id;
}

/** The state of an execution's work, as recorded by other features and the devices. */

export interface DeviceNow {
  id: string;
  orgId: string;
  name: string;
  osType: 'windows' | 'macos' | 'linux';
  capabilities: string[];
  hasConnected: boolean;
  /** Since when it is disconnected; null while it is connected. */
  awaySince: Date | null;
}

export async function devicesNow(
  tx: Tx,
  orgId: string,
  ids: readonly string[],
): Promise<Map<string, DeviceNow>> {
  const { rows } = await tx.raw<{ rows: DeviceNow[] }>(
    `select d.id, d.org_id as "orgId", coalesce(nullif(d.display_name, ''), d.hostname) as name,
      d.os_type as "osType", d.capabilities, coalesce(p.epoch > 0, false) as "hasConnected",
      case when p.state = 'connected' then null else coalesce(p.since, d.created_at) end as "awaySince"
    from devices d left join device_presence p on p.device_id = d.id and p.org_id = d.org_id
    where d.org_id = ? and d.id = any(?::uuid[]) and d.condition not in ('pending', 'decommissioned')`,
    [orgId, [...ids]],
  );
  return new Map(rows.map((row) => [row.id, row]));
}

export async function devicesOf(tx: Tx, orgId: string, entries: readonly RecoveryDevice[]) {
  const ids = entries.flatMap(({ deviceId, targetDeviceId }) =>
    targetDeviceId === undefined ? [deviceId] : [deviceId, targetDeviceId],
  );
  const rows = await tx('devices')
    .where('org_id', orgId)
    .whereIn('id', ids)
    .select<{ id: string; name: string; osType: 'windows' | 'macos' | 'linux' }[]>(
      'id',
      tx.raw(`coalesce(nullif(display_name, ''), hostname) as name`),
      'os_type as osType',
    );
  return new Map(rows.map((row) => [row.id, row]));
}

/**
 * Scripts of checks, as they were when they were chosen. A plan stores each version once, by its SHA-256, because many
 * checks can run the same script. Contents leave the database only when a device runs them.
 */

export type PlanKey = Pick<RecoveryPlan, 'id' | 'orgId'>;

/**
 * Stores the current versions of scripts. Scripts that do not exist, or do not run in the organization, are left out.
 */
export async function pinScripts(
  tx: Tx,
  { id, orgId }: PlanKey,
  scriptIds: readonly string[],
): Promise<PinnedScript[]> {
  if (scriptIds.length === 0) return [];
  // One statement, so that the recorded version is the one that is stored.
  return tx
    .with('versions', scriptVersions(tx, scriptIds, orgId))
    .with(
      'kept',
      tx.raw(
        `insert into dr_pinned_scripts (org_id, plan_id, sha256, language, content, timeout_seconds)
        select distinct on (sha256) ?::uuid, ?::uuid, sha256, language, content, timeout_seconds from versions
        on conflict do nothing`,
        [orgId, id],
      ),
    )
    .from('versions')
    .select('id as scriptId', 'name', 'sha256');
}

/** Removes versions that neither a group nor an active failover refers to. An open execution may need any of them. */
export async function removeUnusedPins(tx: Tx, { id, orgId }: PlanKey): Promise<void> {
  await tx.raw(
    `delete from dr_pinned_scripts p where p.org_id = :orgId and p.plan_id = :id
      and not exists (select from dr_executions x
        where x.org_id = p.org_id and x.plan_id = p.plan_id and x.finished_at is null)
      and not exists (select from dr_groups g cross join jsonb_array_elements(g.scripts) s
        where g.org_id = p.org_id and g.plan_id = p.plan_id and s ->> 'sha256' = p.sha256)
      and not exists (select from dr_executions x
        cross join jsonb_array_elements(x.groups) g cross join jsonb_array_elements(g -> 'scripts') s
        where x.org_id = p.org_id and x.plan_id = p.plan_id and s ->> 'sha256' = p.sha256
          and exists (select from dr_steps t where t.org_id = x.org_id and t.execution_id = x.id
            and t.failed_over_at is not null and t.failed_back_at is null))`,
    { id, orgId },
  );
}

/** The recovery plans that the caller may see. */
export const accessiblePlans = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  RecoveryPlan.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'dr_plans.org_id'));

export const accessiblePlansByName = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  accessiblePlans(ctx).orderByRaw(`${nameOrder('name')}, id`);

/** The executions that the caller may see. */
export const accessibleExecutions = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  RecoveryExecution.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'dr_executions.org_id'));

interface FailedPlan {
  id: string;
  name: string;
  executionId: string;
  executionType: string;
  reason: string | null;
}

/** The plans of an organization whose last execution failed, the latest one first. An aborted execution does not count. */
export async function failedPlans(tx: Tx, orgId: string): Promise<FailedPlan[]> {
  const { rows } = await tx.raw<{ rows: FailedPlan[] }>(
    `select p.id, p.name, e.id as "executionId", e.execution_type as "executionType", e.halt_reason as reason
    from dr_plans p cross join lateral (
      select x.* from dr_executions x
      where x.org_id = p.org_id and x.plan_id = p.id and x.status in ('completed', 'failed')
      order by x.created_at desc, x.id desc limit 1) e
    where p.org_id = ? and p.status <> 'archived' and e.status = 'failed' order by e.finished_at desc`,
    [orgId],
  );
  return rows;
}

/** The plans of active organizations whose scheduled rehearsal is due. */
export const plansWithDueRehearsal = (tx: Tx, limit: number): PromiseLike<RecoveryPlan[]> =>
  RecoveryPlan.query(tx)
    .where('next_rehearsal_at', '<=', clock.date())
    .whereRaw(`org_id in (select o.id from organizations o where ${isManageableSql('o')})`)
    .orderBy('next_rehearsal_at')
    .limit(limit)
    .select('id');

/** An execution that no server has advanced for this long has lost its leader. */
const LEADERLESS = `interval '90 seconds'`;

export const leaderlessExecutions = (tx: Tx): PromiseLike<RecoveryExecution[]> =>
  RecoveryExecution.query(tx)
    .whereNull('finished_at')
    .whereRaw(`led_at < now() - ${LEADERLESS}`)
    .orderBy('led_at')
    .limit(100)
    .select('id', 'org_id', 'led_at');

const LEFTOVERS_AT_ONCE = 200;
/** After this time the device, or the leftovers of the execution on it, are considered permanently lost. */
const FOLLOWED_FOR = `interval '30 days'`;
/** The delay before a failed cleanup is retried. */
const AGAIN_AFTER = `interval '10 minutes'`;

/** The ended executions with remaining cleanup work. */
export async function executionsWithLeftovers(tx: Tx): Promise<{ id: string }[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select distinct e.id from dr_actions a
    join dr_steps s on s.org_id = a.org_id and s.id = a.step_id
    join dr_executions e on e.org_id = s.org_id and e.id = s.execution_id
    where a.phase = 'cleanup' and a.state in ('running', 'failed')
      and e.finished_at > now() - ${FOLLOWED_FOR} limit ${LEFTOVERS_AT_ONCE}`,
  );
  return rows;
}

/** The actions of an execution, with whether a failed one is due for a retry. */
export const actionsToFollow = (
  tx: Tx,
  { id, orgId }: Pick<RecoveryExecution, 'id' | 'orgId'>,
): PromiseLike<(RecoveryAction & { isDue: boolean })[]> =>
  RecoveryAction.query(tx)
    .where('org_id', orgId)
    .whereIn('step_id', RecoveryStep.query(tx).where('execution_id', id).select('id'))
    .select('*', tx.raw(`coalesce(finished_at < now() - ${AGAIN_AFTER}, false) as is_due`))
    .castTo<(RecoveryAction & { isDue: boolean })[]>();

/** Executions on dashboards. They count devices. */
export const RECOVERY_WORK: WorkSource = {
  kind: 'dr',
  permission: 'recovery:read',
  rows: `select w.id, w.org_id, null::uuid as device_id, null::uuid as command_id,
      case w.status when 'aborted' then 'cancelled' else w.status end as state, w.phase,
      case when w.steps_total > 0 then trunc(100.0 * w.steps_done / w.steps_total, 1)::real end as percent,
      w.steps_done::bigint as done, w.steps_total::bigint as total, null::bigint as rate,
      null::bigint as eta_seconds, null::bigint as files_done, null::bigint as files_total, null as path,
      w.halt_reason as message, null::timestamptz as stalled_since, w.created_at, w.updated_at, w.finished_at
    from dr_executions w`,
};
