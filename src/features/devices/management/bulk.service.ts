import { type Context, holds } from '../../../platform/context.ts';
import { AppError, notFound, wireCode, type ErrorCode } from '../../../platform/errors.ts';
import { type Definitions, definitionsToStoreBy, faultsOf } from '../../custom-fields/index.ts';
import { isManageable } from '../../organizations/index.ts';
import { readSite } from '../../sites/index.ts';
import { type DecommissionParts, takeOutOfService } from './decommission.service.ts';
import { type DeviceToChange, lockDevices } from './device-lock.ts';
import { noMaintenance, setMaintenance } from './maintenance.service.ts';
import { type BulkAction, type BulkChange, hasTooManyTags, TOO_MANY_TAGS } from './management.schema.ts';
import { movedMeanwhile, passOnAutoUpdate, splitValues, type UpdateParts } from './update.service.ts';

export type BulkParts = UpdateParts & DecommissionParts;

export interface Refusal {
  code: string;
  message: string;
}
const refusal = (code: ErrorCode, message: string): Refusal => ({ code: wireCode(code), message });
const MOVED = refusal('conflict', movedMeanwhile().message);
const GONE = refusal('not_found', notFound('Device').message);

/** One kind of change: what forbids it for a device, and the few statements that make it for all the others. */
interface Change {
  refuses(device: DeviceToChange): Refusal | undefined;
  make(devices: readonly DeviceToChange[]): Promise<unknown>;
}

/** Changes each of the devices that can be changed; the others are told apart, and stop nobody. */
export async function changeInBulk(ctx: Context, { deviceIds, action }: BulkChange, parts: BulkParts) {
  const change = await changeOf(ctx, deviceIds, action, parts);
  const found = new Map((await lockDevices(ctx, deviceIds)).map((device) => [device.id, device]));
  const changed: DeviceToChange[] = [];
  const results = deviceIds.map((deviceId) => {
    const device = found.get(deviceId);
    const why = device === undefined ? GONE : (inactive(device) ?? change.refuses(device));
    if (why !== undefined || device === undefined) return { deviceId, ok: false, ...why };
    changed.push(device);
    return { deviceId, ok: true };
  });
  if (changed.length > 0) await change.make(changed);
  return { results, succeeded: changed.length, failed: results.length - changed.length, changed };
}

function inactive({ orgStatus }: DeviceToChange): Refusal | undefined {
  if (isManageable(orgStatus)) return undefined;
  return refusal('tenant_inactive', `The organization of this device is ${orgStatus}.`);
}

async function changeOf(
  ctx: Context,
  deviceIds: readonly string[],
  action: BulkAction,
  parts: BulkParts,
): Promise<Change> {
  const { hub } = parts;
  const tellLater = (devices: readonly DeviceToChange[]) =>
    ctx.afterCommit(() => hub.devicesChanged(idsOf(devices)));
  switch (action.type) {
    case 'tags':
      return {
        refuses: ({ tags }) =>
          hasTooManyTags(tagsAfter(tags, action)) ? refusal('conflict', TOO_MANY_TAGS) : undefined,
        make: async (devices) => {
          await setTags(ctx, idsOf(devices), action);
          tellLater(devices);
        },
      };
    case 'maintenance':
      return {
        refuses: (device) => {
          const why = noMaintenance(device);
          return why === undefined ? undefined : refusal('conflict', why);
        },
        make: async (devices) => {
          await setMaintenance(ctx, idsOf(devices), action);
          tellLater(devices);
        },
      };
    case 'site': {
      const site = await readSite(ctx, action.siteId);
      return {
        refuses: ({ orgId }) =>
          orgId === site.orgId
            ? undefined
            : refusal('conflict', 'The site belongs to another organization than the device.'),
        make: async (devices) => {
          await update(ctx, idsOf(devices), { site_id: site.id });
          const moved = devices.filter(({ siteId }) => siteId !== site.id);
          ctx.afterCommit(() => hub.devicesMoved(idsOf(moved)));
        },
      };
    }
    case 'decommission':
      if (!holds(ctx.caller.permissions, 'devices:delete')) {
        throw new AppError('forbidden', 'This needs the permission devices:delete.');
      }
      return {
        refuses: () => undefined,
        make: (devices) => takeOutOfService(ctx, idsOf(devices), parts),
      };
    case 'customFields': {
      const refused = await refusedValues(ctx, deviceIds, action.set);
      return {
        refuses: ({ orgId }) => (refused.has(orgId) ? refused.get(orgId) : MOVED),
        make: async (devices) => {
          const { set, remove } = splitValues(action.set);
          await update(ctx, idsOf(devices), {
            custom_fields: ctx.tx.raw('(custom_fields || ?::jsonb) - ?::text[]', [set, remove]),
          });
          tellLater(devices);
        },
      };
    }
    case 'autoUpdate':
      return {
        refuses: () => undefined,
        make: async (devices) => {
          await update(ctx, idsOf(devices), { auto_update: action.enabled });
          await passOnAutoUpdate(ctx, devices, action.enabled, parts);
          tellLater(devices);
        },
      };
    default:
      return action satisfies never;
  }
}

const idsOf = (devices: readonly { id: string }[]) => devices.map(({ id }) => id);

async function update(ctx: Context, ids: readonly string[], columns: object): Promise<void> {
  await ctx
    .tx('devices')
    .whereRaw('id = any(?::uuid[])', [[...ids]])
    .update({ ...columns, updated_at: new Date() });
}

function tagsAfter(
  tags: readonly string[],
  { add = [], remove = [] }: { add?: string[] | undefined; remove?: string[] | undefined },
): string[] {
  return [...new Set([...tags, ...add])].filter((tag) => !remove.includes(tag));
}

/** As `tagsAfter`, for all at once. */
async function setTags(
  ctx: Context,
  ids: readonly string[],
  { add = [], remove = [] }: { add?: string[] | undefined; remove?: string[] | undefined },
): Promise<void> {
  await update(ctx, ids, {
    tags: ctx.tx.raw(
      `array(select tag from unnest(tags || ?::text[]) with ordinality as t (tag, place)
        where tag <> all(?::text[]) group by tag order by min(place))`,
      [add, remove],
    ),
  });
}

/** By organization of the devices why the values are none of it. Read before the devices are locked: see `lockDevices`. */
async function refusedValues(
  ctx: Context,
  deviceIds: readonly string[],
  values: Record<string, unknown>,
): Promise<Map<string, Refusal | undefined>> {
  const { rows } = await ctx.tx.raw<{ rows: { org_id: string }[] }>(
    'select distinct org_id from devices where id = any(?::uuid[])',
    [[...deviceIds]],
  );
  const orgIds = rows.map((row) => row.org_id);
  const definitions = await definitionsToStoreBy(ctx, orgIds);
  return new Map(
    orgIds.map((orgId) => {
      const faults = faultsOf(values, definitions.get(orgId) ?? (new Map() as Definitions));
      if (faults.length === 0) return [orgId, undefined] as const;
      const message = faults.map((fault) => `${fault.key}: ${fault.message}`).join('; ');
      return [orgId, refusal('validation_failed', message)] as const;
    }),
  );
}
