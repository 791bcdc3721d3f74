import { AppError } from '../../platform/errors.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { Context } from '../../platform/context.ts';
import type { Device } from './device.model.ts';
import { inTenant, nameOrder } from '../../platform/db/statement.ts';
import { actingStatusSql, readOrganization } from '../organizations/index.ts';

interface QuotaRow {
  cap_of: 'provider' | 'organization';
  cap: number;
  devices: number;
}

/**
 * Throws `limit_reached` if the partner or the organization has as many devices as it may have. The quotas stay locked
 * until the end of the transaction; code that locks devices as well locks them first.
 * @param only  the one quota to check, if the device has counted for the partner already
 */
export async function assertDeviceQuota(tx: Tx, orgId: string, only?: QuotaRow['cap_of']): Promise<void> {
  const { rows } = await tx.raw<{ rows: QuotaRow[] }>('select * from lock_device_caps(?)', [orgId]);
  for (const { cap_of: of, cap, devices } of rows) {
    if ((only ?? of) === of && devices >= cap) {
      throw new AppError('limit_reached', `Device limit of the ${of} reached (${cap}).`, {
        details: { limitOf: of, limit: cap },
      });
    }
  }
}

/** A device under a row lock, with the status that decides whether users may act in its organization. */
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

const MOVE_MINUTES = 5;

export async function leaveOrganization(
  ctx: Context,
  { id, orgId, customFields }: LockedDevice,
  target: string,
  kept: ReadonlySet<string>,
) {
  const [from, to] = [await readOrganization(ctx, orgId), await readOrganization(ctx, target)];
  await assertDeviceQuota(ctx.tx, target, from.partnerId === to.partnerId ? 'organization' : undefined);
  const { rows } = await ctx.tx.raw<{ rows: { id: string; name: string }[] }>(
    `with ended as (delete from device_group_members where org_id = ? and device_id = ? returning group_id),
    noted as (
      insert into device_group_changes (org_id, group_id, device_id, hostname, change, reason, changed_by)
      select d.org_id, ended.group_id, d.id, d.hostname, 'left', 'device_moved', ?::uuid
      from ended join devices d on d.org_id = ? and d.id = ?)
    select g.id, g.name from device_groups g join ended on ended.group_id = g.id order by ${nameOrder('g.name')}, g.id`,
    [orgId, id, ctx.caller.userId, orgId, id],
  );
  // A device may have stored many events, and each of them is rewritten.
  await ctx.tx.raw(`set local statement_timeout = '${MOVE_MINUTES}min'`);
  const customFieldsDropped = Object.keys(customFields).filter((key) => !kept.has(key));
  return { groupsLeft: rows, customFieldsDropped };
}

export const AT_ONCE = 1000;

export interface Ended {
  id: string;
  org_id: string;
  partner_id: string;
  hostname: string;
  until: Date;
}

// A device that is being changed, or whose maintenance another node is ending, is left for the next check.
export const END = `
  with over as (
    select d.id, o.partner_id, d.maintenance_until as until
    from devices d join organizations o on o.id = d.org_id
    where d.condition = 'maintenance' and d.maintenance_until <= now()
      and (?::uuid is null or d.org_id = ?::uuid) and not d.org_id = any(?::uuid[])
    order by d.maintenance_until limit ${AT_ONCE} for no key update of d skip locked
  )
  update devices d set condition = 'normal', maintenance_until = null, updated_at = now()
  from over where d.id = over.id
  returning d.id, d.org_id, over.partner_id, d.hostname, over.until`;

export const WAITING = `select distinct org_id from devices where condition = 'maintenance' and maintenance_until <= now()`;

export const organizationsWithExpiredMaintenance = (tx: Tx) =>
  tx.raw<{ rows: { org_id: string }[] }>(WAITING);

/** Ends the maintenance of some devices whose time is over. */
export async function endExpiredMaintenance(
  tx: Tx,
  { only, without }: { only: string | undefined; without: readonly string[] },
): Promise<Ended[]> {
  const { rows } = await tx.raw<{ rows: Ended[] }>(END, [
    only ?? null,
    only ?? null,
    [...without],
  ] as string[]);
  return rows;
}

/** The organizations of devices. */
export async function organizationsOf(tx: Tx, deviceIds: readonly string[]): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { org_id: string }[] }>(
    'select distinct org_id from devices where id = any(?::uuid[])',
    [[...deviceIds]],
  );
  return rows.map((row) => row.org_id);
}
