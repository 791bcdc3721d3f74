import type { AuditNote } from '../../platform/http/route.ts';
import type { Context } from '../../platform/context.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import type { Query } from '../../platform/db/pool.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { Page } from '../../platform/http/pagination.ts';
import {
  withPatternTimeout,
  type Conditions,
  decommissionedDevices,
  PRESENCE_JOIN,
  visibleDevices,
  whereMatching,
} from '../conditions/index.ts';
import { conditionsOf } from '../filters/index.ts';
import { actingStatusSql, assertOrganizationAccess, isManageable } from '../organizations/index.ts';
import {
  type DeviceInGroups,
  IS_MEMBER,
  NAME_HAS,
  selectDevices,
  SORT_SQL,
  STATUS_IS,
  toDevice,
  withGroups,
} from './device.queries.ts';
import { Device as DeviceModel } from './device.model.ts';
import type { Device, DeviceQuery } from './device.schema.ts';

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

/** Counts, pages and reads in one statement that visits each device once and reads whole records for the page only. */
async function pageOfDevices(tx: Tx, matching: Query, query: DeviceQuery): Promise<Page<Device>> {
  const { page, limit, sort, order } = query;
  const inOrder = (of: string) => `${of}.sort_key ${order} nulls last, ${of}.id`;
  const found = matching.select('d.id', tx.raw(`${SORT_SQL[sort]} as sort_key`));
  const shown = tx
    .from('found')
    .select()
    .orderByRaw(inOrder('found'))
    .offset((page - 1) * limit)
    .limit(limit);
  const paged = tx
    .withMaterialized('found', found)
    .with('shown', shown)
    .from(tx.raw('(select count(*)::int as total from found) as counted'))
    .joinRaw('left join shown on true')
    .joinRaw('left join devices d on d.id = shown.id')
    .joinRaw(PRESENCE_JOIN)
    .orderByRaw(inOrder('shown'))
    .select('counted.total');
  const rows = (await withGroups(selectDevices(paged))) as (DeviceInGroups & { total: number })[];
  // An empty page has one row, with the count alone.
  const data = rows.filter(({ id }) => id !== null).map(toDevice);
  return { data, pagination: { page, limit, total: rows[0]?.total ?? 0 } };
}

/** The stored record of a device in service that the caller can see, without its presence. */
export async function findDevice(ctx: Context, id: string): Promise<DeviceModel> {
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
 * @param path  the field that named the filter, for the error where it matches more than `atMost`
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

/** Why a device is neither asked nor sent anything. */
export const AWAITS_APPROVAL = 'This device waits for approval.';

/** What decides whether a device can be sent a command. */
export interface CommandTarget {
  id: string;
  orgId: string;
  osType: Device['osType'];
  capabilities: string[];
  /** Whether it has ever connected over a socket. */
  hasConnected: boolean;
  /** Whether it waits for approval, and is sent nothing until then. */
  isPending: boolean;
  isManageable: boolean;
}

/**
 * Reads those of the devices that the caller can see, in one query.
 * @param options.withPending  returns devices that wait for approval as well, instead of throwing `device_pending`
 */
export async function commandTargets(
  ctx: Context,
  ids: readonly string[],
  { withPending = false }: { withPending?: boolean } = {},
): Promise<CommandTarget[]> {
  const rows = await visibleDevices(ctx.tx, ctx.caller)
    .join('organizations as o', 'o.id', 'd.org_id')
    .whereRaw('d.id = any(?::uuid[])', [[...ids]])
    .select<(Omit<CommandTarget, 'isManageable'> & { orgStatus: string })[]>(
      'd.id',
      'd.org_id as orgId',
      'd.os_type as osType',
      'd.capabilities',
      ctx.tx.raw('coalesce(p.epoch > 0, false) as "hasConnected"'),
      ctx.tx.raw(`d.condition = 'pending' as "isPending"`),
      ctx.tx.raw(`${actingStatusSql('o')} as "orgStatus"`),
    );
  if (!withPending && rows.some(({ isPending }) => isPending)) throw awaitsApproval();
  return rows.map(({ orgStatus, ...device }) => ({ ...device, isManageable: isManageable(orgStatus) }));
}

const awaitsApproval = () => new AppError('device_pending', AWAITS_APPROVAL);

/** A device that may be asked while somebody waits. Throws `device_pending` for one that waits for approval. */
export async function findAskableDevice(ctx: Context, id: string): Promise<DeviceModel> {
  const device = await findDevice(ctx, id);
  if (device.condition === 'pending') throw awaitsApproval();
  return device;
}

/** The positions in the list, counted from 0, of ids that are not devices of the organization in service. */
export async function positionsOutsideOrganization(
  ctx: Context,
  orgId: string,
  deviceIds: readonly string[],
): Promise<number[]> {
  const { rows } = await ctx.tx.raw<{ rows: { position: number }[] }>(
    `select given.position::int - 1 as position
    from unnest(?::uuid[]) with ordinality as given (id, position)
    left join devices d on d.org_id = ? and d.id = given.id and d.condition <> 'decommissioned'
    where d.id is null order by 1`,
    [[...deviceIds], orgId],
  );
  return rows.map(({ position }) => position);
}
