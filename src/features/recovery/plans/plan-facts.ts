import type { Tx } from '../../../platform/db/transaction.ts';
import type { ExecutedGroup, RecoveryPlan } from './plan.model.ts';
import type { ExecutionStatus, ExecutionType } from './plan.schema.ts';
import type { RecoveryDevice } from './target.schema.ts';

/** What is shown of plans beside what they say themselves. */

export interface LastExecution {
  id: string;
  executionType: ExecutionType;
  status: ExecutionStatus;
  createdAt: Date;
  finishedAt: Date | null;
}

/** What the newest rehearsal that has ended has reached. */
export interface LastRehearsal {
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

/** Of plans that the caller may see. */
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
export interface Mark {
  /** The step that has made it. */
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
  /** As it was when the source failed over. */
  group: ExecutedGroup | null;
  /** The backup configuration of the data that was restored. */
  configId: string | null;
  /** Of a machine: the one that runs in its place. */
  vmRestoreId: string | null;
}

export async function marksOf(tx: Tx, { id, orgId }: Pick<RecoveryPlan, 'id' | 'orgId'>): Promise<Mark[]> {
  const { rows } = await tx.raw<{ rows: Mark[] }>(
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
