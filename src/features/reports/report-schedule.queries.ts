import type { Context } from '../../platform/context.ts';
import { nameOrder } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { whereOwnerAccessible } from '../owners/index.ts';
import { ReportSchedule } from './report-schedule.model.ts';

/** The schedules that the caller may see. */
export const accessibleSchedules = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  whereOwnerAccessible(ReportSchedule.query(ctx.tx), ctx, 'report_schedules');

/** @param orgId  only those that send a report of this organization: its own, and those of its partner */
export const accessibleSchedulesByName = (ctx: Pick<Context, 'tx' | 'caller'>, orgId: string | undefined) =>
  accessibleSchedules(ctx)
    .modify((schedules) => {
      if (orgId === undefined) return;
      void schedules.whereRaw(
        `(report_schedules.org_id = :orgId or report_schedules.org_id is null
          and report_schedules.partner_id = (select o.partner_id from organizations o where o.id = :orgId))`,
        { orgId },
      );
    })
    .orderByRaw(`${nameOrder('name')}, id`);

/** Takes schedules that are due, and that no other server is at. */
export const lockDueSchedules = (tx: Tx, now: Date, atMost: number) =>
  ReportSchedule.query(tx)
    .where('due_at', '<=', now)
    .orderBy('due_at')
    .limit(atMost)
    .forUpdate()
    .skipLocked();

/** What a server has done is no change by a person, so `updated_at` stays. */
export async function storeDue(
  tx: Tx,
  id: string,
  { dueAt, lastDueAt }: { dueAt: Date; lastDueAt: Date },
): Promise<void> {
  await tx('report_schedules').where({ id }).update({ due_at: dueAt, last_due_at: lastDueAt });
}

/** @returns whether it was not paused before */
export async function storePause(tx: Tx, id: string, reason: string): Promise<boolean> {
  const changed = await tx('report_schedules')
    .where({ id })
    .whereNotNull('due_at')
    .update({ due_at: null, paused_because: reason });
  return changed > 0;
}

/** The organizations of which a schedule mails reports. */
export async function organizationsOf(
  tx: Tx,
  { partnerId, orgId }: Pick<ReportSchedule, 'partnerId' | 'orgId'>,
): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select o.id from organizations o where o.partner_id = :partnerId and o.deleted_at is null
      and o.status in ('active', 'trial') and (:orgId::uuid is null or o.id = :orgId) order by o.id`,
    { partnerId, orgId },
  );
  return rows.map(({ id }) => id);
}
