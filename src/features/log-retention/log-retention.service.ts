import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { notFound } from '../../platform/errors.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { COLUMNS } from './kept-logs.ts';
import {
  DEFAULT_ALERT_DAYS,
  DEFAULT_COMMAND_DAYS,
  DEFAULT_DIAGNOSTIC_DAYS,
  DEFAULT_EVENT_DAYS,
  type LogRetention,
  type LogRetentionChange,
} from './log-retention.schema.ts';

type NamedRetention = LogRetention & { name: string };

export async function readLogRetention(ctx: Context, orgId: string): Promise<NamedRetention> {
  const { rows } = await ctx.tx.raw<{ rows: NamedRetention[] }>(
    `select o.name, coalesce(r.diagnostic_days, ${DEFAULT_DIAGNOSTIC_DAYS}) as "diagnosticDays",
      coalesce(r.event_days, ${DEFAULT_EVENT_DAYS}) as "eventDays",
      coalesce(r.command_days, ${DEFAULT_COMMAND_DAYS}) as "commandDays",
      coalesce(r.alert_days, ${DEFAULT_ALERT_DAYS}) as "alertDays"
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
  change: LogRetentionChange,
): Promise<NamedRetention> {
  const { name, ...before } = await readLogRetention(ctx, orgId);
  const sent = omitUndefined(change);
  const after: LogRetention = { ...before, ...sent };
  const columnOf = (field: keyof LogRetention) => COLUMNS[field];
  const fields = Object.keys(COLUMNS) as (keyof LogRetention)[];
  await ctx
    .tx('log_retention')
    .insert({
      org_id: orgId,
      updated_at: new Date(),
      ...Object.fromEntries(fields.map((field) => [columnOf(field), after[field]])),
    })
    .onConflict('org_id')
    // What was not sent stays, be it that somebody else changes it at this moment.
    .merge([...fields.filter((field) => field in sent).map(columnOf), 'updated_at']);
  ctx.recordChange(before, after);
  return { name, ...after };
}
