import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { AppError, invalid, noFields } from '../../../platform/errors.ts';
import { type CustomValues, definitionsToStoreBy, faultsOf } from '../../custom-fields/index.ts';
import { readSite } from '../../sites/index.ts';
import { readDevice } from '../device.service.ts';
import { type DeviceToChange, lockDevice } from './device-lock.ts';
import type { DevicePatch } from './management.schema.ts';

/** Tells agents whether to update themselves; made of the ledger of commands, which stands above devices. */
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
  const { orgId, siteId } = await readDevice(ctx, id);
  if (patch.customFields !== undefined) await assertValues(ctx, orgId, patch.customFields);
  if (patch.siteId !== undefined) await assertSiteOf(ctx, orgId, patch.siteId);
  const device = await lockDevice(ctx, id);
  if (device.orgId !== orgId) throw movedMeanwhile();
  await store(ctx, id, patch);
  if (patch.autoUpdate !== undefined) await passOnAutoUpdate(ctx, [device], patch.autoUpdate, parts);
  const hasMoved = patch.siteId !== undefined && patch.siteId !== siteId;
  ctx.afterCommit(() => (hasMoved ? parts.hub.devicesMoved([id]) : parts.hub.devicesChanged([id])));
  const after = await readDevice(ctx, id);
  ctx.recordChange(changeable(device), changeable(after));
  return { ...after, changedFields };
}

/** What PATCH can change of a device. */
const changeable = ({
  displayName,
  tags,
  customFields,
  autoUpdate,
  siteId,
}: Pick<DeviceToChange, 'displayName' | 'tags' | 'customFields' | 'autoUpdate' | 'siteId'>) => ({
  displayName,
  tags,
  customFields,
  autoUpdate,
  siteId,
});

export const movedMeanwhile = () =>
  new AppError('conflict', 'The device has moved to another organization at this moment. Try again.');

export async function assertSiteOf(ctx: Context, orgId: string, siteId: string): Promise<void> {
  const site = await readSite(ctx, siteId);
  if (site.orgId !== orgId) throw invalid('body.siteId', 'must be a site of the organization');
}

/** Values that are removed, and those that are laid over what is there. */
export function splitValues(values: CustomValues): { set: string; remove: string[] } {
  const entries = Object.entries(values);
  return {
    set: JSON.stringify(Object.fromEntries(entries.filter(([, value]) => value !== null))),
    remove: entries.filter(([, value]) => value === null).map(([key]) => key),
  };
}

/** Agents that cannot be told go by what the server answers them. */
export async function passOnAutoUpdate(
  ctx: Context,
  devices: readonly { id: string; orgId: string; capabilities: readonly string[] }[],
  enabled: boolean,
  { tellAutoUpdate }: Pick<UpdateParts, 'tellAutoUpdate'>,
): Promise<void> {
  const able = devices.filter(({ capabilities }) => capabilities.includes('agent.set-auto-update'));
  if (able.length > 0) await tellAutoUpdate(ctx, able, enabled);
}

async function assertValues(ctx: Context, orgId: string, values: CustomValues): Promise<void> {
  const definitions = (await definitionsToStoreBy(ctx, [orgId])).get(orgId) ?? new Map();
  const faults = faultsOf(values, definitions);
  const [first] = faults;
  if (first === undefined) return;
  throw new AppError('validation_failed', `body.customFields.${first.key}: ${first.message}`, {
    details: faults.map(({ key, message }) => ({ path: `body.customFields.${key}`, message })),
  });
}

async function store(ctx: Context, id: string, patch: DevicePatch): Promise<void> {
  const { displayName, tags, customFields, autoUpdate, siteId } = patch;
  const values = customFields === undefined ? undefined : splitValues(customFields);
  await ctx
    .tx('devices')
    .where({ id })
    .update({
      updated_at: new Date(),
      ...(displayName === undefined ? {} : { display_name: displayName }),
      ...(tags === undefined ? {} : { tags }),
      ...(autoUpdate === undefined ? {} : { auto_update: autoUpdate }),
      ...(siteId === undefined ? {} : { site_id: siteId }),
      ...(values === undefined
        ? {}
        : {
            custom_fields: ctx.tx.raw('(custom_fields || ?::jsonb) - ?::text[]', [values.set, values.remove]),
          }),
    });
}

function fieldsOf({ customFields = {}, ...fields }: DevicePatch): string[] {
  return [...Object.keys(fields), ...Object.keys(customFields).map((key) => `customFields.${key}`)];
}
