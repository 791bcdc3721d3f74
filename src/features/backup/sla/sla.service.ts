import type { Context } from '../../../platform/context.ts';
import { namingConflict } from '../../../platform/db/database-errors.ts';
import { nameOrder } from '../../../platform/db/name-order.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { positionsOutsideOrganization } from '../../devices/index.ts';
import { groupsOutsideOrganization } from '../../groups/index.ts';
import { assertManageable, assertOrganizationAccess } from '../../organizations/index.ts';
import { SlaConfig, SlaEvent } from './sla.model.ts';
import type { NewSlaConfig, SlaConfigQuery, SlaEventQuery } from './sla.schema.ts';

const MAX_CONFIGS = 100;

export async function listSlaConfigs(ctx: Context, query: SlaConfigQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const configs = SlaConfig.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_sla_configs.org_id'))
    .where(omitUndefined({ org_id: query.orgId }))
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  return toPage(query, await configs);
}

export async function createSlaConfig(ctx: Context, input: NewSlaConfig): Promise<SlaConfig> {
  const { orgId, targetDevices = [], targetGroups = [] } = input;
  await assertOrganizationAccess(ctx, orgId);
  await assertManageable(ctx, orgId);
  // Serialized by a lock on the organization, so that the limit holds.
  await ctx.tx.raw('select from organizations where id = ? for no key update', [orgId]);
  const present = await SlaConfig.query(ctx.tx).where('org_id', orgId).resultSize();
  if (present >= MAX_CONFIGS) throw new AppError('limit_reached', `SLA limit reached (${MAX_CONFIGS}).`);
  const [device] = await positionsOutsideOrganization(ctx, orgId, targetDevices);
  if (device !== undefined) {
    throw invalid(`body.targetDevices.${device}`, 'must be a device of the organization');
  }
  const [group] = await groupsOutsideOrganization(ctx.tx, orgId, targetGroups);
  if (group !== undefined) throw invalid(`body.targetGroups.${group}`, 'must be a group of the organization');
  return namingConflict(
    SlaConfig.query(ctx.tx).insertAndFetch({ ...omitUndefined(input), createdBy: ctx.caller.userId }),
    'backup_sla_configs_name',
    'body.name',
    'Another SLA of this organization has this name.',
  );
}

export async function listSlaEvents(ctx: Context, { page, limit, ...filter }: SlaEventQuery) {
  const { configId, deviceId, eventType, from, to } = filter;
  const events = SlaEvent.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_sla_events.org_id'))
    .where(omitUndefined({ sla_config_id: configId, device_id: deviceId, event_type: eventType }))
    .orderBy([
      { column: 'detected_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(page - 1, limit);
  if (from !== undefined) void events.where('detected_at', '>=', from);
  if (to !== undefined) void events.where('detected_at', '<=', to);
  return toPage({ page, limit }, await events);
}
