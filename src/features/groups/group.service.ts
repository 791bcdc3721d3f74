// A group belongs to an organization and can contain any of its devices, across sites; its site is only a label. The
// foreign keys of a membership include the organization on both sides. Each change locks the row of the group, so counts
// are exact. A decommissioned device keeps its memberships but is neither listed nor counted.
import type { DeviceHub } from '../../hub/index.ts';
import type { Context } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { containing, nameOrder } from '../../platform/db/statement.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { listDevices, positionsOutsideOrganization } from '../devices/index.ts';
import type { Conditions } from '../conditions/index.ts';
import { conditionsForGroup } from '../filters/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { readSite } from '../sites/index.ts';
import { assertNoGroupCycle } from './filter-dependencies.ts';
import { Group } from './group.model.ts';
import type {
  GroupChange,
  GroupChangeQuery,
  GroupDeviceQuery,
  GroupPatch,
  GroupQuery,
  NewGroup,
} from './group.schema.ts';
import {
  assertStatic,
  join,
  leave,
  reconcile,
  accessibleGroups,
  groupsWithDeviceCount,
} from './group.queries.ts';

/** The maximum for one organization. */
const GROUPS_MAX = 1000;

type Hub = Pick<DeviceHub, 'devicesChanged'>;

export async function listGroups(ctx: Context, query: GroupQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const groups = groupsWithDeviceCount(ctx)
    .orderByRaw(`${nameOrder('device_groups.name')}, device_groups.id`)
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) void groups.where('org_id', query.orgId);
  if (query.siteId !== undefined) void groups.where('site_id', query.siteId);
  if (query.search !== undefined) void groups.whereILike('name', containing(query.search));
  return toPage(query, await groups);
}

export async function readGroup(ctx: Context, id: string): Promise<Group> {
  const group = await groupsWithDeviceCount(ctx).findById(id);
  if (group === undefined) throw notFound('Group');
  return group;
}

export async function listGroupDevices(ctx: Context, id: string, query: GroupDeviceQuery) {
  await readGroup(ctx, id);
  return listDevices(ctx, { ...query, groupId: id });
}

export async function createGroup(
  ctx: Context,
  { deviceIds, ...fields }: NewGroup,
  hub: Hub,
): Promise<Group> {
  await assertOrganizationAccess(ctx, fields.orgId);
  await assertManageable(ctx, fields.orgId);
  await assertSite(ctx, fields);
  const { type = 'static', filterId = null } = fields;
  assertKind({ type, filterId });
  if (type === 'dynamic' && deviceIds !== undefined) {
    throw invalid('body.deviceIds', 'is not allowed for a dynamic group');
  }
  await assertGroupQuota(ctx, fields.orgId);
  const conditions = filterId === null ? undefined : await filterOf(ctx, fields.orgId, filterId);
  const group = await withOwnName(
    Group.query(ctx.tx).insertAndFetch({
      ...omitUndefined(fields),
      type,
      filterId,
      createdBy: ctx.caller.userId,
    }),
  );
  const why = { reason: 'group_created', by: ctx.caller.userId } as const;
  const joined =
    conditions === undefined
      ? await insertMembers(ctx, group, deviceIds ?? [], why)
      : await reconcileNow(ctx, { group, filterId, conditions }, why);
  publishChanges(ctx, hub, joined);
  return readGroup(ctx, group.id);
}

export async function updateGroup(ctx: Context, id: string, { orgId, ...patch }: GroupPatch, hub: Hub) {
  const group = await readGroupToChange(ctx, id);
  if (orgId !== undefined && orgId !== group.orgId) throw invalid('body.orgId', 'cannot be changed');
  const changes = omitUndefined(patch);
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  const before = changeable(group);
  await assertSite(ctx, { ...patch, orgId: group.orgId });
  const type = patch.type ?? group.type;
  // A group that becomes static keeps its current devices and loses its filter.
  const filterId = patch.filterId ?? (type === 'static' ? null : group.filterId);
  assertKind({ type, filterId: patch.filterId === null && type === 'dynamic' ? null : filterId });
  const isNewFilter = filterId !== null && filterId !== group.filterId;
  const conditions = isNewFilter ? await filterOf(ctx, group.orgId, filterId) : undefined;
  await withOwnName(group.$query(ctx.tx).patch({ ...changes, type, filterId }));
  if (conditions !== undefined) {
    const why = { reason: 'filter_changed', by: ctx.caller.userId } as const;
    publishChanges(ctx, hub, await reconcileNow(ctx, { group, filterId, conditions }, why));
  }
  const updated = await readGroup(ctx, id);
  ctx.recordChange(before, changeable(updated));
  return Object.assign(updated, { changedFields });
}

/** The fields that PATCH can change. */
const changeable = ({ name, description, type, siteId, filterId }: Group) => ({
  name,
  description,
  type,
  siteId,
  filterId,
});

/** Deletes the group, but not its devices. */
export async function deleteGroup(ctx: Context, id: string, hub: Hub) {
  const group = await readGroupToChange(ctx, id);
  const members = await ctx
    .tx('device_group_members')
    .where({ org_id: group.orgId, group_id: id })
    .pluck('device_id');
  await group.$query(ctx.tx).delete();
  publishChanges(ctx, hub, members as string[]);
  return { success: true as const, group };
}

