import { organizationsOf, type LockedDevice, lockDevices } from './device-update.queries.ts';
import { type PartialModelObject, raw } from 'objection';
import { type Context, holds } from '../../platform/context.ts';
import { AppError, notFound, wireCode, type ErrorCode } from '../../platform/errors.ts';
import { type Definitions, definitionsToStoreBy, faultsOf } from '../custom-fields/index.ts';
import { isManageable } from '../organizations/index.ts';
import { readSite } from '../sites/index.ts';
import { Device } from './device.model.ts';
import { type DecommissionParts, takeOutOfService } from './device-lifecycle.service.ts';
import { movedMeanwhile, sendAutoUpdate, splitValues, type UpdateParts } from './device-update.service.ts';
import { maintenanceRefusal, setMaintenance } from './maintenance.work.ts';
import { type BulkAction, type BulkChange, hasTooManyTags, TOO_MANY_TAGS } from './device.schema.ts';

export type BulkParts = UpdateParts & DecommissionParts;

export interface Refusal {
  code: string;
  message: string;
}
const refusal = (code: ErrorCode, message: string): Refusal => ({ code: wireCode(code), message });
const MOVED = refusal('conflict', movedMeanwhile().message);
const GONE = refusal('not_found', notFound('Device').message);

/** One kind of change: why a device refuses it, and the few statements that make it for all others. */
interface Change {
  refuses(device: LockedDevice): Refusal | undefined;
  make(devices: readonly LockedDevice[]): Promise<unknown>;
}

/** Changes each device that can be changed. The results name the others and why; they do not stop the rest. */
export async function changeInBulk(ctx: Context, { deviceIds, action }: BulkChange, parts: BulkParts) {
  const change = await changeOf(ctx, deviceIds, action, parts);
  const found = new Map((await lockDevices(ctx, deviceIds)).map((device) => [device.id, device]));
  const changed: LockedDevice[] = [];
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

function inactive({ orgStatus }: LockedDevice): Refusal | undefined {
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
  const publishLater = (devices: readonly LockedDevice[]) =>
    ctx.afterCommit(() => hub.devicesChanged(idsOf(devices)));
  switch (action.type) {
    case 'tags':
      return {
        refuses: ({ tags }) =>
          hasTooManyTags(tagsAfter(tags, action)) ? refusal('conflict', TOO_MANY_TAGS) : undefined,
        make: async (devices) => {
          await setTags(ctx, idsOf(devices), action);
          publishLater(devices);
        },
      };
    case 'maintenance':
      return {
        refuses: (device) => {
          const why = maintenanceRefusal(device);
          return why === undefined ? undefined : refusal('conflict', why);
        },
        make: async (devices) => {
          await setMaintenance(ctx, idsOf(devices), action);
          publishLater(devices);
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
          await update(ctx, idsOf(devices), { siteId: site.id });
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
            customFields: raw('(custom_fields || ?::jsonb) - ?::text[]', [set, remove]),
          });
          publishLater(devices);
        },
      };
    }
    case 'autoUpdate':
      return {
        refuses: () => undefined,
        make: async (devices) => {
          await update(ctx, idsOf(devices), { autoUpdate: action.enabled });
          await sendAutoUpdate(ctx, devices, action.enabled, parts);
          publishLater(devices);
        },
      };
    default:
      return action satisfies never;
  }
}

const idsOf = (devices: readonly { id: string }[]) => devices.map(({ id }) => id);

async function update(
  ctx: Context,
  ids: readonly string[],
  changes: PartialModelObject<Device>,
): Promise<void> {
  await Device.query(ctx.tx)
    .whereRaw('id = any(?::uuid[])', [[...ids]])
    .patch(changes);
}

function tagsAfter(
  tags: readonly string[],
  { add = [], remove = [] }: { add?: string[] | undefined; remove?: string[] | undefined },
): string[] {
  return [...new Set([...tags, ...add])].filter((tag) => !remove.includes(tag));
}

/** Does what `tagsAfter` does, for all devices in one statement. */
async function setTags(
  ctx: Context,
  ids: readonly string[],
  { add = [], remove = [] }: { add?: string[] | undefined; remove?: string[] | undefined },
): Promise<void> {
  await update(ctx, ids, {
    tags: raw(
      `array(select tag from unnest(tags || ?::text[]) with ordinality as t (tag, place)
        where tag <> all(?::text[]) group by tag order by min(place))`,
      [add, remove],
    ),
  });
}

/**
 * Why an organization does not accept the values, by the organizations of the devices. Read before the devices are
 * locked: see `lockDevices`.
 */
async function refusedValues(
  ctx: Context,
  deviceIds: readonly string[],
  values: Record<string, unknown>,
): Promise<Map<string, Refusal | undefined>> {
  const orgIds = await organizationsOf(ctx.tx, deviceIds);
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
