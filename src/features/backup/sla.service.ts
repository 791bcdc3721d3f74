import type { Context } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { inTenant, nameOrder } from '../../platform/db/statement.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { positionsOutsideOrganization } from '../devices/index.ts';
import { groupsOutsideOrganization } from '../groups/index.ts';
import { assertManageable, assertOrganizationAccess, lockOrganization } from '../organizations/index.ts';
import { SlaConfig, SlaEvent } from './protection.model.ts';
import type { NewSlaConfig, SlaConfigPatch, SlaConfigQuery, SlaEventQuery } from './sla.schema.ts';

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
  const { orgId } = input;
  await assertOrganizationAccess(ctx, orgId);
  await assertManageable(ctx, orgId);
  // Serialized by a lock on the organization, so that the limit holds.
  await lockOrganization(ctx.tx, orgId);
  const present = await SlaConfig.query(ctx.tx).where('org_id', orgId).resultSize();
  if (present >= MAX_CONFIGS) throw new AppError('limit_reached', `SLA limit reached (${MAX_CONFIGS}).`);
  await assertTargets(ctx, orgId, input);
  return named(
    SlaConfig.query(ctx.tx).insertAndFetch({ ...omitUndefined(input), createdBy: ctx.caller.userId }),
  );
}

export async function updateSlaConfig(ctx: Context, id: string, patch: SlaConfigPatch) {
  const config = await readToChange(ctx, id);
  const changes = omitUndefined(patch);
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  await assertTargets(ctx, config.orgId, patch);
  return Object.assign(await named(patchRecorded(ctx, config, changes)), { changedFields });
}

/** With the breaches that it found. */
export async function deleteSlaConfig(ctx: Context, id: string) {
  const config = await readToChange(ctx, id);
  await config.$query(ctx.tx).delete();
  return { success: true as const, config };
}

async function readToChange(ctx: Context, id: string): Promise<SlaConfig> {
  const config = await SlaConfig.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_sla_configs.org_id'))
    .findById(id);
  if (config === undefined) throw notFound('SLA');
  await assertManageable(ctx, config.orgId);
  return config;
}

async function assertTargets(
  ctx: Context,
  orgId: string,
  { targetDevices = [], targetGroups = [] }: SlaConfigPatch,
): Promise<void> {
  const [device] = await positionsOutsideOrganization(ctx, orgId, targetDevices);
  if (device !== undefined) {
    throw invalid(`body.targetDevices.${device}`, 'must be a device of the organization');
  }
  const [group] = await groupsOutsideOrganization(ctx.tx, orgId, targetGroups);
  if (group !== undefined) throw invalid(`body.targetGroups.${group}`, 'must be a group of the organization');
}

const named = <T>(write: PromiseLike<T>): Promise<T> =>
  namingConflict(
    write,
    'backup_sla_configs_name',
    'body.name',
    'Another SLA of this organization has this name.',
  );

export async function listSlaEvents(ctx: Context, { page, limit, ...filter }: SlaEventQuery) {
  const { orgId, configId, deviceId, eventType, from, to } = filter;
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const events = SlaEvent.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_sla_events.org_id'))
    .where(
      omitUndefined({
        org_id: orgId,
        sla_config_id: configId,
        device_id: deviceId,
        event_type: eventType,
      }),
    )
    .orderBy([
      { column: 'detected_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(page - 1, limit);
  if (from !== undefined) void events.where('detected_at', '>=', from);
  if (to !== undefined) void events.where('detected_at', '<=', to);
  return toPage({ page, limit }, await events);
}