/** Ignores devices that are already in the group. */
export async function addMembers(ctx: Context, id: string, deviceIds: readonly string[], hub: Hub) {
  const group = await readGroupToChange(ctx, id);
  assertStatic(group);
  const joined = await insertMembers(ctx, group, deviceIds, { reason: 'manual', by: ctx.caller.userId });
  publishChanges(ctx, hub, joined);
  const { deviceCount: total } = await readGroup(ctx, id);
  recordMembers(ctx, { before: total - joined.length, after: total });
  return { added: joined.length, total, group };
}

/** Ignores ids that are not in the group. */
export async function removeMembers(ctx: Context, id: string, deviceIds: readonly string[], hub: Hub) {
  const group = await readGroupToChange(ctx, id);
  assertStatic(group);
  const gone = await leave(ctx.tx, group, deviceIds, ctx.caller.userId);
  publishChanges(ctx, hub, gone);
  const { deviceCount: total } = await readGroup(ctx, id);
  recordMembers(ctx, { before: total + gone.length, after: total });
  return { removed: gone.length, total, group };
}

/** How many devices the group has; which of them have joined or left is in its own list of changes. */
const recordMembers = (ctx: Context, { before, after }: { before: number; after: number }) =>
  ctx.recordChange({ deviceCount: before }, { deviceCount: after });

/** The membership changes of a group, newest first. */
export async function listGroupChanges(
  ctx: Context,
  id: string,
  { page, limit, deviceId }: GroupChangeQuery,
) {
  const group = await readGroup(ctx, id);
  const changes = ctx.tx('device_group_changes').where({ org_id: group.orgId, group_id: id });
  if (deviceId !== undefined) void changes.where('device_id', deviceId);
  const [counted] = await changes.clone().count<{ count: string }[]>('* as count');
  const rows = await changes
    .orderBy('id', 'desc')
    .offset((page - 1) * limit)
    .limit(limit)
    .select<ChangeRow[]>('device_id', 'hostname', 'change', 'reason', 'at', 'changed_by');
  return {
    data: rows.map(({ device_id: deviceId, hostname, changed_by: by, at, ...row }) => ({
      ...row,
      device: { id: deviceId, hostname },
      at: at.toISOString(),
      by,
    })),
    pagination: { page, limit, total: Number(counted?.count ?? 0) },
  };
}

interface ChangeRow extends Pick<GroupChange, 'change' | 'reason'> {
  device_id: string;
  hostname: string;
  at: Date;
  changed_by: string | null;
}

/** Publishes the devices whose membership changed, after the commit. */
function publishChanges(ctx: Context, hub: Hub, deviceIds: readonly string[]): void {
  if (deviceIds.length > 0) ctx.afterCommit(() => hub.devicesChanged(deviceIds));
}

function assertKind({ type, filterId }: Pick<Group, 'type' | 'filterId'>): void {
  if (type === 'dynamic' && filterId === null) {
    throw invalid('body.filterId', 'is required for a dynamic group');
  }
  if (type === 'static' && filterId !== null) {
    throw invalid('body.filterId', 'is only allowed for a dynamic group');
  }
}

/** Limits the number of groups, because every change of a device may require evaluating all dynamic ones. */
async function assertGroupQuota(ctx: Context, orgId: string): Promise<void> {
  const count = await accessibleGroups(ctx).where('org_id', orgId).resultSize();
  if (count < GROUPS_MAX) return;
  throw new AppError('limit_reached', `Group limit reached (${GROUPS_MAX}).`);
}

async function filterOf(ctx: Context, orgId: string, filterId: string): Promise<Conditions> {
  const conditions = await conditionsForGroup(ctx, { orgId, filterId });
  if (conditions !== undefined) return conditions;
  throw invalid('body.filterId', 'must be a saved filter of the organization');
}

async function reconcileNow(
  ctx: Context,
  { group, filterId, conditions }: { group: Group; filterId: string | null; conditions: Conditions },
  why: { reason: 'group_created' | 'filter_changed'; by: string },
): Promise<string[]> {
  const known = new Map(filterId === null ? [] : [[filterId, conditions]]);
  await assertNoGroupCycle(ctx.tx, group.orgId, known);
  return reconcile(ctx.tx, group, { conditions, ...why });
}

/** Locked, so that changes of a group are serialized with each other and with its deletion. */
async function readGroupToChange(ctx: Context, id: string): Promise<Group> {
  const group = await accessibleGroups(ctx).findById(id).forUpdate();
  if (group === undefined) throw notFound('Group');
  await assertManageable(ctx, group.orgId);
  return group;
}

async function insertMembers(
  ctx: Context,
  group: Group,
  deviceIds: readonly string[],
  why: { reason: 'manual' | 'group_created'; by: string },
): Promise<string[]> {
  const outside = await positionsOutsideOrganization(ctx, group.orgId, deviceIds);
  const [first] = outside;
  if (first !== undefined) {
    const message = 'must be a device of the organization';
    throw new AppError('validation_failed', `body.deviceIds.${first}: ${message}`, {
      details: outside.map((position) => ({ path: `body.deviceIds.${position}`, message })),
    });
  }
  return join(ctx.tx, group, deviceIds, why);
}

async function assertSite(
  ctx: Context,
  { orgId, siteId }: { orgId: string; siteId?: string | null | undefined },
) {
  if (siteId === undefined || siteId === null) return;
  const site = await readSite(ctx, siteId);
  if (site.orgId !== orgId) throw invalid('body.siteId', 'must be a site of the organization');
}

const withOwnName = <T>(work: PromiseLike<T>) =>
  namingConflict(
    work,
    'device_groups_name_key',
    'body.name',
    'Another group of this organization has this name.',
  );
