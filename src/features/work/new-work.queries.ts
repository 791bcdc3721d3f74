import type { Tx } from '../../platform/db/transaction.ts';
import type { WorkKind } from './definition.ts';

/** How work is added to the queue. */

export interface NewWork {
  id: string;
  kind: string;
  partnerId: string | null;
  orgId: string | null;
  deviceId: string | null;
  input: string;
  step: string;
  createdBy: string | null;
  delaySeconds: number;
  deadlineSeconds: number;
  keptDays: number;
  /** It begins with a device: while that is not connected, no server needs to look at it. */
  waitsForDevice: boolean;
  isUrgent: boolean;
  target: string | null;
  targetLimit: number | null;
  exclusiveKey: string | null;
  needs: readonly { id: string; mustSucceed: boolean }[];
}

/** @returns whether it was added: `false` where work of its kind with the same exclusive key is open */
export async function insertWork(tx: Tx, { needs, ...work }: NewWork): Promise<boolean> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(INSERT, work as never);
  if (rowCount === 0) return false;
  if (needs.length > 0) {
    await tx.raw(NEED, {
      id: work.id,
      ids: needs.map(({ id }) => id),
      musts: needs.map(({ mustSucceed }) => mustSucceed),
    });
  }
  return true;
}

/** The partner is that of the organization, so that callers need not know it. */
const INSERT = `insert into work (id, kind, partner_id, org_id, device_id, input, step, stage, created_by, due_at, deadline_at,
    kept_days, is_urgent, target, target_limit, exclusive_key)
  values (:id, :kind, coalesce((select o.partner_id from organizations o where o.id = :orgId::uuid), :partnerId::uuid),
    :orgId, :deviceId, :input::jsonb, :step,
    case when :waitsForDevice and not exists (
      select from device_presence where device_id = :deviceId::uuid and state = 'connected') then 'parked' else 'ready' end,
    :createdBy, now() + make_interval(secs => :delaySeconds),
    now() + make_interval(secs => :deadlineSeconds), :keptDays, :isUrgent, :target, :targetLimit, :exclusiveKey)
  on conflict (kind, exclusive_key) where finished_at is null do nothing`;

/**
 * SQL that adds work for each row of the relation `wanted`, which has the columns `id`, `org_id`, `device_id`, `target`,
 * `target_limit`, `exclusive_key`, `created_by`, `is_urgent`, `due_at` and `deadline_at`, and returns the ids of what was added:
 * not of rows with whose key work is open. They are added in the order of their keys: two transactions that add work with
 * the same keys wait for each other, and in different orders both would wait for ever. Work of a device that is not
 * connected waits for it at once. Its input is `{}`. The bindings are `bindingsOfMany`.
 */
export const INSERT_MANY = `insert into work (id, kind, partner_id, org_id, device_id, input, step, stage, due_at, deadline_at,
    kept_days, created_by, is_urgent, target, target_limit, exclusive_key)
  select n.id, :workKind, o.partner_id, n.org_id, n.device_id, '{}', :workStep,
    case when n.device_id is null or p.state = 'connected' then 'ready' else 'parked' end, n.due_at, n.deadline_at,
    :workKeptDays::smallint, n.created_by, n.is_urgent, n.target, n.target_limit::smallint, n.exclusive_key
  from wanted n join organizations o on o.id = n.org_id
  left join device_presence p on p.org_id = n.org_id and p.device_id = n.device_id
  order by n.exclusive_key
  on conflict (kind, exclusive_key) where finished_at is null do nothing
  returning id`;

export const bindingsOfMany = ({ kind, steps, keptDays }: Pick<WorkKind, 'kind' | 'steps' | 'keptDays'>) => ({
  workKind: kind,
  workStep: steps[0],
  workKeptDays: keptDays,
});

/** Work without input: of the server itself, or of a device. */
export interface PlainWork {
  id: string;
  orgId: string;
  deviceId?: string;
  target: string | null;
  targetLimit?: number;
  exclusiveKey?: string;
  createdBy?: string | null;
  isUrgent: boolean;
}

/**
 * Adds many pieces of work in one statement, which are due now.
 * @returns the ids of those that were added: with the exclusive key of the others, work is open
 */
export async function insertPlainWork(
  tx: Tx,
  kind: Pick<WorkKind, 'kind' | 'steps' | 'keptDays' | 'deadlineMs'>,
  pieces: readonly PlainWork[],
): Promise<Set<string>> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `with wanted as (
      select w.id, w."orgId" as org_id, w."deviceId" as device_id, w.target, w."targetLimit" as target_limit,
        w."exclusiveKey" as exclusive_key, w."createdBy" as created_by, w."isUrgent" as is_urgent, now() as due_at,
        now() + make_interval(secs => :deadlineSeconds) as deadline_at
      from jsonb_to_recordset(:pieces::jsonb) as w (id uuid, "orgId" uuid, "deviceId" uuid, target text,
        "targetLimit" smallint, "exclusiveKey" text, "createdBy" uuid, "isUrgent" boolean)
    ) ${INSERT_MANY}`,
    { ...bindingsOfMany(kind), deadlineSeconds: kind.deadlineMs / 1000, pieces: JSON.stringify(pieces) },
  );
  return new Set(rows.map(({ id }) => id));
}

/** The open work of a kind with this exclusive key. */
export async function findOpenWork(
  tx: Tx,
  { kind }: Pick<WorkKind, 'kind'>,
  exclusiveKey: string,
): Promise<string | undefined> {
  const row = await tx('work')
    .where({ kind, exclusive_key: exclusiveKey, finished_at: null })
    .first<{ id: string } | undefined>('id');
  return row?.id;
}

/** The work that is needed is locked, so that its end either counts here or finds the dependency (`free_dependent_work`). */
const NEED = `with needed as (
    select w.id, w.finished_at is not null as has_ended, w.status, n.must_succeed
    from unnest(:ids::uuid[], :musts::boolean[]) as n (id, must_succeed) join work w on w.id = n.id
    order by w.id for share of w
  ), noted as (
    insert into work_dependencies (work_id, needed_id, must_succeed) select :id, id, must_succeed from needed
  )
  update work w set blockers = n.open, is_broken = n.is_broken
  from (select count(*) filter (where not has_ended)::smallint as open,
      coalesce(bool_or(has_ended and must_succeed and status <> 'completed'), false) as is_broken from needed) n
  where w.id = :id`;
