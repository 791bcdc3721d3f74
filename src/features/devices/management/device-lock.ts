import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { notFound } from '../../../platform/errors.ts';
import { actingStatusSql, assertManageableStatus } from '../../organizations/index.ts';
import type { Device } from '../device.model.ts';

/** A device under a row lock, with the status that decides whether somebody may act in its organization. */
export type LockedDevice = Pick<
  Device,
  | 'id'
  | 'orgId'
  | 'siteId'
  | 'hostname'
  | 'displayName'
  | 'autoUpdate'
  | 'condition'
  | 'maintenanceUntil'
  | 'tags'
  | 'customFields'
  | 'capabilities'
> & { orgStatus: string };

/**
 * Locks those of the devices that the caller can see, in the order of their ids, so that two changes never deadlock.
 * Definitions of custom fields are locked before the devices, and quotas after them.
 */
export async function lockDevices(
  ctx: Context,
  ids: readonly string[],
  { decommissioned = false }: { decommissioned?: boolean } = {},
): Promise<LockedDevice[]> {
  // Locked first and joined afterwards: the organization is the one that the device has under the lock.
  const locked = ctx
    .tx('devices as d')
    .whereRaw(inTenant(ctx.caller, 'd.org_id'))
    .whereRaw('d.id = any(?::uuid[])', [[...ids]])
    .orderBy('d.id')
    .forNoKeyUpdate()
    .select('d.*');
  if (!decommissioned) void locked.where('d.condition', '<>', 'decommissioned');
  return ctx
    .tx('locked as d')
    .withMaterialized('locked', locked)
    .join('organizations as o', 'o.id', 'd.org_id')
    .whereNull('o.deleted_at')
    .orderBy('d.id')
    .select<LockedDevice[]>(
      'd.id',
      'd.org_id as orgId',
      'd.site_id as siteId',
      'd.hostname',
      'd.display_name as displayName',
      'd.auto_update as autoUpdate',
      'd.condition',
      'd.maintenance_until as maintenanceUntil',
      'd.tags',
      'd.custom_fields as customFields',
      'd.capabilities',
      ctx.tx.raw(`${actingStatusSql('o')} as "orgStatus"`),
    );
}

/** Locks one device. Throws where its organization is not active. */
export async function lockDevice(
  ctx: Context,
  id: string,
  options?: { decommissioned?: boolean },
): Promise<LockedDevice> {
  const [device] = await lockDevices(ctx, [id], options);
  if (device === undefined) throw notFound('Device');
  assertManageableStatus(device.orgStatus);
  return device;
}
