import { type PartialModelObject, raw } from 'objection';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { AppError, invalid, noFields } from '../../../platform/errors.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { type CustomValues, definitionsToStoreBy, faultsOf } from '../../custom-fields/index.ts';
import { readSite } from '../../sites/index.ts';
import { Device } from '../device.model.ts';
import { findDevice, readDevice } from '../device.service.ts';
import { lockDevice } from './device-lock.ts';
import type { DevicePatch } from './management.schema.ts';

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
