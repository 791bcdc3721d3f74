import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { readOrganization } from '../organizations/index.ts';
import { LogRetentionChoice } from './log-retention.model.ts';
import { COLUMNS } from './log-retention.queries.ts';
import {
  DEFAULT_ALERT_DAYS,
  DEFAULT_COMMAND_DAYS,
  DEFAULT_DIAGNOSTIC_DAYS,
  DEFAULT_EVENT_DAYS,
  DEFAULT_WHEN_FULL,
  type LogRetention,
  type LogRetentionChange,
} from './log-retention.schema.ts';

type NamedRetention = LogRetention & { name: string };

export async function readLogRetention(ctx: Context, orgId: string): Promise<NamedRetention> {
  const { name } = await readOrganization(ctx, orgId);
  return { name, ...(await logRetentionOf(ctx, orgId)) };
}

/** As `readLogRetention`, for callers who have looked the organization up. */
export async function logRetentionOf({ tx }: Pick<Context, 'tx'>, orgId: string): Promise<LogRetention> {
  const choice = await LogRetentionChoice.query(tx).findById(orgId);
  return {
    diagnosticDays: choice?.diagnosticDays ?? DEFAULT_DIAGNOSTIC_DAYS,
    eventDays: choice?.eventDays ?? DEFAULT_EVENT_DAYS,
    commandDays: choice?.commandDays ?? DEFAULT_COMMAND_DAYS,
    alertDays: choice?.alertDays ?? DEFAULT_ALERT_DAYS,
    whenFull: choice?.whenFull ?? DEFAULT_WHEN_FULL,
  };
}

/** Rows that are too old by the new rule are removed by the next daily run and not at once, so a mistake can be undone. */
export async function changeLogRetention(
  ctx: Context,
  orgId: string,
  change: LogRetentionChange,
): Promise<NamedRetention> {
  const { name, ...before } = await readLogRetention(ctx, orgId);
  const sent = omitUndefined(change);
  const after: LogRetention = { ...before, ...sent };
  // Only what was sent is merged: the rest stays even if it is being changed by another request.
  const sentColumns = Object.entries(COLUMNS).flatMap(([field, column]) => (field in sent ? [column] : []));
  await LogRetentionChoice.query(ctx.tx)
    .insert({ ...after, orgId, updatedAt: clock.date() })
    .onConflict('org_id')
    .merge([...sentColumns, 'updated_at']);
  if (sent.whenFull === 'refuse') {
    // A removal that has begun stops with the choice.
    await LogRetentionChoice.query(ctx.tx).findById(orgId).patch({ removingThrough: null });
  }
  ctx.recordChange(before, after);
  return { name, ...after };
}
