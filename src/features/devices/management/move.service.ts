import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { namingConflict } from '../../../platform/db/database-errors.ts';
import { nameOrder } from '../../../platform/db/name-order.ts';
import { definitionsToStoreBy } from '../../custom-fields/index.ts';
import { assertManageable, assertOrganizationAccess, readOrganization } from '../../organizations/index.ts';
import { assertRoomForDevice } from './device-quota.ts';
import { readDevice } from '../device.service.ts';
import { type DeviceToChange, lockDevice } from './device-lock.ts';
import type { DeviceMove } from './management.schema.ts';
import { assertSiteOf, movedMeanwhile } from './update.service.ts';

const MOVE_MINUTES = 5;

/**
 * To another site, and with it to another organization. All that belongs to the device goes with it, by the keys that
 * refer to it; what cannot is named. Its token stays good, and the agent comes back under what the device is now.
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
  const custom = left.customFieldsDropped;
  await namingConflict(
    ctx
      .tx('devices')
      .where({ id })
      .update({
        org_id: target,
        site_id: siteId,
        custom_fields: ctx.tx.raw('custom_fields - ?::text[]', [custom]),
        updated_at: new Date(),
      }),
    'devices_machine_key',
    'body.orgId',
    'The organization has this very machine as another device already.',
  );
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
  { id, orgId, customFields }: DeviceToChange,
  target: string,
  kept: ReadonlySet<string>,
) {
  const [from, to] = [await readOrganization(ctx, orgId), await readOrganization(ctx, target)];
  await assertRoomForDevice(ctx.tx, target, from.partnerId === to.partnerId ? 'organization' : undefined);
  const { rows } = await ctx.tx.raw<{ rows: { id: string; name: string }[] }>(
    `with ended as (delete from device_group_members where org_id = ? and device_id = ? returning group_id),
    noted as (
      insert into device_group_changes (org_id, group_id, device_id, hostname, change, reason, changed_by)
      select d.org_id, ended.group_id, d.id, d.hostname, 'left', 'device_moved', ?::uuid
      from ended join devices d on d.org_id = ? and d.id = ?)
    select g.id, g.name from device_groups g join ended on ended.group_id = g.id order by ${nameOrder('g.name')}, g.id`,
    [orgId, id, ctx.caller.userId, orgId, id],
  );
  // A machine may have stored a great many events, each of which is rewritten.
  await ctx.tx.raw(`set local statement_timeout = '${MOVE_MINUTES}min'`);
  const customFieldsDropped = Object.keys(customFields).filter((key) => !kept.has(key));
  return { groupsLeft: rows, customFieldsDropped };
}
