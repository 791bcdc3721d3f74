import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { notFound } from '../../platform/errors.ts';
import { DEFAULT_DIAGNOSTIC_DAYS, DEFAULT_EVENT_DAYS, type LogRetention } from './log-retention.schema.ts';

type NamedRetention = LogRetention & { name: string };

export async function readLogRetention(ctx: Context, orgId: string): Promise<NamedRetention> {
  const { rows } = await ctx.tx.raw<{ rows: NamedRetention[] }>(
    `select o.name, coalesce(r.diagnostic_days, ${DEFAULT_DIAGNOSTIC_DAYS}) as "diagnosticDays",
      coalesce(r.event_days, ${DEFAULT_EVENT_DAYS}) as "eventDays"
    from organizations o left join log_retention r on r.org_id = o.id
    where o.id = ? and o.deleted_at is null and ${inTenant(ctx.caller, 'o.id')}`,
    [orgId],
  );
  const [retention] = rows;
  if (retention === undefined) throw notFound('Organization');
  return retention;
}

/** What is older by the new rule is removed by the next daily round, and not at once: a slip can be taken back. */
export async function changeLogRetention(
  ctx: Context,
  orgId: string,
  { diagnosticDays, eventDays }: LogRetention,
): Promise<NamedRetention & { before: LogRetention }> {
  const { name, ...before } = await readLogRetention(ctx, orgId);
  await ctx.tx.raw(
    `insert into log_retention (org_id, diagnostic_days, event_days) values (?, ?, ?)
    on conflict (org_id) do update set diagnostic_days = excluded.diagnostic_days, event_days = excluded.event_days,
      updated_at = now()`,
    [orgId, diagnosticDays, eventDays],
  );
  return { name, diagnosticDays, eventDays, before };
}
