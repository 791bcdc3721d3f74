import type { Context } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { containing } from '../../platform/db/like-pattern.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { sentFields } from '../../platform/sent-fields.ts';
import { listDevices, positionsOutsideOrganization } from '../devices/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { readSite } from '../sites/index.ts';
import { Group } from './group.model.ts';
import type { GroupDeviceQuery, GroupPatch, GroupQuery, NewGroup } from './group.schema.ts';

const accessible = (ctx: Context) =>
  Group.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'device_groups.org_id'));

/** A decommissioned device keeps its groups, for it may come back, and is neither listed nor counted in them. */
const DEVICE_COUNT_SQL = `(select count(*)::int from device_group_members m
  join devices d on d.org_id = m.org_id and d.id = m.device_id
  where m.org_id = device_groups.org_id and m.group_id = device_groups.id and d.condition <> 'decommissioned')`;

const counted = (ctx: Context) =>
  accessible(ctx).select('device_groups.*', ctx.tx.raw(`${DEVICE_COUNT_SQL} as device_count`));

export async function listGroups(ctx: Context, query: GroupQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const groups = counted(ctx)
    .orderByRaw('lower(device_groups.name), device_groups.id')
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) void groups.where('org_id', query.orgId);
  if (query.siteId !== undefined) void groups.where('site_id', query.siteId);
  if (query.search !== undefined) void groups.whereILike('name', containing(query.search));
  return toPage(query, await groups);
}

export async function readGroup(ctx: Context, id: string): Promise<Group> {
  const group = await counted(ctx).findById(id);
  if (group === undefined) throw notFound('Group');
  return group;
}

export async function listGroupDevices(ctx: Context, id: string, query: GroupDeviceQuery) {
  await readGroup(ctx, id);
  return listDevices(ctx, { ...query, groupId: id });
}

export async function createGroup(ctx: Context, { deviceIds = [], ...fields }: NewGroup): Promise<Group> {
  await assertOrganizationAccess(ctx, fields.orgId);
  await assertManageable(ctx, fields.orgId);
  await assertSite(ctx, fields);
  const group = await withOwnName(
    Group.query(ctx.tx).insert({ ...sentFields(fields), createdBy: ctx.caller.userId }),
  );
  await insertMembers(ctx, group, deviceIds);
  return readGroup(ctx, group.id);
}

export async function updateGroup(ctx: Context, id: string, { orgId, ...patch }: GroupPatch) {
  const group = await readGroupToChange(ctx, id);
  if (orgId !== undefined && orgId !== group.orgId) throw invalid('body.orgId', 'cannot be changed');
  const changes = sentFields(patch);
  const changedFields = Object.keys(changes);
  if (changedFields.length === 0) throw noFields();
  await assertSite(ctx, { ...patch, orgId: group.orgId });
  await withOwnName(group.$query(ctx.tx).patch(changes));
  return Object.assign(await readGroup(ctx, id), { changedFields });
}

/** The devices stay. */
export async function deleteGroup(ctx: Context, id: string) {
  const group = await readGroupToChange(ctx, id);
  await group.$query(ctx.tx).delete();
  return { success: true as const, group };
}

/** Those that are in the group already are passed over. */
export async function addMembers(ctx: Context, id: string, deviceIds: readonly string[]) {
  const group = await readGroupToChange(ctx, id);
  const added = await insertMembers(ctx, group, deviceIds);
  return { added, total: (await readGroup(ctx, id)).deviceCount, group };
}

/** Those that are not in the group are passed over, whatever they are. */
export async function removeMembers(ctx: Context, id: string, deviceIds: readonly string[]) {
  const group = await readGroupToChange(ctx, id);
  const removed = await ctx
    .tx('device_group_members')
    .where({ org_id: group.orgId, group_id: id })
    .whereRaw('device_id = any(?::uuid[])', [[...deviceIds]])
    .delete();
  return { removed, total: (await readGroup(ctx, id)).deviceCount, group };
}

/** Locked, so that changes of one group come one after the other, and none to a group that is being deleted. */
async function readGroupToChange(ctx: Context, id: string): Promise<Group> {
  const group = await accessible(ctx).findById(id).forUpdate();
  if (group === undefined) throw notFound('Group');
  await assertManageable(ctx, group.orgId);
  return group;
}

async function insertMembers(ctx: Context, group: Group, deviceIds: readonly string[]): Promise<number> {
  const outside = await positionsOutsideOrganization(ctx, group.orgId, deviceIds);
  const [first] = outside;
  if (first !== undefined) {
    const message = 'must be a device of the organization';
    throw new AppError('validation_failed', `body.deviceIds.${first}: ${message}`, {
      details: outside.map((position) => ({ path: `body.deviceIds.${position}`, message })),
    });
  }
  const { rowCount } = await ctx.tx.raw<{ rowCount: number }>(
    `insert into device_group_members (group_id, device_id, org_id, added_by)
    select ?::uuid, given.id, ?::uuid, ?::uuid from unnest(?::uuid[]) as given (id)
    on conflict do nothing`,
    [group.id, group.orgId, ctx.caller.userId, [...deviceIds]],
  );
  return rowCount;
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
