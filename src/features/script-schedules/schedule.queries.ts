import { raw } from 'objection';
import type { Context } from '../../platform/context.ts';
import { nameOrder } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { type Owner, whereOwnerAccessible } from '../owners/index.ts';
import { SCRIPT_FINGERPRINT } from '../scripts/index.ts';
import { ScriptSchedule } from './schedule.model.ts';
import type { ScriptScheduleQuery } from './schedule.schema.ts';

type Reader = Pick<Context, 'tx' | 'caller'>;

export const accessibleSchedules = (ctx: Reader) =>
  whereOwnerAccessible(ScriptSchedule.query(ctx.tx), ctx, 'script_schedules');

/** With the names that answers show. The row policies hide those of what the caller may not see. */
export const shownSchedules = (ctx: Reader) =>
  accessibleSchedules(ctx)
    .withGraphFetched('secrets')
    // Never their values.
    .modifyGraph(
      'secrets',
      (secrets) =>
        void secrets
          .select('partner_id', 'schedule_id', 'name', 'set_by', 'set_at')
          .orderByRaw(`${nameOrder('name')}, name`),
    )
    .select(
      'script_schedules.*',
      raw(`case when secrets_for is not null then (
      select ${SCRIPT_FINGERPRINT} from scripts where scripts.id = script_schedules.script_id) end as script_fingerprint`),
      raw('(select s.name from scripts s where s.id = script_schedules.script_id) as script_name'),
      raw('(select u.name from users u where u.id = script_schedules.runs_as) as runs_as_name'),
    );

export const schedulesFound = (ctx: Reader, { orgId, scriptId }: ScriptScheduleQuery) => {
  const schedules = shownSchedules(ctx).orderByRaw(
    `${nameOrder('script_schedules.name')}, script_schedules.id`,
  );
  if (scriptId !== undefined) void schedules.where('script_schedules.script_id', scriptId);
  if (orgId !== undefined) {
    void schedules.whereRaw(
      `(script_schedules.org_id = :orgId or script_schedules.org_id is null
        and script_schedules.partner_id = (select o.partner_id from organizations o where o.id = :orgId))`,
      { orgId },
    );
  }
  return schedules;
};

export const countSchedules = (tx: Tx, { partnerId, orgId }: Owner): Promise<number> =>
  ScriptSchedule.query(tx).where({ partner_id: partnerId, org_id: orgId }).resultSize();

/** Those that are due, the longest overdue first. */
export async function dueSchedules(tx: Tx, now: Date, atMost: number): Promise<string[]> {
  const due = await ScriptSchedule.query(tx)
    .where('next_at', '<=', now)
    .orderBy(['next_at', 'id'])
    .limit(atMost)
    .select('id');
  return due.map(({ id }) => id);
}

/** One that is still due, locked; undefined if another server has it. */
export const takeDueSchedule = (tx: Tx, id: string, now: Date) =>
  ScriptSchedule.query(tx).findById(id).where('next_at', '<=', now).forUpdate().skipLocked();
