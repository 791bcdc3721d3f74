import { type PartialModelObject, raw } from 'objection';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context } from '../../platform/context.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { type CustomValues, definitionsToStoreBy, faultsOf } from '../custom-fields/index.ts';
import { readSite } from '../sites/index.ts';
import { Device } from './device.model.ts';
import { findDevice, readDevice } from './device.service.ts';
import type { DevicePatch, DeviceMove } from './device.schema.ts';
import {
  assertManageableStatus,
  assertManageable,
  assertOrganizationAccess,
} from '../organizations/index.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { type LockedDevice, lockDevices, leaveOrganization } from './device-update.queries.ts';

/** Sends agents a command that sets their auto-update. A port: the ledger of commands stands above devices. */
export type TellAutoUpdate = (
  ctx: Context,
  devices: readonly { id: string; orgId: string }[],
  enabled: boolean,
) => Promise<unknown>;

export interface UpdateParts {
  hub: DeviceHub;
  tellAutoUpdate: TellAutoUpdate;
}

export async function updateDevice(ctx: Context, id: string, patch: DevicePatch, parts: UpdateParts) {
  const changedFields = fieldsOf(patch);
  if (Object.keys(patch).length === 0) throw noFields();
  const checkedFor =
    patch.customFields === undefined ? undefined : await assertValues(ctx, id, patch.customFields);
  const device = await lockDevice(ctx, id);
  if (checkedFor !== undefined && checkedFor !== device.orgId) throw movedMeanwhile();
  if (patch.siteId !== undefined) await assertSiteOf(ctx, device.orgId, patch.siteId);
  await Device.query(ctx.tx).findById(id).patch(columnsOf(patch));
  if (patch.autoUpdate !== undefined) await sendAutoUpdate(ctx, [device], patch.autoUpdate, parts);
  const hasMoved = patch.siteId !== undefined && patch.siteId !== device.siteId;
  ctx.afterCommit(() => (hasMoved ? parts.hub.devicesMoved([id]) : parts.hub.devicesChanged([id])));
  const after = await readDevice(ctx, id);
  ctx.recordChange(changeable(device), changeable(after));
  return { ...after, changedFields };
}

/** The fields that PATCH can change. */
const changeable = ({
  displayName,
  tags,
  customFields,
  autoUpdate,
  siteId,
}: Pick<Device, 'displayName' | 'tags' | 'customFields' | 'autoUpdate' | 'siteId'>) => ({
  displayName,
  tags,
  customFields,
  autoUpdate,
  siteId,
});

export const movedMeanwhile = () =>
  new AppError('conflict', 'The device has just moved to another organization. Try again.');

export async function assertSiteOf(ctx: Context, orgId: string, siteId: string): Promise<void> {
  const site = await readSite(ctx, siteId);
  if (site.orgId !== orgId) throw invalid('body.siteId', 'must be a site of the organization');
}

/** The keys to remove, and the values to merge into those that are stored. */
export function splitValues(values: CustomValues): { set: string; remove: string[] } {
  const entries = Object.entries(values);
  return {
    set: JSON.stringify(Object.fromEntries(entries.filter(([, value]) => value !== null))),
    remove: entries.filter(([, value]) => value === null).map(([key]) => key),
  };
}

/** Agents that do not support the command follow the setting in the server's heartbeat answers. */
export async function sendAutoUpdate(
  ctx: Context,
  devices: readonly { id: string; orgId: string; capabilities: readonly string[] }[],
  enabled: boolean,
  { hub, tellAutoUpdate }: UpdateParts,
): Promise<void> {
  const able = devices.filter(({ id, capabilities }) =>
    (hub.live(id)?.capabilities ?? capabilities).includes('agent.set-auto-update'),
  );
  if (able.length > 0) await tellAutoUpdate(ctx, able, enabled);
}

/**
 * Checks values by the definitions of the device's organization, which stay locked: before the device is, see `lockDevices`.
 * @returns the organization
 */
async function assertValues(ctx: Context, id: string, values: CustomValues): Promise<string> {
  const { orgId } = await findDevice(ctx, id);
  const definitions = (await definitionsToStoreBy(ctx, [orgId])).get(orgId) ?? new Map();
  const faults = faultsOf(values, definitions);
  const [first] = faults;
  if (first === undefined) return orgId;
  throw new AppError('validation_failed', `body.customFields.${first.key}: ${first.message}`, {
    details: faults.map(({ key, message }) => ({ path: `body.customFields.${key}`, message })),
  });
}

function columnsOf({ customFields, ...fields }: DevicePatch): PartialModelObject<Device> {
  if (customFields === undefined) return omitUndefined(fields);
  const { set, remove } = splitValues(customFields);
  return {
    ...omitUndefined(fields),
    customFields: raw('(custom_fields || ?::jsonb) - ?::text[]', [set, remove]),
  };
}

function fieldsOf({ customFields = {}, ...fields }: DevicePatch): string[] {
  return [...Object.keys(fields), ...Object.keys(customFields).map((key) => `customFields.${key}`)];
}

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

/** Locks one device. Throws if its organization is not active. */
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
