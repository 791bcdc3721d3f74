import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { noFields, notFound } from '../../platform/errors.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import {
  type AlertSettings,
  type AlertSettingsPatch,
  DEFAULT_DISK_PERCENT,
  DEFAULT_OFFLINE_AFTER_MINUTES,
} from './alert-settings.schema.ts';

const COLUMNS = { offlineAfterMinutes: 'offline_after_minutes', diskPercent: 'disk_percent' } as const;

type NamedSettings = AlertSettings & { name: string };

/** SQL: the thresholds of organization `o` with its settings `s`, if it has any. Null means disabled. */
export const OFFLINE_AFTER_SQL = `case when s.org_id is null then ${DEFAULT_OFFLINE_AFTER_MINUTES} else s.offline_after_minutes end`;
export const DISK_PERCENT_SQL = `case when s.org_id is null then ${DEFAULT_DISK_PERCENT} else s.disk_percent end`;

export async function readAlertSettings(ctx: Context, orgId: string): Promise<NamedSettings> {
  const { rows } = await ctx.tx.raw<{ rows: NamedSettings[] }>(
    `select o.name, ${OFFLINE_AFTER_SQL} as "offlineAfterMinutes", ${DISK_PERCENT_SQL} as "diskPercent"
    from organizations o left join alert_settings s on s.org_id = o.id
    where o.id = ? and o.deleted_at is null and ${inTenant(ctx.caller, 'o.id')}`,
    [orgId],
  );
  const [settings] = rows;
  if (settings === undefined) throw notFound('Organization');
  return settings;
}

/** Takes effect with the next full round, some minutes later. */
export async function changeAlertSettings(ctx: Context, orgId: string, patch: AlertSettingsPatch) {
  const { name, ...before } = await readAlertSettings(ctx, orgId);
  const changes = omitUndefined(patch);
  if (Object.keys(changes).length === 0) throw noFields();
  const after: AlertSettings = { ...before, ...changes };
  const columns = { offline_after_minutes: after.offlineAfterMinutes, disk_percent: after.diskPercent };
  // Fields that were not sent are not written, so that a concurrent change of them is kept.
  const sent = (['offlineAfterMinutes', 'diskPercent'] as const).flatMap((field) =>
    changes[field] === undefined ? [] : [COLUMNS[field]],
  );
  await ctx
    .tx('alert_settings')
    .insert({ org_id: orgId, ...columns, updated_at: clock.date() })
    .onConflict('org_id')
    .merge([...sent, 'updated_at']);
  ctx.recordChange(before, after);
  return { ...after, name };
}
