import { raw } from 'objection';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { namingConflict } from '../../../platform/db/database-errors.ts';
import { nameOrder } from '../../../platform/db/name-order.ts';
import { definitionsToStoreBy } from '../../custom-fields/index.ts';
import { assertManageable, assertOrganizationAccess, readOrganization } from '../../organizations/index.ts';
import { assertDeviceQuota } from './device-quota.ts';
import { Device } from '../device.model.ts';
import { readDevice } from '../device.service.ts';
import { type LockedDevice, lockDevice } from './device-lock.ts';
import type { DeviceMove } from './management.schema.ts';
import { assertSiteOf, movedMeanwhile } from './update.service.ts';

const MOVE_MINUTES = 5;

/**
 * Moves a device to another site, which may be one of another organization. The records of the device move with it by
 * their foreign keys; the answer names what cannot. The token stays valid, and the agent reconnects as the moved device.
 */
export async function moveDevice(ctx: Context, id: string, { orgId, siteId }: DeviceMove, hub: DeviceHub) {
  const before = await readDevice(ctx, id);
  const target = orgId ?? before.orgId;
  if (target !== before.orgId) {
    await assertOrganizationAccess(ctx, target);
    await assertManageable(ctx, target);
  }
  await assertSiteOf(ctx, target, siteId);
  const kept = target === before.orgId ? undefined : await sharedKeys(ctx, before.orgId, target);
  const device = await lockDevice(ctx, id);
  if (device.orgId !== before.orgId) throw movedMeanwhile();
  const left =
    kept === undefined
      ? { groupsLeft: [], customFieldsDropped: [] }
      : await leaveOrganization(ctx, device, target, kept);
  await namingConflict(
    Device.query(ctx.tx)
      .findById(id)
      .patch({
        orgId: target,
        siteId,
        customFields: raw('custom_fields - ?::text[]', [left.customFieldsDropped]),
      }),
    'devices_machine_key',
    'body.orgId',
    'The organization already has another device with the same machine id.',
  );
  ctx.recordChange({ orgId: device.orgId, siteId: device.siteId }, { orgId: target, siteId });
  ctx.afterCommit(() => hub.devicesMoved([id]));
  return { device: await readDevice(ctx, id), ...left, from: { orgId: before.orgId, siteId: before.siteId } };
}

/** Keys that both organizations define with the same type. */
async function sharedKeys(ctx: Context, from: string, to: string): Promise<ReadonlySet<string>> {
  const definitions = await definitionsToStoreBy(ctx, [from, to]);
  const there = definitions.get(to);
  const same = [...(definitions.get(from) ?? [])].filter(([key, type]) => there?.get(key) === type);
  return new Set(same.map(([key]) => key));
}

async function leaveOrganization(
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
