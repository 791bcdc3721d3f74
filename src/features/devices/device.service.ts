import type { AuditNote } from '../../platform/http/route.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { invalid, notFound } from '../../platform/errors.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Page } from '../../platform/http/pagination.ts';
import {
  withPatternTimeout,
  type Conditions,
  decommissionedDevices,
  visibleDevices,
  whereMatching,
} from '../conditions/index.ts';
import { conditionsOf } from '../filters/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import {
  IS_MEMBER,
  NAME_HAS,
  selectDevices,
  STATUS_IS,
  toDevice,
  withGroups,
  pageOfDevices,
  type CommandTarget,
  awaitsApproval,
} from './device.queries.ts';
import { Device as DeviceModel } from './device.model.ts';
import type { Device, DeviceQuery } from './device.schema.ts';
import { type DeviceHub, withinQueryTimeout } from '../../hub/index.ts';

export async function listDevices(ctx: Context, query: DeviceQuery): Promise<Page<Device>> {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const source = query.status === 'decommissioned' ? decommissionedDevices : visibleDevices;
  const matching = source(ctx.tx, ctx.caller);
  if (query.orgId !== undefined) void matching.where('d.org_id', query.orgId);
  if (query.siteId !== undefined) void matching.where('d.site_id', query.siteId);
  if (query.groupId !== undefined) void IS_MEMBER(matching, query.groupId);
  if (query.osType !== undefined) void matching.where('d.os_type', query.osType);
  if (query.tags !== undefined) void matching.whereRaw('d.tags @> ?::text[]', [query.tags]);
  if (query.status !== undefined) void STATUS_IS(matching, query.status);
  if (query.search !== undefined) void NAME_HAS(matching, query.search);
  if (query.filterId === undefined) return pageOfDevices(ctx.tx, matching, query);
  const conditions = await conditionsOf(ctx, query.filterId);
  const found = whereMatching(matching, conditions, { caller: ctx.caller });
  return withPatternTimeout(ctx.tx, conditions, () => pageOfDevices(ctx.tx, found, query));
}

/** The stored record of a device in service that the caller can see, without its presence. */
export async function findDevice(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<DeviceModel> {
  const device = await DeviceModel.query(ctx.tx)
    .findById(id)
    .whereRaw(inTenant(ctx.caller, 'devices.org_id'))
    .whereNot('condition', 'decommissioned');
  if (device === undefined) throw notFound('Device');
  return device;
}

/** The note of an audit entry about a device that the caller can see. */
export async function noteOfDevice(
  ctx: Context,
  id: string,
  details: Record<string, unknown>,
): Promise<AuditNote> {
  const { orgId, hostname } = await findDevice(ctx, id);
  return { orgId, resourceId: id, resourceName: hostname, details };
}

/** A device as answers show it: with its presence, status and groups. */
export async function readDevice(ctx: Context, id: string): Promise<Device> {
  const [row] = await withGroups(selectDevices(visibleDevices(ctx.tx, ctx.caller).where('d.id', id)));
  if (row === undefined) throw notFound('Device');
  return toDevice(row);
}

/**
 * The ids of the devices that a saved filter matches.
 * @param path  the field that named the filter, for the error if it matches more than `atMost`
 */
export async function devicesFound(
  ctx: Pick<Context, 'tx' | 'caller'>,
  filterId: string,
  { atMost, path }: { atMost: number; path: string },
): Promise<string[]> {
  const conditions: Conditions = await conditionsOf(ctx, filterId);
  const found = whereMatching(visibleDevices(ctx.tx, ctx.caller), conditions, { caller: ctx.caller })
    .select<{ id: string }[]>('d.id')
    .orderBy('d.id')
    .limit(atMost + 1);
  const ids = (await withPatternTimeout(ctx.tx, conditions, () => found)).map(({ id }) => id);
  if (ids.length > atMost) throw invalid(path, `finds more than ${atMost} devices`);
  return ids;
}

/** A device that may be asked while a caller waits. Throws `device_pending` for one that waits for approval. */
export async function findAskableDevice(ctx: Context, id: string): Promise<DeviceModel> {
  const device = await findDevice(ctx, id);
  if (device.condition === 'pending') throw awaitsApproval();
  return device;
}

/**
 * The device that a live query is for. Throws if the caller may not ask it now. One limit from the arrival of the request
 * covers waiting for the database as well, and no connection is held while the device is asked.
 */
export const askableDevice = (ctx: DetachedContext, deviceId: string): Promise<DeviceModel> =>
  withinQueryTimeout(
    ctx.arrivedAt,
    ctx.withTenant(async (tenant) => {
      const device = await findAskableDevice(tenant, deviceId);
      await assertManageable(tenant, device.orgId);
      return device;
    }),
  );

/**
 * Whether a device supports commands of a type. For a connected device the capabilities of its handshake count, even before
 * they are stored. A device that has never connected and reported none is given the benefit of the doubt.
 */
export function supportsCommand(
  hub: Pick<DeviceHub, 'live'>,
  device: Pick<CommandTarget, 'id' | 'capabilities' | 'hasConnected'>,
  type: string,
): boolean {
  const live = hub.live(device.id);
  if (live !== undefined) return live.capabilities.includes(type);
  return device.capabilities.includes(type) || (device.capabilities.length === 0 && !device.hasConnected);
}

/**
 * A device as it has reported itself: what a handshake says is stored a moment later, and counts at once. If another
 * server holds the connection, the stored record counts.
 */
export function asReported<
  T extends Pick<Device, 'id' | 'capabilities' | 'agentVersion' | 'watchdogVersion'>,
>(hub: Pick<DeviceHub, 'live'>, device: T): T {
  const live = hub.live(device.id);
  if (live === undefined || !live.isConnected) return device;
  return {
    ...device,
    capabilities: [...new Set(live.capabilities)].sort(),
    agentVersion: live.agentVersion,
    watchdogVersion: live.watchdogVersion ?? device.watchdogVersion,
  };
}
