import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { notFound } from '../../../platform/errors.ts';
import { actingStatusSql, assertManageable } from '../../organizations/index.ts';

/** What has to be known of a device before it is changed. */
export interface DeviceToChange {
  id: string;
  orgId: string;
  siteId: string;
  hostname: string;
  displayName: string | null;
  autoUpdate: boolean;
  condition: string;
  tags: string[];
  customFields: Record<string, unknown>;
  capabilities: string[];
  orgStatus: string;
}

/**
 * Those of the devices that the caller can see, in the order of their ids, in which they are also locked, so that no two
 * changes wait for each other. Whoever needs definitions of custom fields reads those before, and caps behind.
 */
export async function lockDevices(
  ctx: Context,
  ids: readonly string[],
  { decommissioned = false }: { decommissioned?: boolean } = {},
): Promise<DeviceToChange[]> {
  // Locked first and joined then: the organization is that of the device as it is under the lock, not as it was before.
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
    .select<DeviceToChange[]>(
      'd.id',
      'd.org_id as orgId',
      'd.site_id as siteId',
      'd.hostname',
      'd.display_name as displayName',
      'd.auto_update as autoUpdate',
      'd.condition',
      'd.tags',
      'd.custom_fields as customFields',
      'd.capabilities',
      ctx.tx.raw(`${actingStatusSql('o')} as "orgStatus"`),
    );
}

/** One of them, of an organization in which something may be changed. */
export async function lockDevice(
  ctx: Context,
  id: string,
  options?: { decommissioned?: boolean },
): Promise<DeviceToChange> {
  const [device] = await lockDevices(ctx, [id], options);
  if (device === undefined) throw notFound('Device');
  await assertManageable(ctx, device.orgId);
  return device;
}
